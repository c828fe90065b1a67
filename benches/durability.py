#!/usr/bin/env python3
"""What `nandle serve --durability host` costs beside `process`: writes and flushes of one client over NBD, timing off.

    benches/durability.py [--program PATH] [--directory DIR] [--rounds N] [--seconds S]

Each round serves a new image in DIR (what counts is the disk under it) both ways, by turns: 4 KiB at random places,
one at a time, with a flush after every 1, 32 or 1024 writes. Figures are medians over the rounds. Needs nothing but
Python and the program.
"""

import argparse
import pathlib
import random
import signal
import socket
import statistics
import struct
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
DRIVE = ["--device", "demo-page", "--set", "geometry.channels=2", "--set", "geometry.blocks_per_plane=48",
         "--set", "buffer.bytes=1048576", "--timing", "off"]
SPAN = 64 << 20
WRITE, FLUSH = 1, 3


def connect(path: pathlib.Path) -> socket.socket:
    deadline = time.monotonic() + 20
    while True:
        try:
            client = socket.socket(socket.AF_UNIX)
            client.connect(str(path))
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    receive(client, 18)
    # No options but the export's name.
    client.sendall(struct.pack(">I8sII", 3, b"IHAVEOPT", 1, 0))
    receive(client, 10)
    return client


def receive(client: socket.socket, n: int) -> bytes:
    data = b""
    while len(data) < n:
        part = client.recv(n - len(data))
        if not part:
            raise EOFError("the server is gone")
        data += part
    return data


def ask(client: socket.socket, command: int, offset: int, data: bytes) -> float:
    """One request; how long its answer took, in seconds."""
    begin = time.perf_counter()
    client.sendall(struct.pack(">IHHQQI", 0x25609513, 0, command, 1, offset, len(data)) + data)
    if struct.unpack(">I", receive(client, 16)[4:8])[0]:
        raise OSError("the server answered with an error")
    return time.perf_counter() - begin


def load(program: str, directory: str, durability: str, every: int, seconds: float) -> tuple[float, float]:
    """Writes a second, and the median latency of a flush in microseconds."""
    with tempfile.TemporaryDirectory(dir=directory) as name:
        path = pathlib.Path(name) / "socket"
        server = subprocess.Popen(
            [program, "serve", *DRIVE, "--nbd", f"unix:{path}", "--image", f"{name}/flash.img",
             "--durability", durability], stdout=subprocess.DEVNULL)
        try:
            client = connect(path)
            draw, data = random.Random(1), bytes(range(256)) * 16
            writes, flushes, begin = 0, [], time.perf_counter()
            while time.perf_counter() < begin + seconds:
                for _ in range(every):
                    ask(client, WRITE, draw.randrange(SPAN // 4096) * 4096, data)
                writes += every
                flushes.append(ask(client, FLUSH, 0, b""))
            rate = writes / (time.perf_counter() - begin)
            client.close()
        finally:
            server.send_signal(signal.SIGKILL)
            server.wait()
    return rate, statistics.median(flushes) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "target/release/nandle"))
    parser.add_argument("--directory", default=".")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    args = parser.parse_args()
    print(f"{'flush after':>12} {'process':>22} {'host':>22}   writes/s: host/process")
    for every in (1, 32, 1024):
        found = {"process": [], "host": []}
        for _ in range(args.rounds):
            for durability, results in found.items():
                results.append(load(args.program, args.directory, durability, every, args.seconds))
        (a, b), (c, d) = ([statistics.median(column) for column in zip(*found[way])] for way in ("process", "host"))
        print(f"{every:>12} {a:>9,.0f}/s {b:>7,.0f} us {c:>9,.0f}/s {d:>7,.0f} us   {c / a:.2f}")


if __name__ == "__main__":
    main()
