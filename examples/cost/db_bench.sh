#!/bin/sh
# RocksDB's db_bench under `nandle record`: random puts of 400 bytes, each durable, then puts again over a third of the keys.
set -e
db_bench --db="$NANDLE_DIR/db" --benchmarks=fillrandom,overwrite --num="${KEYS:-20000}" --value_size=400 --seed=1 \
  --sync=1 --threads=1 --compression_type=none --write_buffer_size=1048576 --target_file_size_base=1048576 \
  --max_bytes_for_level_base=4194304 --level0_file_num_compaction_trigger=4 --max_background_jobs=2 > /dev/null 2>&1
