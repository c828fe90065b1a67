#!/bin/sh
# PostgreSQL with pgbench under `nandle record`; FULL_PAGE_WRITES=off leaves whole pages out of the log. The server refuses to
# be root: if this user is, all of it runs in a user namespace, where it is somebody else.
set -e
if [ "$(id -u)" = 0 ]; then exec unshare -U sh "$0"; fi
bin=$(dirname "$(ls /usr/lib/postgresql/*/bin/postgres 2> /dev/null | tail -1 || command -v postgres)")
tmp=$(mktemp -d)
"$bin/initdb" -D "$NANDLE_DIR/pg" -A trust -U bank --no-sync --wal-segsize=1 --locale=C > /dev/null
"$bin/postgres" -D "$NANDLE_DIR/pg" -k "$tmp" -c listen_addresses= -c shared_buffers=4MB -c min_wal_size=2MB -c max_wal_size=8MB \
  -c dynamic_shared_memory_type=mmap -c shared_memory_type=mmap -c autovacuum=off \
  -c full_page_writes="${FULL_PAGE_WRITES:-on}" > "$tmp/log" 2>&1 &
pid=$!
trap 'kill -INT $pid; wait $pid || true; rm -rf "$tmp"' EXIT
for _ in $(seq 600); do "$bin/pg_isready" -q -h "$tmp" -U bank && break; sleep 0.1; done
"$bin/pgbench" -q -i -s 1 -h "$tmp" -U bank postgres > /dev/null 2>&1
"$bin/pgbench" -n -c 1 -t "${TRANSACTIONS:-1500}" --random-seed=1 -h "$tmp" -U bank postgres > /dev/null
