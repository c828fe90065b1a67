"""Goal: the type stubs describe the compiled part as it is.
Method: names and parameters of both, side by side."""

import ast
import inspect
from pathlib import Path

import nandle
from nandle import _core

STUB = ast.parse((Path(nandle.__file__).parent / "_core.pyi").read_text())


def parameters(function):
    a = function.args
    return [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs) if p.arg not in ("self", "cls")]


def public(thing):
    own = vars(thing)
    return {n for n in own if not n.startswith("_") or n.startswith("__arrow")}


def test_names_and_parameters_agree():
    functions = {n.name: n for n in STUB.body if isinstance(n, ast.FunctionDef)}
    classes = {n.name: n for n in STUB.body if isinstance(n, ast.ClassDef)}
    assert functions.keys() | classes.keys() == {n for n in vars(_core) if not n.startswith("_")}
    for name, function in functions.items():
        assert parameters(function) == list(inspect.signature(getattr(_core, name)).parameters), name
    for name, node in classes.items():
        if name == "InputError":
            continue
        real = getattr(_core, name)
        methods = {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
        assert methods.keys() - {"__new__", "__len__"} == public(real), name
        for method, stub in methods.items():
            there = getattr(real, method)
            if callable(there) and method != "__len__":
                known = inspect.signature(real if method == "__new__" else there).parameters
                assert parameters(stub) == [p for p in known if p != "self"], f"{name}.{method}"


def test_everything_public_says_what_it_is():
    assert (Path(nandle.__file__).parent / "py.typed").exists()
    for name in nandle.__all__:
        thing = getattr(nandle, name)
        if callable(thing):
            assert thing.__doc__, name
            for method, value in vars(thing).items() if isinstance(thing, type) else ():
                if not method.startswith("_") and callable(value) and thing.__module__ != "nandle._core":
                    assert value.__doc__, f"{name}.{method}"
