#!/usr/bin/env bash
# What a real file system makes of Filebench's personalities, and what schemes make of that: filebench.py runs on ext4 on a
# served drive, which records what arrives; the recording is replayed, closed, 16 requests at a time.
#
#   filebench.sh DIR [SECONDS] [PATH OF nandle]
#
# DIR receives the recordings (KIND.csv) and reports. Needs root, /dev/fuse and a free loop device. Exit codes: 0 done, 77 cannot be run here.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:?usage: filebench.sh DIR [SECONDS] [PATH OF nandle]} seconds=${2:-25} nandle=${3:-$here/../../target/release/nandle}
export PATH="$PATH:/usr/sbin:/sbin"
skip() { echo "SKIPPED: $*" >&2; exit 77; }
[ "$(id -u)" = 0 ] || skip "needs root (losetup, mount)"
[ -e /dev/fuse ] || skip "no /dev/fuse"
[ -x "$nandle" ] || skip "$nandle is not built: cargo build --release"
mkdir -p "$dir/fuse" "$dir/fs"
server= loop=
clean() {
  set +e
  umount -l "$dir/fs" 2>/dev/null
  [ -z "$loop" ] || losetup -d "$loop"
  [ -z "$server" ] || { kill "$server"; wait "$server"; }
  rmdir "$dir/fuse" "$dir/fs"
}
trap clean EXIT

for kind in webserver webproxy fileserver; do
  "$nandle" serve --device waflash-vssim --timing off --fuse "$dir/fuse" --record "$dir/$kind.csv" > "$dir/$kind.served" 2>&1 &
  server=$!
  for _ in $(seq 100); do grep -q '^fuse' "$dir/$kind.served" && break; sleep 0.1; done
  loop=$(losetup --direct-io=on -f --show "$dir/fuse/disk") || skip "no loop device"
  mkfs.ext4 -q -E nodiscard "$loop" 3000000k
  mount "$loop" "$dir/fs"
  python3 "$here/filebench.py" $kind "$dir/fs" "$seconds"
  umount "$dir/fs"
  losetup -d "$loop" && loop=
  kill $server && wait $server && server=
  "$nandle" compare --device waflash-vssim --schemes fifo+page,lru+page,waflash --workload "$dir/$kind.csv" \
    --replay closed --iodepth 16 | tee "$dir/$kind.txt"
done
