#!/usr/bin/env python3
"""Filebench's web server, web proxy and file server by hand: threads that work on real files.

    filebench.py webserver|webproxy|fileserver FOLDER [SECONDS]

A thousand files (of 16, 128 and 128 KiB on average), read whole, written 4 KiB at a time; 100, 100 and 50 threads.
"""

import os
import random
import sys
import threading
import time

IO = 4096
FILES = 1000
KINDS = {"webserver": (16 << 10, 100), "webproxy": (128 << 10, 100), "fileserver": (128 << 10, 50)}


def main() -> int:
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in KINDS:
        print(__doc__, file=sys.stderr)
        return 2
    kind, folder = sys.argv[1:3]
    mean, threads = KINDS[kind]

    def size(draw: random.Random) -> int:
        return max(1, int(draw.gammavariate(1.5, mean / 1.5)))

    def put(path: str, length: int, mode: str = "wb") -> None:
        with open(path, mode, buffering=0) as file:
            for at in range(0, length, IO):
                file.write(bytes(min(IO, length - at)))

    def get(path: str) -> None:
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass

    def delete(path: str) -> None:
        # Another thread may have been faster.
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    draw = random.Random(1)
    names = [f"{folder}/{n % 20}/{n}" for n in range(FILES)]
    for n in range(20):
        os.makedirs(f"{folder}/{n}", exist_ok=True)
    for name in names:
        put(name, size(draw))
    os.sync()
    end = time.time() + float(sys.argv[3] if len(sys.argv) > 3 else 25)
    loops = [0] * threads

    def loop(draw: random.Random) -> None:
        pick = lambda: draw.choice(names)
        if kind == "webserver":
            for _ in range(10):
                get(pick())
            put(f"{folder}/log", 16 << 10, "ab")
        elif kind == "webproxy":
            name = pick()
            delete(name)
            put(name, size(draw))
            for _ in range(5):
                get(pick())
            put(f"{folder}/log", 16 << 10, "ab")
        else:
            name = pick()
            put(name, size(draw))
            put(name, 16 << 10, "ab")
            get(pick())
            delete(pick())

    def work(number: int) -> None:
        draw = random.Random(number)
        while time.time() < end:
            try:
                loop(draw)
            except FileNotFoundError:
                continue
            loops[number] += 1

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    os.sync()
    print(f"{kind}: {sum(loops)} loops")
    return 0


if __name__ == "__main__":
    sys.exit(main())
