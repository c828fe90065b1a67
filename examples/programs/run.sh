#!/usr/bin/env bash
# Real programs, unmodified, on a served drive: without FlashAlloc, and with it by libnandle_preload.so.
#
#   run.sh rocksdb|mariadb [--size GIB] [--seconds N] [--fill PERCENT] [--cold PERCENT] [--timing off|real]
#                          [--only vanilla|flashalloc] [-o DIR] [--nandle PATH] [--preload PATH]
#
# RocksDB: four db_bench at once, fillrandom, then overwrite (section 6.1 of the FlashAlloc paper, scaled by size).
# MariaDB: orders.lua, a small TPC-C, under sysbench; the doublewrite buffer is the object.
# The drive is flashalloc-cosmos with smaller blocks, ext4 with discard on a loop device on the FUSE file. Needs root,
# /dev/fuse, and Debian's rocksdb-tools, or mariadb-server-core, mariadb-client and sysbench. Exit codes: 0 done, 77 cannot be run here.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
usage() { sed -n '4,6s/^# *//p' "$0" >&2; exit 2; }
skip() { echo "SKIPPED: $*" >&2; exit 77; }

program=${1:-}; shift || usage
case $program in rocksdb|mariadb) ;; *) usage ;; esac
size=2 seconds=60 fill=30 cold=0 timing=off only="vanilla flashalloc" out=
nandle=$root/target/release/nandle
while [ $# -gt 0 ]; do
  case "$1" in
    --size) size=$2 ;; --seconds) seconds=$2 ;; --fill) fill=$2 ;; --cold) cold=$2 ;; --timing) timing=$2 ;; --only) only=$2 ;;
    -o) out=$2 ;; --nandle) nandle=$2 ;; --preload) preload=$2 ;; *) usage ;;
  esac
  shift 2 || usage
done
preload=${preload:-$(dirname "$nandle")/libnandle_preload.so}
export PATH="$PATH:/usr/sbin:/sbin"
[ "$(id -u)" = 0 ] || skip "needs root (losetup, mount)"
[ -e /dev/fuse ] || skip "no /dev/fuse"
for word in losetup mkfs.ext4 python3 $([ $program = rocksdb ] && echo db_bench || echo mariadbd mariadb-install-db mariadb sysbench); do
  command -v "$word" >/dev/null || skip "$word is not installed (Debian: rocksdb-tools, mariadb-server-core, mariadb-client, sysbench)"
done
for file in "$nandle" "$preload"; do
  [ -e "$file" ] || skip "$file is not built: cargo build --release -p nandle -p nandle-preload"
done
nandle=$(realpath "$nandle") preload=$(realpath "$preload")
work=$(mktemp -d "${TMPDIR:-/tmp}/nandle-programs.XXXXXX")
chmod 755 "$work"
# What the paper keeps on another device: logs.
aside=$(mktemp -d /dev/shm/nandle-programs.XXXXXX 2>/dev/null || mktemp -d)
out=${out:-$work/results}
mkdir -p "$out"
server= loop= database=
clean() {
  set +e
  kill $(jobs -p) 2>/dev/null
  [ -z "$database" ] || { kill -KILL "$database" 2>/dev/null; wait "$database" 2>/dev/null; }
  umount -l "$work/fs" 2>/dev/null
  [ -z "$loop" ] || losetup -d "$loop" 2>/dev/null
  [ -z "$server" ] || { kill -KILL "$server" 2>/dev/null; wait "$server" 2>/dev/null; }
  umount -l "$work/fuse" 2>/dev/null
  rm -rf "$aside"
  [ "$out" = "$work/results" ] && { find "$work" -mindepth 1 -maxdepth 1 ! -name results -exec rm -rf {} +; } || rm -rf "$work"
  server= loop= database=
}
trap clean EXIT

# The preset's 64 dies of 128 blocks; what shrinks with the drive is the block. An SSTable is 1/256 of the drive and 32
# blocks, and RocksDB writes half a block at a time, as in the paper (16 GB; 64 MB; 2 MB; 1 MB).
pages=$(python3 -c 'import sys; print(max(4, min(128, int(float(sys.argv[1]) * 8) // 4 * 4)))' "$size")
logical=$(python3 -c 'import sys; print(int(64 * 128 * int(sys.argv[1]) * 16384 / 1.1208))' "$pages")

# Starts the drive and mounts it.
start() {
  mkdir -p "$work/fuse" "$work/fs"
  "$nandle" serve --device flashalloc-cosmos --scheme flashalloc --timing "$timing" --nvme-tcp :0 --fuse "$work/fuse" \
    --set geometry.pages_per_block=$pages --set buffer.bytes=$((pages * 131072)) --json "$1.json" > "$1.served" 2> "$1.reports" &
  server=$!
  for _ in $(seq 200); do grep -q '^fuse' "$1.served" && break; kill -0 $server || { cat "$1.reports" >&2; exit 1; }; sleep 0.1; done
  to=$(sed -n 's/^nvme .* -a \([0-9.]*\) -s \([0-9]*\) .*/\1:\2/p' "$1.served")
  loop=$(losetup --direct-io=on -f --show "$work/fuse/disk") || skip "no loop device"
  mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 "$loop"
  mount -o discard,noatime "$loop" "$work/fs"
  # Data that nobody touches.
  [ "$cold" = 0 ] || dd if=/dev/zero of="$work/fs/cold" bs=1M count=$((logical * cold / 100 / 1048576)) oflag=direct status=none
}

# Takes it down; the summary is written then.
stop() {
  sync -f "$work/fs"
  umount "$work/fs" && losetup -d "$loop" && loop=
  kill -TERM $server && wait $server || { echo "nandle serve failed" >&2; exit 1; }
  server=
  umount -l "$work/fuse" 2>/dev/null || true
}

