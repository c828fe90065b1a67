"""PostgreSQL under `nandle crash-test`: transfers between rows of a table, and what must hold after a power cut.

    postgres.py make
    postgres.py run [--transfers 60] [--no-full-page-writes]
    postgres.py check [--stay]

`make` makes the cluster, with checksums of its pages, and the table (for `--dir`). `run` moves amounts between rows, a
transaction each, with a checkpoint now and then. `check` has the server recover and wants every page whole, the sum of the
table unchanged, and each transfer that `run` had said was done. PostgreSQL writes pages of 8 KiB in place, and the first
change of each after a checkpoint whole to its log, from which it repairs a torn one: `--no-full-page-writes` does not.
The server runs for one user, without sockets. It refuses to be root; if this user is, it is started in a user
namespace, where it is somebody else.
"""

import argparse
import ctypes
import glob
import os
import subprocess
import sys

ROWS, EACH = 2000, 1000
IPC_RMID = 0
OPTIONS = {
    "shared_buffers": "1MB", "wal_level": "minimal", "max_wal_senders": "0", "wal_buffers": "64kB",
    "dynamic_shared_memory_type": "mmap", "shared_memory_type": "mmap", "autovacuum": "off",
    "min_wal_size": "2MB", "max_wal_size": "2MB", "logging_collector": "off", "synchronous_commit": "on",
    "fsync": "on", "wal_init_zero": "off", "wal_recycle": "off", "recovery_init_sync_method": "fsync",
}


def program(name):
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"))
    return (["unshare", "-U"] if os.getuid() == 0 else []) + [found[-1] if found else name]


class Server:
    def __init__(self, folder, **options):
        self.folder = os.path.join(folder, "data")
        command = program("postgres") + ["--single", "-D", self.folder]
        for name, value in {**OPTIONS, **options}.items():
            command += ["-c", f"{name}={value}"]
        # All that it complains of goes where its answers go.
        self.process = subprocess.Popen(command + ["postgres"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, errors="replace")
        self.complaint = None

    def ask(self, sql):
        """The values that statements in one line return; none if one fails."""
        try:
            self.process.stdin.write(f"{sql}\n")
            self.process.stdin.write("SELECT 'end' AS mark\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        values = []
        for line in self.process.stdout:
            if any(word in line for word in ("ERROR:", "PANIC:", "FATAL:")):
                self.complaint = self.complaint or line.strip()
            if 'mark = "end"' in line:
                return None if self.complaint else values
            if ' = "' in line:
                values.append(line.split(' = "')[1].split('"')[0])
        self.complaint = self.complaint or "the server ended"
        return None

    def end(self, kill=False):
        if kill:
            segment = self.shared_memory()
            self.process.kill()
        else:
            self.process.stdin.close()
        self.process.stdout.read()
        self.process.wait()
        if kill and segment is not None:
            ctypes.CDLL(None).shmctl(segment, IPC_RMID, None)

    def shared_memory(self):
        """The segment by which servers of one cluster know each other: one that is killed leaves it behind, and there are
        but 4,096 on a machine."""
        try:
            with open(os.path.join(self.folder, "postmaster.pid")) as file:
                return int(file.read().splitlines()[6].split()[1])
        except (OSError, IndexError, ValueError):
            return None


def make(folder):
    data = os.path.join(folder, "data")
    subprocess.run(program("initdb") + ["-D", data, "-A", "trust", "-U", "bank", "-k", "--wal-segsize=1", "--locale=C",
                                        "--no-instructions", "--no-sync"], check=True, stdout=subprocess.DEVNULL)
    server = Server(folder)
    for sql in ["UPDATE pg_database SET datistemplate = false", "DROP DATABASE template0", "DROP DATABASE template1",
                "CREATE TABLE account(id int PRIMARY KEY, balance int, note text)", "CREATE TABLE transfer(id int PRIMARY KEY)",
                f"INSERT INTO account SELECT n, {EACH}, repeat('x', 250) FROM generate_series(0, {ROWS - 1}) n"]:
        assert server.ask(sql) is not None, server.complaint
    server.end()


def run(folder, transfers, full_page_writes):
    server = Server(folder, full_page_writes=full_page_writes)
    for n in range(transfers):
        a, b, amount = n * 797 % ROWS, (n * 1301 + 1) % ROWS, n % 91 + 1
        done = server.ask(f"BEGIN; UPDATE account SET balance = balance - {amount} WHERE id = {a}; "
                          f"UPDATE account SET balance = balance + {amount} WHERE id = {b}; "
                          f"INSERT INTO transfer VALUES({n}); COMMIT")
        assert done is not None, server.complaint
        print("done", n, flush=True)
        if n % 10 == 9:
            assert server.ask("CHECKPOINT") is not None, server.complaint
    server.end()


def check(folder):
    """What is wrong, or nothing."""
    with open(os.environ.get("NANDLE_OUTPUT", folder + ".output")) as output:
        said = len(output.read().splitlines())
    # A cut while the server starts may leave a lock file without contents, which it takes for another server's. What
    # starts it after a power cut removes it (pg_ctlcluster: "Removed stale pid file").
    pid = os.path.join(folder, "data", "postmaster.pid")
    if os.path.exists(pid):
        os.remove(pid)
    server = Server(folder)
    try:
        total = server.ask("SELECT sum(balance) AS total FROM account")
        have = server.ask("SELECT count(*) AS n, coalesce(max(id), -1) + 1 AS next FROM transfer")
        if total is None or have is None:
            return server.complaint
        if total != [str(ROWS * EACH)]:
            return f"the accounts hold {total}, expected {ROWS * EACH}"
        if len(have) != 2 or have[0] != have[1] or int(have[0]) < said:
            return f"transfers {have}, acknowledged {said}"
        return None
    finally:
        server.end(kill=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["make", "run", "check"])
    parser.add_argument("--transfers", type=int, default=60)
    parser.add_argument("--no-full-page-writes", action="store_true")
    parser.add_argument("--stay", action="store_true")
    args = parser.parse_args()
    if args.what == "make":
        make(os.environ["NANDLE_DIR"])
    elif args.what == "run":
        run(os.environ["NANDLE_DIR"], args.transfers, "off" if args.no_full_page_writes else "on")
    elif args.stay:
        for line in sys.stdin:
            print(check(line.strip()) or "ok", flush=True)
    else:
        wrong = check(os.environ["NANDLE_DIR"])
        if wrong:
            sys.exit(wrong)


main()
