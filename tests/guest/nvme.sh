#!/usr/bin/env bash
# Linux's own NVMe/TCP initiator against `nandle serve --nvme-tcp`, in the virtual machine of boot.sh.
#
#   nvme.sh path/to/nandle        exit 0: all was as expected, 77: cannot be run here (it says why), 1: failed
#
# FIO = the fio that writes with placement identifiers, which takes 3.35 or newer, at a path that the virtual machine
# sees (not below /tmp, /run or /mnt); else the installed one.
set -euo pipefail
nandle=$(realpath "${1:?usage: nvme.sh path/to/nandle}")
here=$(cd "$(dirname "$0")" && pwd)
source "$here/boot.sh"
needs nvme mkfs.ext4 mkfs.f2fs fio fsck.ext4 fsck.f2fs blkdiscard
work=$(mktemp -d)
trap 'kill $server 2>/dev/null || true; rm -rf "$work"' EXIT
server=

fetch_kernel

# The drive knows objects, and what a drive with FDP says is asked of a second one.
serve() {
  "$nandle" serve --device demo --timing off --nvme-tcp :0 "${@:2}" > "$work/$1" 2>&1 &
  server="$server $!"
  for _ in $(seq 100); do grep -q '^nvme' "$work/$1" && break; sleep 0.1; done
  grep '^nvme' "$work/$1" | sed 's/^nvme *//; s/127.0.0.1/10.0.2.2/'
}
serve objects --scheme flashalloc --set op_ratio=0.5 --seed 2 > "$work/connect1"
serve handles --scheme fdp --set streams.count=4 --set op_ratio=0.9 --seed 3 > "$work/connect2"
[ -s "$work/connect1" ] && [ -s "$work/connect2" ] || { cat "$work/objects" "$work/handles" >&2; exit 1; }
{
  echo "fio='${FIO:-fio}'"
  echo "connect1='$(cat "$work/connect1")'"
  echo "connect2='$(cat "$work/connect2")'"
  cat "$here/nvme-inside.sh"
} > "$work/inside.sh"
pack "$work/inside.sh" virtio_pci virtio_net 9pnet_virtio 9p nvme_tcp ext4 f2fs crc32c_generic libcrc32c
boot -netdev user,id=n -device virtio-net-pci,netdev=n,romfile=
grep -q '^ALL GOOD' "$work/said"
