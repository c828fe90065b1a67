#!/usr/bin/env python3
"""Goal: the tests can fail.

Method: each deliberate breakage of the list is applied to a copy of the sources, and the named net must catch it: fail,
die, or never end. A mutant that survives is a hole in the net; one that no longer applies needs a new form. The text
of a mutant is looked for in all sources of its crate, whatever file it lies in and however it is broken into lines,
and must be there exactly once. All of them are built at once, each as a choice that the environment makes; what cannot
be a choice is built by itself. A net that fails without any breakage catches nothing.

    python3 tests/mutants                    all of them
    python3 tests/mutants mrsm "--test drive waflash::"
                                             those with one of these in their name or net
    python3 tests/mutants --check            whether each text is there exactly once; nothing is built
"""

import concurrent.futures
import itertools
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from breakages import MUTANTS
from weave import CHOICE, Mutant, places, weave

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = ROOT / "target/mutants"

OMITTED = shutil.ignore_patterns("target", ".git", "runs")
CAUGHT, SURVIVED = "caught", "SURVIVED"
# A drive that has lost its way may also go round for ever: so many times as long as it takes when nothing is broken.
PATIENCE, LEAST_PATIENCE_S = 5, 60


def mirror(fresh: pathlib.Path, copy: pathlib.Path) -> None:
    """Makes a copy the same, without a touch of what is: cargo builds what is younger than its last build."""
    there = {path.relative_to(fresh) for path in fresh.rglob("*") if path.is_file()}
    for old in [path for path in copy.rglob("*") if path.is_file() and path.relative_to(copy) not in there]:
        old.unlink()
    for path in there:
        new, old = fresh / path, copy / path
        if not old.exists() or old.read_bytes() != new.read_bytes():
            old.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(new, old)
            shutil.copymode(new, old)


def parsed(net: str) -> tuple[str, str, list[str]]:
    """Package, target and filters of what cargo is to test."""
    words = net.split()
    package = "nandle"
    if words[0] == "-p":
        package, words = words[1], words[2:]
    target, words = ("lib", words[1:]) if words[0] == "--lib" else (words[1], words[2:])
    return package, target, words


