"""Many mutants in one build: a function that is broken holds its sound body and every broken one, and the
environment says at run time which of them it is."""

import pathlib
import re
from dataclasses import dataclass, field

CHOICE = "NANDLE_MUTANT"


@dataclass
class Mutant:
    crate: str
    name: str
    text: str
    replacement: str
    net: str
    number: int = 0


@dataclass
class Function:
    """Where a function's signature begins and its body lies, braces included."""

    at: int
    body: int
    end: int
    signature: str
    # What is broken in it: number, from, to, replacement.
    broken: list[tuple[int, int, int, str]] = field(default_factory=list)


TOKEN = re.compile(r"""
      (?P<skip>//[^\n]*|/\*.*?\*/
        | b?r(?P<hash>\#*)".*?"(?P=hash)
        | b?"(?:\\.|[^"\\])*"
        | b?'(?:\\(?:x..|u\{[^}]*\}|.)|[^'\\])'
        | '[A-Za-z_]\w*)
    | (?P<word>[A-Za-z_]\w*)
    | (?P<mark>[{}()\[\];])
""", re.VERBOSE | re.DOTALL)


def functions(source: str) -> list[Function]:
    """All functions of a file that have a body, the outer before the inner."""
    found, open_braces, heads = [], [], []
    nesting = 0
    for token in TOKEN.finditer(source):
        at = token.start()
        if token["word"] == "fn":
            heads.append((at, nesting))
        mark = token["mark"]
        if mark in ("(", "["):
            nesting += 1
        elif mark in (")", "]"):
            nesting -= 1
        elif mark == ";" and heads and heads[-1][1] == nesting:
            heads.pop()
        elif mark == "{":
            function = None
            if heads and heads[-1][1] == nesting:
                start, _ = heads.pop()
                line = source.rfind("\n", 0, start) + 1
                function = Function(start, at, 0, source[line:at])
                found.append(function)
            open_braces.append((function, nesting))
        elif mark == "}":
            function, nesting = open_braces.pop()
            if function:
                function.end = at + 1
    return found


def places(sources: pathlib.Path, text: str) -> list[tuple[pathlib.Path, int, int]]:
    """Where a text stands, however it is broken into lines: file, from, to."""
    pattern = re.compile(r"\s+".join(re.escape(word) for word in text.split()))
    found = []
    for path in sorted(sources.rglob("*.rs")):
        found += [(path, *match.span()) for match in pattern.finditer(path.read_text())]
    return found


def only_what_differs(source: str, start: int, end: int, replacement: str) -> tuple[int, int, str]:
    """A breakage without the words that it shares with the text at its beginning and at its end."""
    old = [(m.start() + start, m.end() + start) for m in re.finditer(r"\S+", source[start:end])]
    new = [m.span() for m in re.finditer(r"\S+", replacement)]

    def same(i: int, j: int) -> bool:
        return source[old[i][0]:old[i][1]] == replacement[new[j][0]:new[j][1]]

    first = 0
    while first < min(len(old), len(new)) and same(first, first):
        first += 1
    last = 0
    while last < min(len(old), len(new)) - first and same(-1 - last, -1 - last):
        last += 1
    start = old[first][0] if first < len(old) else end
    end = old[-1 - last][1] if last < len(old) - first else start
    kept = new[first:len(new) - last]
    return start, end, replacement[kept[0][0]:kept[-1][1]] if kept else ""


def sound(source: str, function: Function, inner: list[Function]) -> str:
    """A function's body as it is, with the choices of the functions in it."""
    text, at = "", function.body
    for f in inner:
        if function.body < f.at and f.end <= function.end and f.at >= at and f.broken:
            text += source[at:f.body] + choice(source, f, inner)
            at = f.end
    return text + source[at:function.end]


def choice(source: str, function: Function, inner: list[Function]) -> str:
    """The body of a function that is one of several."""
    text = ""
    for number, start, end, replacement in function.broken:
        broken = source[function.body:start] + " " + replacement + " " + source[end:function.end]
        text += ("if { static CHOSEN: std::sync::LazyLock<u32> = std::sync::LazyLock::new(|| "
                 f'std::env::var("{CHOICE}").ok().and_then(|n| n.parse().ok()).unwrap_or(0)); '
                 f"*CHOSEN == {number} }} {broken} else ")
    return "{ " + text + sound(source, function, inner) + " }"


def weave(found: dict[pathlib.Path, list[tuple[Mutant, int, int]]]) -> list[Mutant]:
    """Rewrites the files; returns the mutants that have no function to be a choice in: constants, `const fn`, a
    function whose type is its body's."""
    apart = []
    for path, mutants in found.items():
        source = path.read_text()
        all_functions = functions(source)
        for mutant, start, end in mutants:
            start, end, replacement = only_what_differs(source, start, end, mutant.replacement)
            around = [f for f in all_functions if f.body < start and end < f.end]
            if not around or re.search(r"\bconst\b|->\s*(Box<)?impl\b", around[-1].signature):
                apart.append(mutant)
                continue
            around[-1].broken.append((mutant.number, start, end, replacement))
        text, at = "", 0
        for f in all_functions:
            if f.at < at:
                continue
            if f.broken:
                text += source[at:f.body] + choice(source, f, all_functions)
            elif any(g.broken and f.body < g.at < f.end for g in all_functions):
                text += source[at:f.body] + sound(source, f, all_functions)
            else:
                continue
            at = f.end
        path.write_text(text + source[at:])
        root = next(folder for folder in path.parents if folder.name == "src") / "lib.rs"
        # The environment is std's.
        root.write_text(root.read_text().replace("#![no_std]", ""))
    return apart
