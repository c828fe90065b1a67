"""SQLite under `nandle crash-test`: transfers between accounts, and what must hold of them after a power cut.

    sqlite.py run --journal wal --synchronous full [--transfers 40]
    sqlite.py check [--stay] [--acknowledged]

`check` wants a database in order (integrity_check), the sum of all accounts unchanged, and whole transfers
only. With --acknowledged also each transfer that `run` had said was done. With --stay it reads folders
from its standard input and answers each (`nandle crash-test --check-stays`).
"""

import argparse
import os
import sqlite3
import sys

ACCOUNTS, EACH = 50, 1000


def run(folder, journal, synchronous, transfers, page_bytes):
    db = sqlite3.connect(os.path.join(folder, "bank.db"), isolation_level=None)
    db.execute(f"PRAGMA page_size={page_bytes}")
    db.execute(f"PRAGMA journal_mode={journal}")
    db.execute(f"PRAGMA synchronous={synchronous}")
    db.execute("PRAGMA wal_autocheckpoint=20")
    db.execute("BEGIN")
    db.execute("CREATE TABLE account(id INTEGER PRIMARY KEY, balance INTEGER, note TEXT)")
    db.execute("CREATE TABLE transfer(id INTEGER PRIMARY KEY, a INTEGER, b INTEGER, amount INTEGER)")
    db.execute("CREATE INDEX by_amount ON transfer(amount)")
    db.executemany("INSERT INTO account VALUES(?, ?, ?)", [(n, EACH, "x" * 200) for n in range(ACCOUNTS)])
    db.execute("COMMIT")
    print("made", flush=True)
    for n in range(transfers):
        a, b, amount = n * 7 % ACCOUNTS, (n * 13 + 1) % ACCOUNTS, n % 91 + 1
        db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE account SET balance = balance - ? WHERE id = ?", (amount, a))
        db.execute("UPDATE account SET balance = balance + ? WHERE id = ?", (amount, b))
        db.execute("INSERT INTO transfer VALUES(?, ?, ?, ?)", (n, a, b, amount))
        db.execute("COMMIT")
        print("done", n, flush=True)
    db.close()


def check(folder, acknowledged):
    """What is wrong, or nothing."""
    with open(folder + ".output" if "NANDLE_OUTPUT" not in os.environ else os.environ["NANDLE_OUTPUT"]) as output:
        said = output.read().splitlines()
    db = sqlite3.connect(os.path.join(folder, "bank.db"))
    try:
        found = db.execute("PRAGMA integrity_check").fetchone()[0]
        if found != "ok":
            return "integrity_check: " + found.splitlines()[0]
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables:
            return "acknowledged, but not there: the tables" if acknowledged and said else None
        total, = db.execute("SELECT sum(balance) FROM account").fetchone()
        if total != ACCOUNTS * EACH:
            return f"the accounts hold {total}, expected {ACCOUNTS * EACH}"
        have = [n for (n,) in db.execute("SELECT id FROM transfer ORDER BY id")]
        if have != list(range(len(have))):
            return f"transfers are missing among {have}"
        done = sum(line.startswith("done") for line in said)
        if acknowledged and len(have) < done:
            return f"acknowledged, but not there: transfer {len(have)} of {done}"
    except sqlite3.DatabaseError as e:
        return f"{type(e).__name__}: {e}"
    finally:
        db.close()
    return None


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("--journal", default="wal")
    running.add_argument("--synchronous", default="full")
    running.add_argument("--transfers", type=int, default=40)
    running.add_argument("--page-bytes", type=int, default=4096)
    checking = commands.add_parser("check")
    checking.add_argument("--acknowledged", action="store_true")
    checking.add_argument("--stay", action="store_true")
    args = parser.parse_args()
    if args.command == "run":
        return run(os.environ["NANDLE_DIR"], args.journal, args.synchronous, args.transfers, args.page_bytes)
    if args.stay:
        os.environ.pop("NANDLE_OUTPUT", None)
        for line in sys.stdin:
            print(check(line.rstrip("\n"), args.acknowledged) or "ok", flush=True)
        return None
    return check(os.environ["NANDLE_DIR"], args.acknowledged)


if __name__ == "__main__":
    sys.exit(main())