def build(copy: pathlib.Path, nets: list[str]) -> dict[tuple[str, str], tuple[pathlib.Path, pathlib.Path]] | str:
    """Programs of the nets by package and target, each with the folder that it runs in; or what the compiler said."""
    wanted = []
    for package, target, _ in map(parsed, nets):
        for words in (["-p", package], ["--lib"] if target == "lib" else ["--test", target]):
            if words not in wanted:
                wanted.append(words)
    run = subprocess.run(["cargo", "test", "--no-run", "--message-format=json", "--target-dir", str(TARGET),
                          *[word for words in wanted for word in words]],
                         cwd=copy, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        said = [json.loads(line) for line in run.stdout.splitlines() if '"level":"error"' in line]
        return "\n".join(message["message"]["rendered"] for message in said) or run.stderr
    programs = {}
    for line in run.stdout.splitlines():
        made = json.loads(line)
        if made.get("executable") and made.get("profile", {}).get("test"):
            folder = pathlib.Path(made["manifest_path"]).parent
            package = next(line.split('"')[1] for line in (folder / "Cargo.toml").read_text().splitlines()
                           if line.startswith("name"))
            target = "lib" if "lib" in made["target"]["kind"] else made["target"]["name"]
            programs[package, target] = (pathlib.Path(made["executable"]), folder)
    return programs


def judge(program: pathlib.Path, folder: pathlib.Path, filters: list[str], number: int, threads: int,
          patience: float = math.inf) -> str:
    """Runs one net with one breakage (0: none) until its first failure."""
    environment = {**os.environ, CHOICE: str(number), "CARGO_MANIFEST_DIR": str(folder), "RUST_BACKTRACE": "0"}
    run = subprocess.Popen([program, *filters, "--test-threads", str(threads)], cwd=folder, env=environment,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
    with concurrent.futures.ThreadPoolExecutor(1) as reader:
        def read() -> tuple[bool, bool]:
            failed = ran = False
            for line in run.stdout:
                ran |= line.startswith("test ") and not line.startswith("test result")
                if line.rstrip().endswith("FAILED"):
                    failed = True
                    break
            return failed, ran
        reading = reader.submit(read)
        try:
            failed, ran = reading.result(timeout=None if math.isinf(patience) else patience)
            verdict = CAUGHT if failed else None
        except concurrent.futures.TimeoutError:
            verdict, ran = "hangs", True
        if verdict:
            os.killpg(run.pid, signal.SIGKILL)
    code = run.wait()
    if not ran:
        return "no test"
    return verdict or (SURVIVED if code == 0 else "dies")


def alone(mutant: Mutant) -> bool:
    """Whether a net measures time: nothing else runs beside it."""
    return parsed(mutant.net)[1] in ("serve", "program") or "nandle-serve" in mutant.net


def main() -> int:
    wanted = [word for word in sys.argv[1:] if word != "--check"]
    mutants = [Mutant(crate, *parts) for crate, rows in MUTANTS.items() for parts in rows]
    for number, mutant in enumerate(mutants, 1):
        mutant.number = number
    chosen = [m for m in mutants if not wanted or any(word in part for word in wanted for part in (m.name, m.net))]
    if not chosen:
        sys.exit(f"no mutant is called {' or '.join(wanted)}")
    failures = []

    def say(mutant: Mutant, verdict: str, began: float) -> None:
        print(f"{verdict:8} {time.monotonic() - began:4.0f} s  {mutant.net:40} {mutant.name}", flush=True)
        if verdict not in (CAUGHT, "hangs", "dies"):
            failures.append(f"{mutant.name}: {verdict}")

    with tempfile.TemporaryDirectory() as folder:
        fresh, copy = pathlib.Path(folder), TARGET / "sources"
        shutil.copytree(ROOT, fresh, ignore=OMITTED, dirs_exist_ok=True)
        found: dict[pathlib.Path, list[tuple[Mutant, int, int]]] = {}
        for mutant in list(chosen):
            sources = fresh / ("src" if mutant.crate == "nandle" else f"crates/{mutant.crate}/src")
            there = places(sources, mutant.text)
            if len(there) == 1:
                [(path, start, end)] = there
                found.setdefault(path, []).append((mutant, start, end))
            else:
                where = ", ".join(sorted({str(path.relative_to(fresh)) for path, *_ in there}))
                failures.append(f"{mutant.name}: {mutant.text!r} is there {len(there)} times, expected once {where}")
                chosen.remove(mutant)
        if "--check" not in sys.argv[1:]:
            originals = {path: path.read_text() for path in found}
            apart = weave(found)
            mirror(fresh, copy)
            programs = build(copy, [m.net for m in chosen])
            if isinstance(programs, str):
                print(programs, file=sys.stderr)
                sys.exit("the mutants do not build: what the compiler refuses is not a mutant")

            # How long each net may take.
            patience: dict[str, float] = {}

            def unbroken(net: str, threads: int) -> None:
                began = time.monotonic()
                package, target, filters = parsed(net)
                verdict = judge(*programs[package, target], filters, 0, threads)
                if verdict == SURVIVED:
                    patience[net] = max(LEAST_PATIENCE_S, PATIENCE * (time.monotonic() - began))
                else:
                    print(f"unbroken, `{net}` is not passed: {verdict}", file=sys.stderr, flush=True)

            def broken(mutant: Mutant, threads: int) -> None:
                began = time.monotonic()
                package, target, filters = parsed(mutant.net)
                verdict = "no net"
                if mutant.net in patience:
                    verdict = judge(*programs[package, target], filters, mutant.number, threads, patience[mutant.net])
                say(mutant, verdict, began)

            cores = os.cpu_count() or 1
            for at_once, threads, rows in ((cores, 1, [m for m in chosen if not alone(m)]),
                                           (1, cores, [m for m in chosen if alone(m)])):
                with concurrent.futures.ThreadPoolExecutor(at_once) as workers:
                    list(workers.map(unbroken, sorted({m.net for m in rows}), itertools.repeat(threads)))
                    list(workers.map(broken, [m for m in rows if m not in apart], itertools.repeat(threads)))
            for path, source in originals.items():
                path.write_text(source)
            for mutant in apart:
                began = time.monotonic()
                [(path, start, end)] = [(p, s, e) for p, rows in found.items() for m, s, e in rows if m is mutant]
                path.write_text(originals[path][:start] + mutant.replacement + originals[path][end:])
                mirror(fresh, copy)
                programs = build(copy, [mutant.net])
                package, target, filters = parsed(mutant.net)
                if isinstance(programs, str) or mutant.net not in patience:
                    say(mutant, "no build" if isinstance(programs, str) else "no net", began)
                else:
                    net = programs[package, target]
                    say(mutant, judge(*net, filters, 0, cores, patience[mutant.net]), began)
                path.write_text(originals[path])
    for failure in failures:
        print(f"not caught: {failure}", file=sys.stderr)
    print(f"{len(chosen)} mutants, {len(failures)} of them not caught")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
