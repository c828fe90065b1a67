#!/bin/sh
# MariaDB with sysbench's OLTP writes under `nandle record`; DOUBLEWRITE=0 leaves the doublewrite buffer out.
set -e
tmp=$(mktemp -d)
data="$NANDLE_DIR/mysql"
mkdir "$data"
user=""
[ "$(id -u)" = 0 ] && user="--user=root"
server() {
  "$(command -v mariadbd || echo /usr/sbin/mariadbd)" --no-defaults --datadir="$data" --socket="$tmp/socket" --tmpdir="$tmp" \
    --pid-file="$tmp/pid" --skip-grant-tables --skip-networking --skip-log-bin --innodb-buffer-pool-size=8M \
    --innodb-log-file-size=8M --innodb-flush-method=O_DIRECT --innodb-use-native-aio=0 --innodb-max-dirty-pages-pct-lwm=5 \
    --innodb-temp-data-file-path="$tmp/ibtmp1:12M:autoextend" --innodb-flush-log-at-trx-commit=1 \
    --innodb-doublewrite="${DOUBLEWRITE:-1}" --skip-stack-trace $user "$@"
}
echo "CREATE DATABASE sbtest;" | server --bootstrap > "$tmp/log" 2>&1
server > "$tmp/log" 2>&1 &
pid=$!
trap 'kill $pid; wait $pid || true; rm -rf "$tmp"' EXIT
for _ in $(seq 600); do mariadb --no-defaults --socket="$tmp/socket" -e 'SELECT 1' > /dev/null 2>&1 && break; sleep 0.1; done
bench() {
  sysbench oltp_write_only --db-driver=mysql --mysql-socket="$tmp/socket" --tables=2 --table-size=10000 --threads=1 \
    --rand-seed=1 --events="${EVENTS:-1500}" --time=0 "$@" > "$tmp/said"
}
bench prepare
bench run
