"""Marks of functions: equal in every process, others where what a function does is another, and blind to words about it."""

from __future__ import annotations

import functools
import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater import flow
from headwater.dataflow.marks import mark
from headwater.errors import StageChanged

PROGRAM = '''
"""A module."""
from functools import partial
from math import log
import beside
from beside import shared, Kept

LIMIT = 3
WORDS = {"one": [1, 2], "two": {"x", "y", "z"}}
NESTED = (frozenset({"a", "b", "c"}), [{"d", "e"}])
OBJECT = object()

def helper(x):
    """Helps."""
    return x + LIMIT

def inner(x):
    return helper(x) * 2

def decorated(f):
    return f

class Weight:
    def __init__(self, n):
        self.n, self.f, self.o = n, helper, OBJECT
    def __call__(self, row):
        return self.f(row.x) * self.n

class Shape:
    def area(self):
        return 1

def closed(n):
    def f(row):
        return row.x + n
    return f

def unused():
    return 1

@decorated
def stage(row, *, factor=2, where=OBJECT):
    """What it does."""
    # a comment
    return inner(row.x) * factor, row.unused

def many(row):
    return WORDS, NESTED, {"p", "q", "r"}, row.x in ("s", "t")

def elsewhere(row):
    return beside.shared(row.x), log(row.x)

def from_there(row):
    return shared(row.x)

def kept(row):
    return Kept(row.x)

def shaped(row):
    return Shape().area()

anonymous = lambda row: helper(row.x) + 1
given = partial(stage, factor=3)
weighted = Weight(4)
'''
BESIDE = """
def shared(x):
    return deeper(x)

def deeper(x):
    return x + 1

class Kept:
    def __init__(self, x):
        self.x = x
"""
FUNCTIONS = (
    *("stage", "many", "elsewhere", "from_there", "kept", "shaped"),
    *("anonymous", "given", "weighted", "closed"),
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Marks of the functions of a program of two files, some of whose text is another."""
    made = iter(range(100))

    def marks(*changes: tuple[str, str]) -> dict[str, str]:
        folder = tmp_path / str(next(made))
        folder.mkdir()
        texts = {"program": PROGRAM, "beside": BESIDE}
        for old, new in changes:
            assert any(old in t for t in texts.values())
            texts = {n: t.replace(old, new) for n, t in texts.items()}
        for name, text in texts.items():
            (folder / f"{name}.py").write_text(text)
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        with monkeypatch.context() as patch:
            patch.syspath_prepend(folder)
            module = importlib.import_module("program")
        found = {n: getattr(module, n) for n in FUNCTIONS} | {"closed": module.closed(5)}
        return {n: mark(f) for n, f in found.items()}

    yield marks
    for name in ("program", "beside"):
        sys.modules.pop(name, None)


CHANGES = {
    "a constant": ([("* 2", "* 3")], {"stage", "given"}),
    "a global": ([("LIMIT = 3", "LIMIT = 4")], {"stage", "given", "anonymous", "weighted"}),
    "a global in a dict": ([('"y"', '"w"')], {"many"}),
    "a global deep inside": ([('"b"', '"w"')], {"many"}),
    "a helper": ([("x + LIMIT", "x - LIMIT")], {"stage", "given", "anonymous", "weighted"}),
    "a default": ([("factor=2", "factor=5")], {"stage", "given"}),
    "what is given before": ([("factor=3", "factor=5")], {"given"}),
    "the object that is called": ([("Weight(4)", "Weight(5)")], {"weighted"}),
    "how it is called": ([("* self.n", "+ self.n")], {"weighted"}),
    "a class that it uses": ([("return 1\n\ndef closed", "return 2\n\ndef closed")], {"shaped"}),
    "a helper of another file": (
        [("x + 1\n\nclass", "x + 2\n\nclass")],
        {"elsewhere", "from_there"},
    ),
    "a class of another file": ([("self.x = x", "self.x = -x")], {"kept"}),
    "a lambda": ([("(row.x) + 1", "(row.x) + 2")], {"anonymous"}),
    "a closure": ([("row.x + n", "row.x - n")], {"closed"}),
    "the body": ([("factor, row.unused", "factor, row.other")], {"stage", "given"}),
}
SAME = {
    "comments": [("# a comment", "# another")],
    "docstrings": [
        ('"""What it does."""', '"""Other words."""'),
        ('"""Helps."""', '"""Or not."""'),
    ],
    "no docstring": [('    """What it does."""\n', "")],
    "decorators": [("@decorated\n", "")],
    "layout": [
        ("inner(row.x) * factor, row.unused", "(\n  inner( row.x ) *factor, row .unused\n)")
    ],
    "what is not read": [("def unused():\n    return 1", "def unused():\n    return 2")],
    "an attribute's name": [("OBJECT = object()", "OBJECT = object()\nx = 7")],
    "where it stands": [("LIMIT = 3", "\n\n\nLIMIT = 3")],
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_changes_a_mark(project: Any, what: str) -> None:
    changes, others = CHANGES[what]
    before, after = project(), project(*changes)
    assert {n for n in before if before[n] != after[n]} == others


@pytest.mark.parametrize("what", SAME)
def test_what_does_not_change_a_mark(project: Any, what: str) -> None:
    assert project() == project(*SAME[what])


def test_marks_are_the_same_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "beside.py").write_text(BESIDE)
    code = (
        "import program\nfrom headwater.dataflow.marks import mark\n"
        f"for n in {FUNCTIONS!r}:\n"
        "    f = getattr(program, n)\n"
        "    print(n, mark(f(5) if n == 'closed' else f))"
    )
    found = set()
    for seed in ("1", "2"):
        env = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": ":".join([str(tmp_path), *sys.path]),
        }
        ran = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        found.add(ran.stdout)
    assert len(found) == 1 and len(set(found.pop().split())) == 2 * len(FUNCTIONS)


def test_without_source_bytecode_is_marked() -> None:
    def made(text: str) -> Any:
        there: dict[str, Any] = {}
        exec(text, there)
        return mark(there["f"])

    assert made("def f(r): return r + 1") == made("def f(r):\n    # words\n    return r + 1")
    assert made("def f(r): return r + 1") != made("def f(r): return r + 2")
    assert made("n = 1\ndef f(r): return r + n") != made("n = 2\ndef f(r): return r + n")
    assert made("def g(r): return 1\ndef f(r): return g(r)") != made(
        "def g(r): return 2\ndef f(r): return g(r)"
    )


def test_functions_that_call_each_other() -> None:
    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n != 0 and even(n - 1)

    assert mark(even) == mark(even) != mark(odd)


def test_what_is_no_function_of_python() -> None:
    assert mark(len) == mark(len) != mark(sum)
    assert mark(functools.lru_cache(len)) == mark(functools.lru_cache(len))
    assert mark("".join) and mark(int)


# --- stages ------------------------------------------------------------------------------------------------------------


def define(db: hw.Database, f: Any, **words: Any) -> None:
    db.source("s", "k INT, n INT")
    out = words.pop("out", "k INT, n BIGINT")
    flow_words: dict[str, Any] = {"by": "k", "state": "n BIGINT", **words}
    db.stage("s", name="counted", out=out, **flow_words)(f)


def counted(k, rows, state):
    state.n = (state.n or 0) + len(rows)
    return k, state.n


def by_tens(k, rows, state):
    state.n = (state.n or 0) + 10 * len(rows)
    return k, state.n


def last(db: hw.Database) -> Any:
    return db["counted"].state(1).n


def test_another_function_under_the_same_name_is_refused(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        define(db, counted)
        define(db, counted)  # the same again
        db.apply({"s": [(1, 1)]})
        version = db.version
        with pytest.raises(StageChanged) as caught:
            define(db, by_tens)
        assert caught.value.what == "the stage `counted` was defined with another function"
        assert 'changed="keep"' in caught.value.hint and "drop it" in caught.value.hint
        assert db.version == version
        db.run()  # with the function that it had
        assert last(db) == 1


OTHERS = {
    "outputs": {"out": "k INT, n BIGINT, m BIGINT"},
    "state": {"state": "m BIGINT"},
    "inputs": {"by": "n"},
}


@pytest.mark.parametrize("what", OTHERS)
@pytest.mark.parametrize("changed", ["refuse", "keep"])
def test_another_definition_under_the_same_name_is_refused(
    tmp_path: Path, what: str, changed: str
) -> None:
    with hw.open(tmp_path / "db") as db:
        define(db, counted)
        db.apply({"s": [(1, 1)]})
        with pytest.raises(StageChanged) as caught:
            define(db, counted, changed=changed, **OTHERS[what])
        assert f"was defined with another {what}" in str(caught.value)
        assert "drop it" in caught.value.hint
        db.run()
        assert last(db) == 1


def test_keep_goes_on_with_the_state(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        define(db, counted)
        db.apply({"s": [(1, 1)]})
        db.run()
    with hw.open(tmp_path / "db") as db:
        define(db, by_tens, changed="keep")
        db.apply({"s": [(1, 1)]})
        db.run()
        assert last(db) == 11
    with hw.open(tmp_path / "db") as db:  # from now on that is its function
        with pytest.raises(StageChanged):
            define(db, counted)
        define(db, by_tens)
        db.apply({"s": [(1, 1)]})
        db.run()
        assert last(db) == 21
        assert sorted((r["k"], r["n"]) for r in db.table("counted").to_pylist()) == [
            (1, 1),
            (1, 11),
            (1, 21),
        ]


def test_a_held_stage_gets_another_function(tmp_path: Path) -> None:
    def bad(k, rows, state):
        raise ValueError("not yet")

    with hw.open(tmp_path / "db") as db:
        define(db, bad)
        db.apply({"s": [(1, 1)]})
        with pytest.raises(hw.errors.StageFailed, match="not yet"):
            db.run()
        define(db, counted, changed="keep")
        db.run()
        assert last(db) == 1


def test_a_route_is_a_part_of_the_definition(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        define(db, counted, by=flow.route(lambda r: r.k, "k INT"))
        define(db, counted, by=flow.route(lambda r: r.k, "k INT"))
        with pytest.raises(StageChanged, match="was defined with another"):
            define(db, counted, by=flow.route(lambda r: r.k + 1, "k INT"))
