"""A small log-structured store, and what must hold of it after a power cut (`nandle crash-test`).

    log_store.py run [--forget-fsync]
    log_store.py check [--stay]

Records are appended to segments (`000001.log`), each with a length and a checksum, and are acknowledged
after fsync. When a segment is full, its live records are written to a new one, and MANIFEST, which names
the segment in use, is replaced: written beside, flushed, renamed, the folder flushed. Then the old segment is
deleted. `--forget-fsync` leaves out the one fsync of the new segment before MANIFEST names it.
"""

import argparse
import os
import struct
import sys
import zlib

FULL = 6000
HEAD = struct.Struct("<IIII")  # checksum, length of key, length of value, check of the lengths


def fsync_folder(folder):
    fd = os.open(folder, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def record(key, value):
    lengths = struct.pack("<II", len(key), len(value))
    return HEAD.pack(zlib.crc32(lengths + key + value), len(key), len(value), zlib.crc32(lengths)) + key + value


def read(path):
    """The records of a segment up to the first that is not whole."""
    with open(path, "rb") as file:
        data = file.read()
    found, at = {}, 0
    while at + HEAD.size <= len(data):
        crc, keys, values, check = HEAD.unpack_from(data, at)
        lengths = struct.pack("<II", keys, values)
        body = data[at + HEAD.size : at + HEAD.size + keys + values]
        if zlib.crc32(lengths) != check or len(body) < keys + values or zlib.crc32(lengths + body) != crc:
            break
        found[body[:keys]] = body[keys:]
        at += HEAD.size + keys + values
    return found


class Store:
    def __init__(self, folder, forget_fsync=False):
        self.folder, self.forget_fsync = folder, forget_fsync
        manifest = os.path.join(folder, "MANIFEST")
        if os.path.exists(manifest):
            with open(manifest) as file:
                self.number = int(file.read())
            self.live = read(self.path(self.number))
        else:
            self.number, self.live = 0, {}

    def path(self, number):
        return os.path.join(self.folder, f"{number:06}.log")

    def open(self):
        self.compact()

    def put(self, key, value):
        if self.file.tell() > FULL:
            self.compact()
        self.file.write(record(key, value))
        self.file.flush()
        os.fsync(self.file.fileno())
        self.live[key] = value

    def compact(self):
        old, self.number = self.number, self.number + 1
        file = open(self.path(self.number), "wb")
        for key, value in self.live.items():
            file.write(record(key, value))
        file.flush()
        if not self.forget_fsync:
            os.fsync(file.fileno())
        fsync_folder(self.folder)
        with open(os.path.join(self.folder, "MANIFEST.new"), "w") as manifest:
            manifest.write(f"{self.number}\n")
            manifest.flush()
            os.fsync(manifest.fileno())
        os.rename(os.path.join(self.folder, "MANIFEST.new"), os.path.join(self.folder, "MANIFEST"))
        fsync_folder(self.folder)
        if old:
            os.unlink(self.path(old))
        self.file = file


def run(folder, forget_fsync):
    store = Store(folder, forget_fsync)
    store.open()
    for n in range(60):
        store.put(b"key%d" % (n % 17), b"%d " % n + b"v" * (n * 37 % 300))
        print("done", n, flush=True)


def check(folder, output):
    with open(output) as file:
        done = sum(line.startswith("done") for line in file)
    try:
        store = Store(folder)
    except (OSError, ValueError) as e:
        return f"the store does not open: {e}"
    for key in range(17):
        last = max((n for n in range(done) if n % 17 == key), default=None)
        value = store.live.get(b"key%d" % key)
        have = int(value.split()[0]) if value else None
        # The one after the last that was acknowledged may be there.
        if have != last and not (have == done and done % 17 == key):
            return f"key{key}: acknowledged {last}, found {have}"
    return None


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("run").add_argument("--forget-fsync", action="store_true")
    commands.add_parser("check").add_argument("--stay", action="store_true")
    args = parser.parse_args()
    if args.command == "run":
        return run(os.environ["NANDLE_DIR"], args.forget_fsync)
    if args.stay:
        for line in sys.stdin:
            folder = line.rstrip("\n")
            print(check(folder, folder + ".output") or "ok", flush=True)
        return None
    return check(os.environ["NANDLE_DIR"], os.environ["NANDLE_OUTPUT"])


if __name__ == "__main__":
    sys.exit(main())