# The running WAF, every few seconds, while the processes given are alive.
watch_until() {
  while kill -0 "$@" 2>/dev/null; do
    kill -USR1 $server || true
    df --output=pcent "$work/fs" | tail -1 >> "$name.full" || true
    sleep 2
  done 2>/dev/null &
  watcher=$!
}

run_rocksdb() {
  local name=$1 preloaded=$2
  local table=$((pages * 16384 * 32))
  # Live data: 30% of the drive, in four stores (level 0 and compactions under way take as much again); a draw with
  # replacement leaves 63% of the keys.
  local keys=$((logical * fill / 100 / 4 * 100 / 63 / 420))
  local pids=()
  for n in 1 2 3 4; do
    env ${preloaded:+LD_PRELOAD=$preload NANDLE_TO=$to NANDLE_FS=$work/fs NANDLE_FILES=*.sst NANDLE_DEBUG=$name.preload} \
      timeout --signal=INT $((seconds * 20)) db_bench --benchmarks=fillrandom,overwrite --db="$work/fs/db$n" --wal_dir="$aside/wal$n" \
      --num=$keys --key_size=20 --value_size=400 --compression_type=none --seed=$n --threads=1 --histogram=0 \
      --write_buffer_size=$table --target_file_size_base=$table --max_bytes_for_level_base=$((table * 4)) \
      --level0_file_num_compaction_trigger=2 --level0_slowdown_writes_trigger=6 --level0_stop_writes_trigger=8 \
      --max_background_jobs=4 --max_background_compactions=4 --use_direct_io_for_flush_and_compaction=true \
      --use_direct_reads=true --writable_file_max_buffer_size=$((pages * 8192)) --open_files=200 > "$name.db_bench.$n" 2>&1 &
    pids+=($!)
  done
  watch_until "${pids[0]}"
  local failed=0
  for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
  kill $watcher 2>/dev/null || true
  [ $failed = 0 ] || { tail -qc 300 "$name".db_bench.* >&2; df -h "$work/fs" >&2; echo "db_bench failed" >&2; exit 1; }
  rm -rf "$aside"/wal*
}

run_mariadb() {
  local name=$1 preloaded=$2
  # The server refuses to be root; its user may be anybody.
  local data=$work/fs/mysql warehouses user=mysql
  id -u mysql > /dev/null 2>&1 || user=nobody
  # 80 MB a warehouse, half of the drive as in the paper.
  warehouses=$((logical / 2 / 80000000 > 1 ? logical / 2 / 80000000 : 1))
  mkdir -p "$data" "$aside/log"
  chown $user "$data" "$aside/log"; chmod 755 "$aside"
  mariadb-install-db --no-defaults --user=$user --datadir="$data" --skip-test-db --auth-root-authentication-method=normal \
    --innodb-log-group-home-dir="$aside/log" --innodb-log-file-size=256M > "$name.install" 2>&1 || { cat "$name.install" >&2; exit 1; }
  # Without native AIO the doublewrite buffer is written by pwrite, which the library sees; its two extents are
  # pages 64 to 191 of ibdata1. Tables grow by posix_fallocate too, but are no objects: no name fits.
  env ${preloaded:+LD_PRELOAD=$preload NANDLE_TO=$to NANDLE_FS=$work/fs NANDLE_FILES=/none NANDLE_CYCLIC=ibdata1@1048576+2097152 NANDLE_DEBUG=$aside/log/preload} \
    mariadbd --no-defaults --user=$user --datadir="$data" --socket="$aside/log/socket" --skip-networking --pid-file="$aside/log/pid" \
    --innodb-log-group-home-dir="$aside/log" --innodb-log-file-size=256M --innodb-flush-method=O_DIRECT \
    --innodb-use-native-aio=0 --innodb-buffer-pool-size=$((logical / 12)) --innodb-io-capacity=4000 --innodb-io-capacity-max=20000 \
    --innodb-doublewrite=1 --innodb-flush-neighbors=0 --max-connections=100 > "$name.mariadbd" 2>&1 &
  database=$!
  for _ in $(seq 300); do [ -S "$aside/log/socket" ] && break; kill -0 $database || { tail "$name.mariadbd" >&2; exit 1; }; sleep 0.1; done
  local bench="sysbench $here/orders.lua --db-driver=mysql --mysql-socket=$aside/log/socket --mysql-user=root --mysql-db=orders --warehouses=$warehouses"
  mariadb --no-defaults -u root -S "$aside/log/socket" -e 'create database orders'
  $bench --threads=4 prepare > "$name.prepare" 2>&1 || { tail "$name.prepare" >&2; exit 1; }
  kill -USR1 $server
  $bench --threads=32 --time="$seconds" --report-interval=5 run > "$name.sysbench" 2>&1 &
  local load=$!
  watch_until $load
  wait $load || { tail "$name.sysbench" >&2; exit 1; }
  kill $watcher 2>/dev/null || true
  kill -TERM $database; wait $database || true
  database=
  [ -z "$preloaded" ] || cp "$aside/log/preload" "$name.preload"
  rm -rf "$aside/log"
}

for mode in $only; do
  name=$out/$program-$mode
  rm -f "$name".*
  start "$name"
  echo "== $program, $mode: $(head -1 "$name.served")" >&2
  begun=$(date +%s.%N)
  run_$program "$name" "$([ "$mode" = flashalloc ] && echo yes || true)"
  echo "$begun $(date +%s.%N)" > "$name.time"
  stop
done
python3 "$here/show.py" "$program" "$out" $only
[ "$out" != "$work/results" ] || echo "details: $out" >&2
