"""MariaDB (InnoDB) under `nandle crash-test`: transfers between rows that lie all over a table, and what must hold after a power cut.

    mariadb.py make
    mariadb.py run [--transfers 60] [--doublewrite]
    mariadb.py check [--stay]

`make` makes the table (for `--dir`), `run` moves amounts between rows, a transaction each, while the server writes changed
pages back at once. `check` starts the server, which recovers, and wants the table in order (CHECK TABLE), its sum
unchanged, and each transfer that `run` had said was done. InnoDB writes pages of 16 KiB in place. Without `--doublewrite`
nothing repairs one that was torn: the drive has to keep it whole (`nandle crash-test --atomic 16Ki`).
"""

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROWS, EACH = 3000, 1000


class Server:
    def __init__(self, folder, doublewrite=False):
        self.tmp = tempfile.mkdtemp(prefix="mariadb-")
        self.socket = os.path.join(self.tmp, "socket")
        self.log = open(os.path.join(self.tmp, "log"), "w+")
        program = shutil.which("mariadbd") or "/usr/sbin/mariadbd"
        self.options = [
            program, "--no-defaults", f"--datadir={folder}", f"--socket={self.socket}", f"--tmpdir={self.tmp}",
            f"--pid-file={self.tmp}/pid", "--skip-grant-tables", "--skip-networking", "--skip-log-bin",
            "--innodb-data-file-path=ibdata1:5M:autoextend", "--innodb-autoextend-increment=1",
            "--innodb-undo-tablespaces=0", "--innodb-log-file-size=4M", "--innodb-buffer-pool-size=6M",
            f"--innodb-temp-data-file-path={self.tmp}/ibtmp1:12M:autoextend", "--innodb-stats-persistent=0",
            "--innodb-flush-method=O_DIRECT", "--innodb-use-native-aio=0", "--innodb-max-dirty-pages-pct=0",
            "--innodb-max-dirty-pages-pct-lwm=0", "--innodb-buffer-pool-dump-at-shutdown=0",
            "--innodb-flush-log-at-trx-commit=1", f"--innodb-doublewrite={int(doublewrite)}", "--skip-stack-trace",
        ]
        if os.getuid() == 0:
            self.options.append("--user=root")

    def bootstrap(self, sql):
        subprocess.run(self.options + ["--bootstrap"], input=sql, text=True, stdout=self.log, stderr=self.log, check=True)

    def start(self):
        self.process = subprocess.Popen(self.options, stdout=self.log, stderr=self.log)
        # The socket is there before anybody listens.
        while self.process.poll() is None:
            with socket.socket(socket.AF_UNIX) as client:
                if client.connect_ex(self.socket) == 0:
                    return True
            time.sleep(0.01)
        return False

    def ask(self, sql):
        done = subprocess.run(["mariadb", "--no-defaults", f"--socket={self.socket}", "-NB", "bank", "-e", sql],
                              capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else "error: " + done.stderr.strip()

    def complaint(self):
        self.log.seek(0)
        lines = [line.strip() for line in self.log if "[ERROR]" in line or "corrupt" in line]
        return lines[0] if lines else "the server does not start"

    def end(self, kill=False):
        if getattr(self, "process", None):
            self.process.kill() if kill else self.process.terminate()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.tmp, ignore_errors=True)


def make(folder):
    server = Server(folder)
    server.bootstrap("CREATE DATABASE bank;\n")
    assert server.start(), server.complaint()
    server.ask("CREATE TABLE account(id INT PRIMARY KEY, balance INT, note CHAR(250)) ENGINE=InnoDB CHARSET=latin1;"
               "CREATE TABLE transfer(id INT PRIMARY KEY) ENGINE=InnoDB;")
    rows = ",".join(f"({n},{EACH},REPEAT('x',250))" for n in range(ROWS))
    server.ask(f"INSERT INTO account VALUES {rows}")
    assert server.ask("SELECT COUNT(*) FROM account") == str(ROWS)
    server.end()


def run(folder, transfers, doublewrite):
    server = Server(folder, doublewrite)
    assert server.start(), server.complaint()
    for n in range(transfers):
        a, b, amount = n * 797 % ROWS, (n * 1301 + 1) % ROWS, n % 91 + 1
        said = server.ask(f"BEGIN; UPDATE account SET balance = balance - {amount} WHERE id = {a};"
                          f"UPDATE account SET balance = balance + {amount} WHERE id = {b};"
                          f"INSERT INTO transfer VALUES({n}); COMMIT")
        assert not said, said
        print("done", n, flush=True)
    server.end()


def check(folder):
    """What is wrong, or nothing."""
    with open(os.environ.get("NANDLE_OUTPUT", folder + ".output")) as output:
        said = output.read().splitlines()
    server = Server(folder)
    try:
        if not server.start():
            return server.complaint()
        table = server.ask("CHECK TABLE account")
        if not table.endswith("OK"):
            return f"CHECK TABLE: {table.splitlines()[0]}"
        total = server.ask("SELECT SUM(balance) FROM account")
        if total != str(ROWS * EACH):
            return f"the accounts hold {total}, expected {ROWS * EACH}"
        have = server.ask("SELECT COUNT(*), COALESCE(MAX(id), -1) + 1 FROM transfer").split()
        if len(have) != 2 or have[0] != have[1] or int(have[0]) < len(said):
            return f"transfers {have}, acknowledged {len(said)}"
        return None
    finally:
        server.end(kill=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["make", "run", "check"])
    parser.add_argument("--transfers", type=int, default=60)
    parser.add_argument("--doublewrite", action="store_true")
    parser.add_argument("--stay", action="store_true")
    args = parser.parse_args()
    if args.what == "make":
        make(os.environ["NANDLE_DIR"])
    elif args.what == "run":
        run(os.environ["NANDLE_DIR"], args.transfers, args.doublewrite)
    elif args.stay:
        for line in sys.stdin:
            print(check(line.strip()) or "ok", flush=True)
    else:
        wrong = check(os.environ["NANDLE_DIR"])
        if wrong:
            sys.exit(wrong)


main()
