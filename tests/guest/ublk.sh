#!/usr/bin/env bash
# Linux's own ublk driver against `nandle serve --ublk`, which runs in the virtual machine of boot.sh itself.
#
#   ublk.sh path/to/nandle        exit 0: all was as expected, 77: cannot be run here (it says why), 1: failed
set -euo pipefail
nandle=$(realpath "${1:?usage: ublk.sh path/to/nandle}")
here=$(cd "$(dirname "$0")" && pwd)
source "$here/boot.sh"
needs mkfs.ext4 mkfs.f2fs fio fsck.ext4 fsck.f2fs blkdiscard fstrim
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fetch_kernel ublk_drv
{
  echo "nandle='$nandle'"
  cat "$here/ublk-inside.sh"
} > "$work/inside.sh"
pack "$work/inside.sh" virtio_pci 9pnet_virtio 9p ublk_drv ext4 f2fs crc32c_generic libcrc32c
boot -smp 2
grep -q '^ALL GOOD' "$work/said"
