"""RocksDB under `nandle crash-test`: puts and deletes, and what must hold of them after a power cut.

    rocksdb_store.py run [--no-sync] [--puts 120]
    rocksdb_store.py check [--stay] [--acknowledged]

Every write is synchronous (`WriteOptions.sync`) unless `--no-sync` is given; the memtable is so small that tables are
written and compacted meanwhile. `check` opens the database with all checks that it has and reads every key. What there is
must be a beginning of what was done, in order; with --acknowledged all of what `run` had said was done.
Needs the Python module rocksdict.
"""

import argparse
import os
import sys

from rocksdict import Options, Rdict, WriteOptions


def options():
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(16 << 10)
    options.set_paranoid_checks(True)
    options.set_max_background_jobs(1)
    return options


def history(n):
    """What is done n-th: a key, and its value or none if it is deleted."""
    key = b"key%03d" % (n * 7 % 40)
    return (key, None) if n % 5 == 4 else (key, b"%06d" % n + b"x" * (200 + n * 131 % 900))


def state(count):
    found = {}
    for n in range(count):
        key, value = history(n)
        found.pop(key, None)
        if value:
            found[key] = value
    return found


def run(folder, puts, sync):
    db = Rdict(folder, options())
    write = WriteOptions()
    write.sync = sync
    db.set_write_options(write)
    for n in range(puts):
        key, value = history(n)
        if value:
            db[key] = value
        else:
            del db[key]
        print("done", n, flush=True)
    db.close()


def check(folder, acknowledged):
    """What is wrong, or nothing."""
    with open(os.environ.get("NANDLE_OUTPUT", folder + ".output")) as output:
        done = len(output.read().splitlines())
    try:
        db = Rdict(folder, options())
        found = dict(db.items())
        db.close()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    # One more may have been on its way.
    least = done if acknowledged else 0
    if any(found == state(count) for count in range(least, done + 2)):
        return None
    return f"acknowledged {done}, found none of what there was from {least} on"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["run", "check"])
    parser.add_argument("--no-sync", action="store_true")
    parser.add_argument("--puts", type=int, default=120)
    parser.add_argument("--stay", action="store_true")
    parser.add_argument("--acknowledged", action="store_true")
    args = parser.parse_args()
    if args.what == "run":
        run(os.environ["NANDLE_DIR"], args.puts, not args.no_sync)
    elif args.stay:
        for line in sys.stdin:
            print(check(line.strip(), args.acknowledged) or "ok", flush=True)
    else:
        wrong = check(os.environ["NANDLE_DIR"], args.acknowledged)
        if wrong:
            sys.exit(wrong)


main()
