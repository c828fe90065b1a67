#!/usr/bin/env python3
"""What the server itself costs: fio's NBD engine on nandle with timing off and on nbdkit's memory, by turns.

One request at a time is mostly the two sides waking each other, and that depends on where the system puts them:
so there it is also measured with both on one processor, and on one each.

    benches/serve.py [--rounds N] [--seconds S] [--program PATH] [--transport unix|tcp]
    benches/serve.py --all      every transport that this machine has clients for, without nbdkit
    benches/serve.py --ceiling  the most that it carries: small and large, few and many at a time, by NBD and NVMe/TCP,
                                with timing off, without clocks and in real time, by nbdkit's side

Needs fio with its nbd engine, nbdkit, and `cargo build --release` (`--all`: with `--examples`, whose `nvme_load` is
the client of NVMe/TCP). Both servers keep the bytes in memory; nandle also simulates a drive for each request, so
its share says what that and the server cost. The last part is the latency of 100 us reads, one at a time, in real
time. Figures are medians over the rounds.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SPAN = "64m"
# 100 us in all: array, transfer, controller.
READ_100_US = ["--set", "timing.read_ns=[93580,93580,93580]", "--set", "buffer.bytes=0"]
TICKS = 100
ALL = os.sched_getaffinity(0)
ONE, OTHER = ({min(ALL)}, {max(ALL)})
# Processors of the server, and of its client.
PLACES = {"anywhere": (ALL, ALL), "together": (ONE, ONE), "apart": (ONE, OTHER)}


def stat(pid: int) -> list[str]:
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def cpu_s(pid: int) -> float:
    fields = stat(pid)
    return (int(fields[11]) + int(fields[12])) / TICKS


def faults(pid: int) -> int:
    """Pages of memory that it touched for the first time."""
    return int(stat(pid)[7])


class Server:
    def __init__(self, name: str, command: list[str], uri: str, ready):
        self.name, self.uri = name, uri
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(400):
            if ready():
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        sys.exit(f"{' '.join(command)}: did not come up")

    def place(self, processors: set[int]) -> None:
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), processors)

    def fio(self, pattern: str, depth: int, seconds: float, where: str = "anywhere", *more: str) -> dict:
        ours, theirs = PLACES[where]
        self.place(ours)
        command = ["fio", "--name=x", "--ioengine=nbd", f"--uri={self.uri}", f"--rw={pattern}", "--bs=4k",
                   f"--iodepth={depth}", f"--size={SPAN}", "--output-format=json", "--randrepeat=1",
                   "--norandommap", "--group_reporting", *more]
        if seconds:
            command += ["--time_based", f"--runtime={seconds}"]
        before, memory = cpu_s(self.process.pid), faults(self.process.pid)
        run = subprocess.run(command, capture_output=True, text=True, check=True,
                             preexec_fn=lambda: os.sched_setaffinity(0, theirs))
        spent = cpu_s(self.process.pid) - before
        # fio may say something before its JSON.
        job = json.loads(run.stdout[run.stdout.index("{"):])["jobs"][0]
        side = job["write" if "write" in pattern else "read"]
        return {"iops": side["iops"], "us": side["clat_ns"]["mean"] / 1e3,
                "median_us": side["clat_ns"]["percentile"]["50.000000"] / 1e3,
                "cpu_us": spent * 1e6 / max(1, side["total_ios"]),
                "faults": (faults(self.process.pid) - memory) / max(1, side["total_ios"])}

    def stop(self):
        self.process.terminate()
        self.process.wait()


# Name, arguments of the server (W = a folder), fio's arguments or none for `nvme_load`.
TRANSPORTS = [
    ("NBD, unix socket", "--nbd unix:W/socket", "--ioengine=nbd --uri=nbd+unix:///?socket=W/socket"),
    ("NBD, TCP", "--nbd 127.0.0.1:42790", "--ioengine=nbd --uri=nbd://127.0.0.1:42790"),
    ("NVMe/TCP", "--nvme-tcp 127.0.0.1:42791", None),
    ("FUSE file", "--fuse W/mount", "--ioengine=libaio --direct=1 --filename=W/mount/disk"),
]


def by_transport(program: pathlib.Path, rounds: int, seconds: float) -> None:
    """Requests a second and processor time of each; how late answers of 100 us reads were."""
    print(f"4 KiB, {rounds} rounds of {seconds:g} s, medians; CPU = of the server, us a request")
    print("| transport | reads, 1 | CPU | 32 | CPU | writes, 1 | CPU | 32 | CPU "
          "| late us, 1 at a time: 50% | 99% | max | 32: 50% | 99% | max |")
    print("| --- |" + " ---: |" * 14)
    for name, serve, client in TRANSPORTS:
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(f"{folder}/mount")

            def start(*more: str) -> subprocess.Popen:
                command = [str(program), "serve", *serve.replace("W", folder).split(), *more]
                server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                time.sleep(1)
                return server

            def load(pattern: str, depth: int, seconds: float) -> tuple[float, int]:
                if client is None:
                    # Its queue has 32 entries, of which one stays free.
                    command = [str(program.parent / "examples/nvme_load"), serve.split()[-1], pattern,
                               str(min(depth, 31)), str(seconds)]
                    done = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
                    return done["iops"], done["requests"]
                command = ["fio", "--name=x", *client.replace("W", folder).split(), f"--rw=rand{pattern}", "--bs=4k",
                           f"--iodepth={depth}", f"--size={SPAN}", "--output-format=json", "--randrepeat=1",
                           "--norandommap", "--time_based", f"--runtime={seconds}"]
                run = subprocess.run(command, capture_output=True, text=True, check=True)
                side = json.loads(run.stdout[run.stdout.index("{"):])["jobs"][0][pattern]
                return side["iops"], side["total_ios"]

            def stop(server: subprocess.Popen) -> str:
                server.send_signal(signal.SIGINT)
                return server.communicate(timeout=60)[0]

            cells = []
            server = start("--timing", "off")
            # So much that all memory that it will use is there.
            load("write", 32, 10 * seconds)
            for pattern in ("read", "write"):
                for depth in (1, 32):
                    seen = []
                    for _ in range(rounds):
                        before = cpu_s(server.pid)
                        iops, requests = load(pattern, depth, seconds)
                        seen.append((iops, (cpu_s(server.pid) - before) * 1e6 / max(1, requests)))
                    cells += [f"{statistics.median(s[0] for s in seen):,.0f}",
                              f"{statistics.median(s[1] for s in seen):.1f}"]
            stop(server)
            for depth in (1, 32):
                report = pathlib.Path(folder) / "served.json"
                server = start(*READ_100_US, "--json", str(report))
                # What was never written is read in no time.
                load("write", 32, 2 * seconds)
                load("read", depth, rounds * seconds)
                stop(server)
                late = json.loads(report.read_text())["lateness_ns"]
                cells += [f"{late[key] / 1e3:,.0f}" for key in ("p50", "p99", "max")]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


class Nvme:
    """The same drive by NVMe/TCP, which fio has no client for in user space: 31 at a time where others have 32."""
    PORT = 42792

    def __init__(self, name: str, program: pathlib.Path, *more: str):
        self.name, self.client = name, program.parent / "examples/nvme_load"
        self.at = f"127.0.0.1:{Nvme.PORT}"
        Nvme.PORT += 1
        self.process = subprocess.Popen([str(program), "serve", "--nvme-tcp", self.at, *more],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1)

    def run(self, kib: int, pattern: str, depth: int, jobs: int, seconds: float) -> dict:
        before = cpu_s(self.process.pid)
        command = [str(self.client), self.at, pattern.removeprefix("rand"), str(min(depth, 31)), str(seconds), "64",
                   str(kib), str(jobs)]
        done = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        spent = cpu_s(self.process.pid) - before
        return {"iops": done["iops"], "cpu_us": spent * 1e6 / max(1, done["requests"])}

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


# A drive that takes next to no time, so that what limits it in real time is the machine.
FAST = ["--device", "demo-page", "--set", "timing.read_ns=[2000,2000,2000]", "--set", "timing.program_ns=[4000,4000,4000]",
        "--set", "timing.erase_ns=10000", "--set", "timing.bus_mb_s=20000"]


def ceiling(servers: list, rounds: int, seconds: float) -> None:
    """Requests a second and processor time of each, of small and large requests, one, many, and many clients."""
    cells = [(kib, pattern, depth, jobs) for kib in (4, 128) for pattern in ("randread", "randwrite")
             for depth, jobs in ((1, 1), (32, 1), (32, 4))]
    seen: dict = {}
    for _ in range(rounds):
        for kib, pattern, depth, jobs in cells:
            for server in servers:
                if isinstance(server, Nvme):
                    run = server.run(kib, pattern, depth, jobs, seconds)
                else:
                    run = server.fio(pattern, depth, seconds, "anywhere", f"--bs={kib}k", f"--numjobs={jobs}")
                seen.setdefault((kib, pattern, depth, jobs, server.name), []).append(run)
    print(f"{rounds} rounds of {seconds:g} s, by turns, medians: requests a second, the server's CPU us for each, and "
          "of nbdkit's requests a second how many")
    others = [server.name for server in servers if server.name != "nbdkit memory"]
    print("| at a time | nbdkit memory | CPU " + "".join(f"| {name} | CPU | share " for name in others) + "|")
    print("| --- |" + " ---: |" * (2 + 3 * len(others)))
    for kib, pattern, depth, jobs in cells:
        of = {server.name: {what: statistics.median(run[what] for run in seen[kib, pattern, depth, jobs, server.name])
                            for what in ("iops", "cpu_us")} for server in servers}
        theirs = of["nbdkit memory"]
        at_a_time = f"{jobs} x {depth}" if jobs > 1 else str(depth)
        cell = lambda one: f"| {one['iops']:,.0f} | {one['cpu_us']:.1f} "
        print(f"| {kib} KiB {pattern.removeprefix('rand')}, {at_a_time} " + cell(theirs)
              + "".join(cell(of[name]) + f"| {of[name]['iops'] / theirs['iops']:.0%} " for name in others) + "|")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--program", default=ROOT / "target/release/nandle")
    parser.add_argument("--transport", choices=["unix", "tcp"], default="unix")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--ceiling", action="store_true")
    parser.add_argument("--before", metavar="PATH", help="with --ceiling: another nandle, measured by its side")
    args = parser.parse_args()
    for program in ("fio", "nbdkit"):
        if not shutil.which(program):
            print(f"SKIPPED: {program} is not installed")
            return 0
    if not pathlib.Path(args.program).is_file():
        sys.exit(f"{args.program}: not there; expected `cargo build --release` first")
    if args.all:
        by_transport(pathlib.Path(args.program), args.rounds, args.seconds)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        sockets = iter(range(100))

        def place():
            n = next(sockets)
            if args.transport == "tcp":
                return str(42800 + n), f"nbd://127.0.0.1:{42800 + n}", lambda: tcp(42800 + n)
            path = pathlib.Path(folder) / f"s{n}"
            return str(path), f"nbd+unix:///?socket={path}", path.exists

        def tcp(port: int) -> bool:
            import socket
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", port)) == 0

        def nandle(name: str, *more: str, program: str = str(args.program)) -> Server:
            at, uri, ready = place()
            at = at if args.transport == "tcp" else f"unix:{at}"
            return Server(name, [program, "serve", "--nbd", at, *more], uri, ready)

        def nbdkit() -> Server:
            at, uri, ready = place()
            where = ["-p", at, "-i", "127.0.0.1"] if args.transport == "tcp" else ["-U", at]
            return Server("nbdkit memory", ["nbdkit", "-f", *where, "memory", "256M"], uri, ready)

        servers = [nbdkit(), nandle("nandle", "--timing", "off")]
        for server in servers:
            # So much that all memory that it will use is there: as much as the drive has flash.
            server.fio("write", 32, 0, "anywhere", "--loops=36", "--bs=64k")
        if args.ceiling:
            program = pathlib.Path(args.program)
            servers += [nandle("without clocks", "--timing", "none"), nandle("in real time", *FAST)]
            if args.before:
                servers.append(nandle("before", "--timing", "off", program=args.before))
                servers.append(nandle("before, in real time", *FAST, program=args.before))
            for server in servers[2:]:
                server.fio("write", 32, 0, "anywhere", "--loops=36", "--bs=64k")
            if (program.parent / "examples/nvme_load").is_file():
                for name, how in (("NVMe/TCP", ["--timing", "off"]), ("NVMe/TCP in real time", FAST)):
                    servers.append(Nvme(name, program, *how))
                    servers[-1].run(64, "write", 31, 1, 10 * args.seconds)
            else:
                print("SKIPPED: NVMe/TCP, whose client is not there; expected `cargo build --release --examples` first")
            ceiling(servers, args.rounds, args.seconds)
            for server in servers:
                server.stop()
            return 0
        results: dict = {}
        for _ in range(args.rounds):
            for pattern in ("randread", "randwrite"):
                for depth, where in ((1, "anywhere"), (1, "together"), (1, "apart"), (32, "anywhere")):
                    for server in servers:
                        key = (pattern, depth, where, server.name)
                        results.setdefault(key, []).append(server.fio(pattern, depth, args.seconds, where))
        median = {key: {what: statistics.median(r[what] for r in runs) for what in runs[0]}
                  for key, runs in results.items()}
        print(f"4 KiB over {args.transport}, {args.rounds} rounds of {args.seconds:g} s, medians")
        print(f"{'':<11}{'depth':>5}  {'where':<10}{'server':<14}{'IOPS':>9}{'mean us':>9}{'CPU us per I/O':>16}{'of nbdkit':>11}")
        for (pattern, depth, where, name), r in median.items():
            share = r["iops"] / median[pattern, depth, where, "nbdkit memory"]["iops"]
            print(f"{pattern:<11}{depth:>5}  {where:<10}{name:<14}{r['iops']:>9.0f}{r['us']:>9.1f}{r['cpu_us']:>16.1f}{share:>10.0%}")
        print("\n128 KiB, random writes, 4 at a time")
        large: dict = {}
        for _ in range(args.rounds):
            for server in servers:
                run = server.fio("randwrite", 4, args.seconds, "anywhere", "--bs=128k")
                large.setdefault(server.name, []).append(run)
        base = statistics.median(r["iops"] for r in large["nbdkit memory"])
        for name, runs in large.items():
            of = {what: statistics.median(r[what] for r in runs) for what in runs[0]}
            print(f"{name:<14}{of['iops']:>9.0f} a second{of['iops'] / base:>7.0%} of nbdkit,"
                  f"{of['cpu_us']:>7.1f} CPU us,{of['faults']:>6.1f} pages touched for the first time, each")
        for server in servers:
            server.stop()
        # The floor is the same drive with timing off: what transport, threads and model take by themselves.
        pair = [nandle("floor", "--timing", "off", *READ_100_US), nandle("served", *READ_100_US)]
        seen: dict = {"floor": [], "served": []}
        for server in pair:
            server.fio("write", 32, 0)
        for _ in range(args.rounds):
            for server in pair:
                seen[server.name].append(server.fio("randread", 1, args.seconds))
        for server in pair:
            server.stop()
        print("\nreads of 100 us, one at a time (us)")
        for name, what in (("mean", "us"), ("median", "median_us")):
            floor, served = (statistics.median(r[what] for r in seen[server]) for server in ("floor", "served"))
            print(f"{name:<8} served {served:.1f}, model + floor {100 + floor:.1f} (floor {floor:.1f}), "
                  f"ratio {served / (100 + floor):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
