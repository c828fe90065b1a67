"""LMDB under `nandle crash-test` (`pip install lmdb`): counters that move together.

    lmdb_store.py make
    lmdb_store.py run [--nosync]
    lmdb_store.py check [--stay] [--acknowledged]
"""

import argparse
import os
import sys

import lmdb

KEYS = 20


def run(folder, nosync):
    env = lmdb.open(folder, map_size=16 << 20, sync=not nosync)
    for n in range(60):
        with env.begin(write=True) as txn:
            for key in range(KEYS):
                txn.put(b"%04d" % key, b"%d " % n + b"v" * (n * 97 % 700))
        print("done", n, flush=True)


def check(folder, output, acknowledged):
    with open(output) as file:
        done = sum(line.startswith("done") for line in file)
    if not os.path.exists(os.path.join(folder, "data.mdb")):
        return "acknowledged, but not there: the database" if acknowledged and done else None
    try:
        env = lmdb.open(folder, map_size=16 << 20, create=False)
        with env.begin() as txn:
            found = {int(value.split()[0]) for _, value in txn.cursor()}
            count = txn.stat()["entries"]
        env.close()
    except (lmdb.Error, ValueError, IndexError) as e:
        return f"{type(e).__name__}: {e}"
    if len(found) > 1 or count not in (0, KEYS):
        return f"part of a transaction: {count} entries of {sorted(found)}"
    if acknowledged and done and (not found or found.pop() < done - 1):
        return f"acknowledged {done}, not there"
    return None


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("make")
    commands.add_parser("run").add_argument("--nosync", action="store_true")
    checking = commands.add_parser("check")
    checking.add_argument("--stay", action="store_true")
    checking.add_argument("--acknowledged", action="store_true")
    args = parser.parse_args()
    if args.command == "make":
        return lmdb.open(os.environ["NANDLE_DIR"], map_size=16 << 20).close()
    if args.command == "run":
        return run(os.environ["NANDLE_DIR"], args.nosync)
    if args.stay:
        for line in sys.stdin:
            folder = line.rstrip("\n")
            print(check(folder, folder + ".output", args.acknowledged) or "ok", flush=True)
        return None
    return check(os.environ["NANDLE_DIR"], os.environ["NANDLE_OUTPUT"], args.acknowledged)


if __name__ == "__main__":
    sys.exit(main())
