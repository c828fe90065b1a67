#!/usr/bin/env bash
# Linux's own virtio disk driver against `nandle serve --vhost-user`, in the virtual machine of boot.sh.
#
#   vhost.sh path/to/nandle        exit 0: all was as expected, 77: cannot be run here (it says why), 1: failed
set -euo pipefail
nandle=$(realpath "${1:?usage: vhost.sh path/to/nandle}")
here=$(cd "$(dirname "$0")" && pwd)
source "$here/boot.sh"
needs mkfs.ext4 mkfs.f2fs fio fsck.ext4 fsck.f2fs blkdiscard
work=$(mktemp -d)
trap 'kill $server 2>/dev/null || true; rm -rf "$work"' EXIT
server=
fetch_kernel

"$nandle" serve --device demo --scheme waflash --timing off --vhost-user "$work/socket" > "$work/served" 2>&1 &
server=$!
for _ in $(seq 100); do grep -q '^vhost' "$work/served" && break; sleep 0.1; done
[ -S "$work/socket" ] || { cat "$work/served" >&2; exit 1; }
pack "$here/vhost-inside.sh" virtio_pci virtio_net virtio_blk 9pnet_virtio 9p ext4 f2fs crc32c_generic libcrc32c
boot -object memory-backend-memfd,id=m,size=1G,share=on -numa node,memdev=m \
  -chardev socket,id=c,path="$work/socket" -device vhost-user-blk-pci,chardev=c
kill -TERM $server && wait $server
cat "$work/served"
grep -q '^ALL GOOD' "$work/said"
