"""A directory that somebody sends: whatever was changed in it, using it gives the right rows or an error of ours.

A small database is built once, and what is right is known without it: the rows of its sources by version, and each view
as a plain function of them. Then copies are changed in random ways, with checksums made right again and with the seals
too, and everything is done with them that is done with a database. No other exception comes out, no wrong row, no file
outside is opened or changed, no Spark is started and nothing is run.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import shutil
import sys
import threading
import zlib
import zoneinfo
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from conftest import started

import headwater as hw
from headwater import flow
from headwater.calculus.notation.text import show
from headwater.calculus.terms import Call, Field, Term, Var
from headwater.calculus.types import BIGINT, STRING, KeyType, bag
from headwater.calculus.types import record as row_type
from headwater.command.cli import main
from headwater.engine.spark import session as sessions
from headwater.errors import HeadwaterError, NotIncremental
from headwater.language.schema import columns
from headwater.language.sql import read_sql
from headwater.language.sql.opaque import Told
from headwater.language.sql.texts import check_query, check_template
from headwater.state import log as logs
from headwater.state.directory import MARKER
from headwater.state.log import Version, path_of
from retail import corpus
from retail.tables import SCHEMA
from sql.corpus import read as read_corpus

Rows = Counter[tuple[Any, ...]]
Sources = dict[str, Rows]

SOURCES = {
    "orders": "id BIGINT, customer BIGINT, state STRING",
    "lines": "order_id BIGINT, part STRING, price DECIMAL(8,2), qty INT",
    "customers": "id BIGINT, name STRING",
}
VIEWS = {
    "revenue": """SELECT o.customer, count(*) AS n, sum(l.price * l.qty) AS total
        FROM orders o JOIN lines l ON o.id = l.order_id GROUP BY o.customer""",
    "ends": "SELECT part, min(price) AS low, max(price) AS high FROM lines GROUP BY part",
    "states": "SELECT DISTINCT state FROM orders",
    "latest": """SELECT customer, id, row_number() OVER (PARTITION BY customer ORDER BY id DESC) AS r
        FROM orders QUALIFY r <= 2""",
    "silent": """SELECT c.id, c.name, o.id AS order_id
        FROM customers c LEFT JOIN orders o ON c.id = o.customer""",
}
INCREMENTS, KEPT = 13, 8


# --- what is right ---------------------------------------------------------------------------------------------


def revenue(s: Sources) -> Rows:
    found: dict[Any, tuple[int, Decimal]] = {}
    for (id, customer, _), m in s["orders"].items():
        for (order, _, price, qty), n in s["lines"].items():
            if order == id:
                count, total = found.get(customer, (0, Decimal(0)))
                found[customer] = count + m * n, total + m * n * price * qty
    return Counter((c, n, t) for c, (n, t) in found.items())


def ends(s: Sources) -> Rows:
    prices: dict[str, list[Decimal]] = {}
    for _, part, price, _ in s["lines"]:
        prices.setdefault(part, []).append(price)
    return Counter((p, min(v), max(v)) for p, v in prices.items())


def states(s: Sources) -> Rows:
    return Counter({(state,) for _, _, state in s["orders"]})


def latest(s: Sources) -> Rows:
    of: dict[int, list[int]] = {}
    for id, customer, _ in s["orders"]:
        of.setdefault(customer, []).append(id)
    ranked = ((c, sorted(ids, reverse=True)) for c, ids in of.items())
    return Counter((c, id, r) for c, ids in ranked for r, id in enumerate(ids[:2], 1))


def silent(s: Sources) -> Rows:
    out: Rows = Counter()
    for (id, name), m in s["customers"].items():
        orders = [o for o, customer, _ in s["orders"] if customer == id]
        for order in orders or [None]:
            out[id, name, order] += m
    return out


ANSWERS: dict[str, Callable[[Sources], Rows]] = {
    "revenue": revenue,
    "ends": ends,
    "states": states,
    "latest": latest,
    "silent": silent,
}


def right(name: str, sources: Sources) -> Rows:
    """The rows of a source or view, where the sources have these."""
    return ANSWERS[name](sources) if name in ANSWERS else +sources[name]


def weighted(table: pa.Table) -> Rows:
    """The rows of a table with `_w`, by how often they are there."""
    out: Rows = Counter()
    for row in table.to_pylist():
        weight = row.pop("_w")
        out[tuple(row.values())] += weight
    return Counter({r: n for r, n in out.items() if n})


# --- the database ----------------------------------------------------------------------------------------------


@dataclass
class Sent:
    """A database, what its sources have at each version that is kept, and which views are there."""

    path: Path
    versions: dict[int, Sources] = field(default_factory=dict)

    @property
    def newest(self) -> int:
        return max(self.versions)


NEW: dict[str, list[tuple[Any, ...]]] = {
    "orders": [(900, 1, "late")],
    "lines": [(900, "a", Decimal("0.01"), 3), (3, "zz", Decimal("9.99"), 1)],
    "customers": [(77, "new")],
}


def changed(sources: Sources, inserts: Mapping[str, Any], deletes: Mapping[str, Any]) -> Sources:
    out = {n: Counter(rows) for n, rows in sources.items()}
    for name, rows in inserts.items():
        out[name].update(rows)
    for name, rows in deletes.items():
        out[name].subtract(rows)
    return {n: +rows for n, rows in out.items()}


def build(path: Path, increments: int = INCREMENTS) -> Sent:
    """Sources and views, filled by increments that take rows back as well."""
    made, chance = Sent(path), random.Random(1)
    sources: Sources = {n: Counter() for n in SOURCES}
    with hw.open(path, keep_versions=KEPT) as db:
        for name, ddl in SOURCES.items():
            db.source(name, ddl)
        for name, query in VIEWS.items():
            db.view(name, query)
        for i in range(increments):
            ids = range(3 * i, 3 * i + 3)
            new: dict[str, list[Any]] = {
                "orders": [(n, n % 5, "abc"[chance.randrange(3)]) for n in ids],
                "lines": [
                    (n, "pqr"[chance.randrange(3)], Decimal(chance.randrange(1, 999)) / 100, n % 4)
                    for n in ids
                    for _ in range(chance.randrange(3))
                ],
                "customers": [(i, f"c{i}")] if i % 3 == 0 else [],
            }
            gone = {
                n: chance.sample(sorted(rows.elements()), len(rows) // 6)
                for n, rows in sources.items()
            }
            sources = changed(sources, new, gone)
            commit = db.apply({n: hw.Delta(new[n], gone[n]) for n in SOURCES}, id=f"change {i}")
            made.versions[commit.version] = sources
        assert db._writer is not None
        db._writer.collect()
        first = db.store.log.floor()
    made.versions = {v: s for v, s in made.versions.items() if v >= first}
    return made


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Sent:
    folder = tmp_path_factory.mktemp("sent")
    build(folder / "other", 5)
    made = build(folder / "good")
    uses = Uses(made, Path(shutil.copytree(made.path, folder / "warm")))
    uses.all()  # whatever is loaded late is loaded now
    assert not uses.errors, uses.errors
    return made


# --- everything that is done with a database ---------------------------------------------------------------------


class Uses:
    """Uses a directory, and holds it to the law; `errors` are those of ours that came out."""

    def __init__(self, sent: Sent, path: Path, may_differ: bool = False, chance: int = 0):
        self.sent, self.path, self.may_differ = sent, path, may_differ
        self.random = random.Random(chance)
        self.errors: list[HeadwaterError] = []
        self.after: dict[int, Sources] = {}
        self.rows = 0

    def all(self) -> None:
        db = self.tried(lambda: hw.open(self.path))
        if db is not None:
            self.read(db)
            self.written(db)
            self.tried(db.close)
        if db is None or self.random.random() < 0.5:
            self.command("status")
            self.command("check")
            return
        again = self.tried(lambda: hw.open(self.path))
        if again is not None:
            self.newest(again)
            self.tried(again.check)

    def tried(self, act: Callable[[], Any]) -> Any:
        """What comes of it; None where an error of ours does."""
        try:
            return act()
        except HeadwaterError as e:
            self.errors.append(e)
            return None

    def same(self, found: Rows, expected: Rows, what: str) -> None:
        assert self.may_differ or found == expected, (
            f"{what} is wrong: {found - expected} are there, {expected - found} are not"
        )
        self.rows += sum(found.values())

    def read(self, db: hw.Database) -> None:
        kept = sorted(self.sent.versions)
        versions = [None, kept[0], self.random.choice(kept), kept[-1]]
        for version in versions:
            for name in (*SOURCES, *VIEWS):
                table = self.tried(lambda n=name, v=version: db.table(n, v))
                if table is not None:
                    at = db.version if version is None else version
                    self.known(at)
                    if not self.may_differ:
                        expected = right(name, self.sent.versions[at])
                        self.same(weighted(table), expected, f"{name} at {at}")
        for name in VIEWS:
            since = self.random.choice(kept[-5:-1])
            table = self.tried(lambda n=name, s=since: db.changes_table(n, s))
            if table is not None and not self.may_differ:
                self.changes(table, name, since, db.version)
        self.tried(lambda: db.cdc_table(name, kept[-2]))
        self.tried(lambda: db.explain(name))
        self.tried(db.on_disk)
        self.tried(db.keep)

    def known(self, version: int) -> None:
        assert self.may_differ or version in self.sent.versions, f"there was no version {version}"

    def changes(self, table: pa.Table, name: str, since: int, until: int) -> None:
        self.known(until)
        numbers = table.column("_version").to_pylist()
        rows = table.drop_columns(["_version"])
        for version in range(since + 1, until + 1):
            mine = rows.filter(pa.array([n == version for n in numbers], pa.bool_()))
            found = weighted(mine)
            old, new = (right(name, self.sent.versions[v]) for v in (version - 1, version))
            expected = Counter({r: new[r] - old[r] for r in {*new, *old} if new[r] != old[r]})
            assert found == expected, f"the changes of {name} at {version} are wrong"
        assert set(numbers) <= set(range(since + 1, until + 1))

    def written(self, db: hw.Database) -> None:
        before = db.version
        again = self.tried(
            lambda: db.apply({"orders": NEW["orders"]}, id=f"change {INCREMENTS - 1}")
        )
        assert again is None or again.repeated or self.may_differ or before < self.sent.newest
        if again is not None and not again.repeated:  # its version was taken away
            if not self.may_differ:
                sources = changed(self.sent.versions[before], {"orders": NEW["orders"]}, {})
                self.after = {again.version: sources}
            return
        commit = self.tried(lambda: db.apply({n: rows[:1] for n, rows in NEW.items()}))
        more = {"lines": NEW["lines"][1:]} if commit is not None else {}
        if commit is None:
            return
        for text in commit.warnings:
            assert not re.search(r"tidied up: \w+(Error|Exception|Invalid):", text), text
        gone = {"lines": NEW["lines"][:1]}
        delta = hw.Delta(inserts=more["lines"], deletes=gone["lines"])
        second = self.tried(lambda: db.apply({"lines": delta}))
        if self.may_differ:
            return
        self.known(before)
        first = {n: rows[:1] for n, rows in NEW.items()}
        sources = changed(self.sent.versions[before], first, {})
        self.after = {commit.version: sources}
        if second is not None:
            self.after[second.version] = changed(sources, more, gone)
        self.newest(db)

    def newest(self, db: hw.Database) -> None:
        known = {**self.sent.versions, **self.after}
        for name in (*SOURCES, *VIEWS):
            table = self.tried(lambda n=name: db.table(n))
            if table is not None and not self.may_differ:
                assert db.version in known
                self.same(weighted(table), right(name, known[db.version]), f"{name}, newest")

    def command(self, name: str) -> None:
        silently([name, str(self.path)])


def silently(arguments: list[str]) -> int:
    """A command, and nothing that it prints."""
    shown = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
    with shown[0], shown[1]:
        return main(arguments)


# --- who opens what ----------------------------------------------------------------------------------------------

RUNS = {
    *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork"),
    *("os.forkpty", "socket.connect", "socket.bind", "pickle.find_class", "ctypes.dlopen"),
    *("exec", "compile", "import"),
}
WRITES = {
    *("os.remove", "os.rename", "os.link", "os.symlink", "os.mkdir", "os.rmdir", "os.truncate"),
    *("os.chmod", "os.chown", "os.utime", "os.setxattr"),
}
READS = {"open", "os.scandir", "os.listdir", "arrow"}
LIBRARIES = [sys.prefix, sys.base_prefix, *zoneinfo.TZPATH, Path(__file__).parents[2]]
WATCHED: list[tuple[str, tuple[Any, ...]]] | None = None
"""What was done since somebody began to watch; nobody does where it is None."""
OTHERS: set[int] = set()
"""Threads that were there before: those of databases that another test has left open."""


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if WATCHED is None or threading.get_ident() in OTHERS:
        return
    if event in RUNS or event in WRITES or event in READS:
        WATCHED.append((event, args))


def _no_spark() -> None:
    raise AssertionError("Spark would be started")


class Watch:
    """Sees which files are opened and changed, and what is run, while a directory is used."""

    def __init__(self, path: Path, allows: Sequence[str] = ()):
        self.path, self.allows = path.resolve(), allows
        self.patched = pytest.MonkeyPatch()

    def __enter__(self) -> None:
        global WATCHED
        _watching()
        for name in ("memory_map", "OSFile"):
            self.patched.setattr(pa, name, self.seen(getattr(pa, name)))
        self.patched.setattr(sessions, "local_session", _no_spark)
        others = (t for t in threading.enumerate() if t is not threading.current_thread())
        OTHERS.clear()
        OTHERS.update(t.ident for t in others if t.ident is not None)
        WATCHED = []

    def seen(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def opened(path: str, *args: Any, **named: Any) -> Any:
            _hook("arrow", (path, *args))
            return act(path, *args, **named)

        return opened

    def __exit__(self, kind: Any, *_: Any) -> None:
        global WATCHED
        seen, WATCHED = WATCHED or [], None
        self.patched.undo()
        if kind is None:
            different = {(event, str(args)): args for event, args in seen}
            wrong = [
                f"{event} {args}"
                for (event, _), args in different.items()
                if not self.allowed(event, args)
            ]
            assert not wrong, "\n".join(wrong)

    def allowed(self, event: str, args: tuple[Any, ...]) -> bool:
        if event in RUNS:
            return event in self.allows
        named = args[: 2 if event in ("os.rename", "os.link", "os.symlink") else 1]
        paths = [p for p in named if not isinstance(p, int)]  # a handle was opened before
        return all(self.inside(os.fsdecode(p), event, args) for p in paths)

    def inside(self, path: str, event: str, args: tuple[Any, ...]) -> bool:
        at = Path(os.path.realpath(path))
        if at.is_relative_to(self.path) or path == os.devnull:
            return True
        if event in WRITES:
            return False
        flags = args[2] if event == "open" and isinstance(args[2], int) else os.O_RDONLY
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return False
        if event == "arrow":  # by the handle of a file whose opening was seen
            return path.startswith("/proc/self/fd/")
        # The name of the directory itself is made durable in the one around it.
        return at == self.path.parent or any(at.is_relative_to(p) for p in LIBRARIES)


_installed: list[bool] = []


def _watching() -> None:
    """A hook stays for as long as the process, so it is there once."""
    if not _installed:
        sys.addaudithook(_hook)
        _installed.append(True)


# --- ways to change a directory ----------------------------------------------------------------------------------


def record(path: Path, number: int) -> Any:
    return json.loads((path / path_of(number)).read_bytes().rpartition(b"\n")[0])


def write(path: Path, number: int, content: Any) -> None:
    """A record with its checksum."""
    body = json.dumps(content, separators=(",", ":")).encode()
    (path / path_of(number)).write_bytes(body + b"\n" + f"{zlib.crc32(body):08x}".encode())


def numbers(path: Path) -> list[int]:
    return sorted(int(p.stem) for p in (path / "log").glob("*.json"))


def reseal(path: Path) -> bool:
    """Makes the seals of all records right again; whether that was possible."""
    version = Version()
    for n in numbers(path):
        found = record(path, n)
        try:
            if "checkpoint" in found:
                version = logs._version(n, found)
            else:
                about = found["time"], found["note"], found["mark"]
                version = logs._change(found["change"]).applied(version, n, *about)
        except Exception:
            return False
        found["seal"] = logs.seal_text(version)
        write(path, n, found)
    return True


HUGE = [2**31, 2**63, -(2**63) - 1, 2**70, 10**30, 1e308, -1e308]
ODD = [
    "",
    "\0",
    "../../other/data/run-x.arrow",
    "../" * 3 + "etc" + "/passwd",
    "/" + "etc/passwd",
    "..",
    "x" * 5000,
    "spark:java_method('java.lang.System', 'exit', {0})",
    "9999-99-99",
    "\ud800",
    "`",
]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a value, as its holder and key."""
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in list(keys):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from places(value[key])


def texts(value: Any) -> list[str]:
    return [h[k] for h, k in places(value) if isinstance(h[k], str)] or ["x"]


def other(r: random.Random, old: Any, known: Sequence[str]) -> Any:
    """A value in the place of another."""
    match old:
        case bool() | None:
            return r.choice([True, False, None, 0, 1, "x", []])
        case int() | float():
            near = [old + 1, old - 1, old * 2, -old, 0, 1]
            odd = [old + 0.5, str(old), None, True, [old], {"x": old}, float(old)]
            return r.choice([*near, *near, *near, *HUGE, *odd])
        case str():
            cut = [old[:-1], old[: len(old) // 2], old[1:], old + "x", old + " ", old.swapcase()]
            at = r.randrange(len(old) + 1)
            changed = old[:at] + r.choice("0aZ ),.{`'") + old[at + 1 :]
            odd = [5, None, [old], True, {"x": old}]
            return r.choice([*cut, *[changed] * 4, *r.choices(known, k=5), *ODD, r.choice(odd)])
        case list():
            return r.choice([_less(r, old), _twice(r, old), _swapped(r, old), [], {}, None, 5])
        case dict():
            return r.choice([_renamed(r, old, known), _dropped(r, old), {}, [], None, "x"])
    raise AssertionError(old)


def _less(r: random.Random, old: list[Any]) -> list[Any]:
    at = r.randrange(len(old)) if old else 0
    return old[:at] + old[at + 1 :]


def _twice(r: random.Random, old: list[Any]) -> list[Any]:
    return [*old, r.choice(old)] if old else [None]


def _swapped(r: random.Random, old: list[Any]) -> list[Any]:
    return r.sample(old, len(old))


def _dropped(r: random.Random, old: dict[str, Any]) -> dict[str, Any]:
    gone = r.choice(list(old)) if old else ""
    return {k: v for k, v in old.items() if k != gone}


def _renamed(r: random.Random, old: dict[str, Any], known: Sequence[str]) -> dict[str, Any]:
    gone = r.choice(list(old)) if old else "x"
    name = r.choice([gone + "x", gone[:-1], "x", *r.choices(known, k=3), *list(old)[:3]])
    return {name if k == gone else k: v for k, v in old.items()}


def scalar(r: random.Random, path: Path, sent: Sent) -> str:
    """Anything in a record, with its checksum made right."""
    number = r.choice(numbers(path))
    found = record(path, number)
    said = []
    for _ in range(r.choice([1, 1, 1, 2, 3])):
        holder, key = r.choice(list(places(found)))
        old, known = holder[key], texts(found)
        holder[key] = other(r, old, known)
        said.append(f"{key}: {str(old)[:60]} -> {str(holder[key])[:60]}")
    write(path, number, found)
    return f"record {number}, {'; '.join(said)}"


def runs_of(found: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The runs that a record names, by map."""
    for part in ("added", "removed"):
        for name, refs in found["change"][part].items():
            yield from ((name, ref) for ref in refs)
    for name, (_, refs) in found.get("checkpoint", {"maps": {}})["maps"].items():
        yield from ((name, ref) for ref in refs)


NUMBERS = ("rows", "low", "high", "size", "offset", "checksum", "version", "round", "spent")


def run_number(r: random.Random, path: Path, sent: Sent) -> str:
    """A number of a run, in one record or wherever it is named, with checksums and seals made right."""
    every = [(n, ref) for n in numbers(path) for _, ref in runs_of(record(path, n))]
    number, chosen = r.choice(every)
    name = r.choice((*NUMBERS, "file"))
    value = other(r, chosen[name], [ref["file"] for _, ref in every])
    everywhere = r.random() < 0.7
    for n in numbers(path) if everywhere else [number]:
        found = record(path, n)
        for _, ref in runs_of(found):
            if (ref["file"], ref["offset"]) == (chosen["file"], chosen["offset"]):
                ref[name] = value
        write(path, n, found)
    sealed = reseal(path)
    where = "everywhere" if everywhere else f"in record {number}"
    return f"{name} of {chosen} -> {str(value)[:60]} {where}, sealed: {sealed}"


def run_list(r: random.Random, path: Path, sent: Sent) -> str:
    """A run that is named twice, or for another map, or in another order, with checksums and seals."""
    number = r.choice([n for n in numbers(path) if any(runs_of(record(path, n)))])
    found = record(path, number)
    parts = [found["change"]["added"], found["change"]["removed"]]
    lists = [refs for part in parts for refs in part.values() if refs]
    lists += [refs for _, refs in found.get("checkpoint", {"maps": {}})["maps"].values() if refs]
    chosen = r.choice(lists)
    kind = r.choice(["twice", "swapped", "of another"])
    if kind == "twice":
        chosen.append(dict(r.choice(chosen)))
    elif kind == "swapped":
        r.shuffle(chosen)
    else:
        chosen.append(dict(r.choice(r.choice(lists))))
    write(path, number, found)
    return f"a run {kind} in record {number}, sealed: {reseal(path)}"


def map_name(r: random.Random, path: Path, sent: Sent) -> str:
    """Another name of a map, in one record or everywhere; or two that change places."""
    newest = max(n for n in numbers(path) if "checkpoint" in record(path, n))
    known = [*record(path, newest)["checkpoint"]["maps"]]
    old = r.choice(known)
    new = r.choice([*known, *known, old[:-1], "", "x", "../x", "\0"])
    names = {old: new, new: old} if r.random() < 0.5 else {old: new}
    where = numbers(path) if r.random() < 0.5 else [r.choice(numbers(path))]
    for n in where:
        found = record(path, n)
        parts = [(found["change"], k) for k in ("created", "added", "removed")]
        parts += [(found["checkpoint"], "maps")] if "checkpoint" in found else []
        for holder, key in parts:
            holder[key] = {names.get(m, m): v for m, v in holder[key].items()}
        write(path, n, found)
    return f"map names {names} in {where}, sealed: {reseal(path)}"


def spec(r: random.Random, path: Path, sent: Sent) -> str:
    """What a map is made of, with checksums and seals."""
    number = r.choice([n for n in numbers(path) if "checkpoint" in record(path, n)])
    found = record(path, number)
    name = r.choice(list(found["checkpoint"]["maps"]))
    holder, key = r.choice(list(places(found["checkpoint"]["maps"][name][0])))
    old = holder[key]
    holder[key] = other(r, old, texts(found["checkpoint"]["maps"]))
    write(path, number, found)
    said = f"{key}: {str(old)[:60]} -> {str(holder[key])[:60]}"
    return f"spec of {name} in record {number}, {said}, sealed: {reseal(path)}"


def fact(r: random.Random, path: Path, sent: Sent) -> str:
    """What the log alone says: definitions, settings, ids; with checksums and seals."""
    newest = max(n for n in numbers(path) if "checkpoint" in record(path, n))
    number = r.choice([newest, newest, r.choice(numbers(path))])
    found = record(path, number)
    facts = found["checkpoint" if number == newest else "change"]["facts"]
    said = []
    if r.random() < 0.15 or not facts:  # what is said of the version itself
        number = r.choice(numbers(path))
        found = record(path, number)
        key = r.choice(["note", "time", "mark", "note"])
        found[key] = r.choice([other(r, found[key], ["rebuild"]), {"what": "rebuild"}])
        write(path, number, found)
        return f"record {number}, {key} -> {str(found[key])[:60]}, sealed: {reseal(path)}"
    for _ in range(r.choice([1, 1, 2])):
        some = [f for f in facts if not f.startswith("applied:")]
        chosen = r.choice([*some, *some, *facts])
        around = [(facts, chosen)]
        inside = list(places(facts[chosen])) if isinstance(facts[chosen], (dict, list)) else []
        holder, key = r.choice([*around, *inside * 3])
        old = holder[key]
        holder[key] = other(r, old, texts(facts))
        said.append(f"{chosen} {key}: {str(old)[:60]} -> {str(holder[key])[:60]}")
    write(path, number, found)
    return f"record {number}, fact {'; '.join(said)}, sealed: {reseal(path)}"


def data_file(r: random.Random, path: Path, sent: Sent) -> str:
    """Data files exchanged, cut, flipped, gone."""
    names = sorted(p.name for p in (path / "data").iterdir())
    one, two = r.sample(names, 2)
    first, second = path / "data" / one, path / "data" / two
    kind = r.choice(["swap", "copy", "foreign", "cut", "flip", "gone", "empty", "more", "zeros"])
    content = bytearray(first.read_bytes())
    match kind:
        case "swap":
            other_content = second.read_bytes()
            second.write_bytes(content)
            first.write_bytes(other_content)
        case "copy":
            first.write_bytes(second.read_bytes())
        case "foreign":
            foreign = sorted((sent.path.parent / "other" / "data").iterdir())
            first.write_bytes(r.choice(foreign).read_bytes())
        case "cut":
            first.write_bytes(content[: r.randrange(len(content))])
        case "flip":
            for _ in range(r.choice([1, 1, 5])):
                content[r.randrange(len(content))] ^= 1 << r.randrange(8)
            first.write_bytes(content)
        case "gone":
            first.unlink()
        case "empty":
            first.write_bytes(b"")
        case "more":
            first.write_bytes(content + r.randbytes(r.randrange(1, 100)))
        case "zeros":
            at = r.randrange(len(content))
            content[at : at + 64] = bytes(len(content[at : at + 64]))
            first.write_bytes(content)
    return f"data/{one}: {kind}, {two}"


def whole_record(r: random.Random, path: Path, sent: Sent) -> str:
    """Records under other numbers, twice, gone, or from another database."""
    known = numbers(path)
    one, two = r.sample(known, 2)
    at, to = path / path_of(one), path / path_of(two)
    kind = r.choice(["move", "copy", "after", "gone", "foreign", "flip", "cut", "swap", "far"])
    match kind:
        case "move":
            at.replace(to)
        case "copy" | "swap":
            content = to.read_bytes()
            to.write_bytes(at.read_bytes())
            if kind == "swap":
                at.write_bytes(content)
        case "after":  # as though it had been committed again
            again = {**record(path, known[-1]), "version": known[-1] + 1}
            write(path, known[-1] + 1, again)
            reseal(path)
        case "far":
            shutil.copy(at, path / path_of(r.choice([known[-1] + 2, 10**6, 10**15, 10**20 - 1])))
        case "gone":
            at.unlink()
        case "foreign":
            foreign = sent.path.parent / "other"
            shutil.copy(foreign / path_of(r.choice(numbers(foreign))), at)
        case "flip":
            content = bytearray(at.read_bytes())
            content[r.randrange(len(content))] ^= 1 << r.randrange(8)
            at.write_bytes(content)
        case "cut":
            at.write_bytes(at.read_bytes()[: r.randrange(at.stat().st_size)])
    return f"record {one}: {kind}, {two}"


def small_file(r: random.Random, path: Path, sent: Sent) -> str:
    """Who writes, which versions are kept, and the marker."""
    kind = r.choice(["lease", "lease", "floor", "marker"])
    if kind == "floor":
        number = r.choice([0, 1, 5, sent.newest - 3, sent.newest, sent.newest + 1, 10**20 - 1])
        for old in (path / "floor").iterdir():
            if r.random() < 0.5:
                old.unlink()
        if r.random() < 0.8:
            (path / "floor" / f"{number:020d}").write_bytes(r.randbytes(r.randrange(5)))
        return f"floor {number}, {sorted(os.listdir(path / 'floor'))}"
    if kind == "marker":
        at, found = path / MARKER, json.loads((path / MARKER).read_bytes())
    else:
        epoch = r.choice([1, 2, 9, 10**20 - 1])
        at = path / f"lease/{epoch:020d}.json"
        found = {"owner": "0" * 32, "host": os.uname().nodename, "pid": 1}
        for released in (path / "lease").glob("*.released"):
            if r.random() < 0.7:
                released.unlink()
    if r.random() < 0.8:
        holder, key = r.choice(list(places(found)))
        holder[key] = other(r, holder[key], ["x"])
    text = json.dumps(found).encode()
    content = r.choice([text, text, text, text[: len(text) // 2], b"", b"\xff", b"[" * 10_000])
    at.write_bytes(content)
    return f"{at.name}: {content[:100]!r}"


Way = Callable[[random.Random, Path, Sent], str]
WAYS: list[Way] = [
    *(scalar, run_number, fact, data_file, whole_record, scalar, run_number, map_name),
    *(scalar, small_file, run_list, fact, scalar, run_number, spec),
]
MAY_DIFFER = {fact}
"""What the log alone says nobody can know better: only the rest of the law holds."""


def contents(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def assert_lawful(sent: Sent, path: Path, seed: int) -> Uses:
    r = random.Random(seed)
    way = WAYS[seed % len(WAYS)]
    shutil.copytree(sent.path, path)
    said = way(r, path, sent)
    canary = contents(sent.path.parent / "other")
    uses = Uses(sent, path, way in MAY_DIFFER, seed)
    before = started()
    try:
        with Watch(path):
            uses.all()
    except BaseException as e:
        e.add_note(f"seed {seed}, {way.__name__}: {said}")
        raise
    assert started() == before, f"Spark was started: {said}"
    assert contents(sent.path.parent / "other") == canary, f"another was changed: {said}"
    return uses


@pytest.mark.parametrize("seed", range(2 * len(WAYS)))
def test_a_directory_that_was_changed_gives_what_is_right_or_an_error_of_ours(
    sent: Sent, tmp_path: Path, seed: int
) -> None:
    assert_lawful(sent, tmp_path / "db", seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2 * len(WAYS), 560))
def test_a_directory_that_was_changed_in_more_ways(sent: Sent, tmp_path: Path, seed: int) -> None:
    assert_lawful(sent, tmp_path / "db", seed)


def test_a_directory_that_was_not_changed_is_right_and_touches_nothing_outside(
    sent: Sent, tmp_path: Path
) -> None:
    shutil.copytree(sent.path, tmp_path / "db")
    assert reseal(tmp_path / "db")
    uses = Uses(sent, tmp_path / "db")
    with Watch(tmp_path / "db"):
        uses.all()
    assert not uses.errors
    assert uses.rows > 300


# --- stages --------------------------------------------------------------------------------------------------------

OF_STAGES = ("stage:", "flow:", "cursor:", "node:", "schedule", "settled", "source:", "seen:")


def bind(db: hw.Database) -> None:
    """Stages of every kind of fact: a framed input with a frame that is open, state with a clock, two in a row, a look-up."""

    @db.stage("clicks", out="user BIGINT, at BIGINT")
    def seen(click: Any) -> Any:
        return click.user, click.at

    @db.stage("seen", out="user BIGINT, at BIGINT, name STRING", lookups={"who": LOOK_UP})
    def named(click: Any, who: Any) -> Any:
        return click.user, click.at, who[0].name if who else None

    by_user = flow.reads("named", by="user", order_by="at")

    @db.stage(by_user, state="n BIGINT", out="user BIGINT, n BIGINT")
    def counted(user: Any, clicks: Any, state: Any) -> Any:
        state.n = (state.n or 0) + len(clicks)
        return user, state.n

    tens = flow.frames(lambda row, small: (row.at // 10, (small or 0) + 1), "at")

    @db.stage(flow.reads("clicks", by=(), framing=tens), out="decade BIGINT, n BIGINT")
    def by_ten(_: Any, clicks: Any) -> Any:
        return clicks[0]._frame, len(clicks)


LOOK_UP = flow.lookup("users", on={"user": "id"})
CLICKS = [[(1, 3), (2, 5), (1, 9)], [(3, 12), (1, 14)], [(2, 27)]]


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("staged") / "db"
    with hw.open(path) as db:
        db.source("clicks", "user BIGINT, at BIGINT")
        db.source("users", "id BIGINT, name STRING")
        bind(db)
        db.view("most", "SELECT max(n) AS n FROM counted")
        db.apply({"users": [(1, "a"), (2, "b")], "clicks": CLICKS[0]})
        db.run()
        db.apply({"clicks": CLICKS[1]})
        db.run(epochs=1)  # the rest waits
        db.apply({"clicks": CLICKS[2]})
    assert not used_with_stages(Path(shutil.copytree(path, path.parent / "warm")))
    return path


def used_with_stages(path: Path) -> list[HeadwaterError]:
    """Everything that is done with stages; the errors of ours that came out."""
    errors: list[HeadwaterError] = []

    def tried(act: Callable[[], Any]) -> Any:
        try:
            return act()
        except HeadwaterError as e:
            errors.append(e)
            return None

    db = tried(lambda: hw.open(path))
    if db is None:
        return errors
    with contextlib.closing(db):
        tried(lambda: bind(db))
        tried(db.nodes)
        tried(db.explain_graph)
        tried(db.run)
        tried(lambda: db.apply({"clicks": [(1, 33)]}))
        tried(db.run)
        for name in ("counted", "by_ten", "most"):
            tried(lambda n=name: db.table(n))
        tried(lambda: db["counted"].state(1))
        tried(lambda: db["by_ten"].waiting)
    silently(["status", str(path)])
    return errors


def stage_fact(r: random.Random, path: Path) -> str:
    """What the log says of stages, of where they stand, or of flows; with checksums and seals."""
    newest = max(n for n in numbers(path) if "checkpoint" in record(path, n))
    places_of = [(n, "checkpoint" if n == newest else "change") for n in numbers(path)[-3:]]
    number, part = r.choice([(newest, "checkpoint"), *places_of])
    found = record(path, number)
    facts = found[part]["facts"]
    mine = [f for f in facts if f.startswith(OF_STAGES)]
    if not mine:
        return "nothing"
    said = []
    for _ in range(r.choice([1, 1, 2])):
        chosen = r.choice(mine)
        inside = list(places(facts[chosen])) if isinstance(facts[chosen], (dict, list)) else []
        holder, key = r.choice([(facts, chosen), *inside * 3])
        old = holder[key]
        holder[key] = other(r, old, texts(facts))
        said.append(f"{chosen} {key}: {str(old)[:60]} -> {str(holder[key])[:60]}")
    write(path, number, found)
    return f"record {number}, {'; '.join(said)}, sealed: {reseal(path)}"


def assert_lawful_with_stages(staged: Path, path: Path, seed: int) -> None:
    shutil.copytree(staged, path)
    said = stage_fact(random.Random(seed), path)
    try:
        with Watch(path, allows=["compile"]):  # of the text of functions that are bound
            used_with_stages(path)
    except BaseException as e:
        e.add_note(f"seed {seed}: {said}")
        raise


@pytest.mark.parametrize("seed", range(12))
def test_facts_of_stages_that_were_changed_give_an_error_of_ours(
    staged: Path, tmp_path: Path, seed: int
) -> None:
    assert_lawful_with_stages(staged, tmp_path / "db", seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12, 200))
def test_facts_of_stages_that_were_changed_in_more_ways(
    staged: Path, tmp_path: Path, seed: int
) -> None:
    assert_lawful_with_stages(staged, tmp_path / "db", seed)


# --- text that would reach Spark -----------------------------------------------------------------------------------

ROW = Field(Var("s1", row_type(k=BIGINT, v=STRING)), "v")


@pytest.fixture(scope="module")
def little(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("little") / "db"
    with hw.open(path) as db:
        db.source("s", "k BIGINT, v STRING")
        db.view("w", "SELECT k, v AS u FROM s")
        db.view("g", "SELECT v, count(*) AS n FROM s GROUP BY v")
        db.apply({"s": [(1, "a"), (2, "b")]})
    with hw.open(path) as db:  # reads the program, whose types are looked up once in a process
        db.apply({"s": []})
    return path


def stored(path: Path, view: str, **cells: Callable[[str], Any]) -> None:
    """Writes something else into the definition of a view, with checksums and seals."""
    changed = 0
    for n in numbers(path):
        found = record(path, n)
        for facts in (found["change"]["facts"], found.get("checkpoint", {}).get("facts", {})):
            for name, made in cells.items() if f"view:{view}" in facts else ():
                old = facts[f"view:{view}"][name]
                facts[f"view:{view}"][name] = made(old)
                changed += facts[f"view:{view}"][name] != old
        write(path, n, found)
    assert changed and reseal(path)


def calling(function: str, *args: Term) -> Callable[[str], str]:
    """A view's term with a call in the place of its second column."""
    call = show(Call(function, args or (ROW,), STRING))

    def made(term: str) -> str:
        assert "u: s1.v" in term
        return term.replace("u: s1.v", f"u: {call}")

    return made


CALLS_CODE = [
    "java_method('java.lang.System', 'load', {0})",
    "JAVA_METHOD ('java.lang.System', 'load', {0})",
    "reflect('java.lang.Runtime', 'getRuntime')",
    "try_reflect('java.lang.System', 'getenv', {0})",
    "system.builtin.reflect('java.lang.System', 'getenv', {0})",
    "upper(java_method('java.lang.System', 'getenv', {0}))",
    "transform(array({0}), x -> reflect('java.lang.System', 'getenv', x))[0]",
    "`java_method`('java.lang.System', 'load', {0})",
    "builtin.`reflect` ('java.lang.System', 'getenv', {0})",
    "IDENTIFIER('java_method')('java.lang.System', 'load', {0})",
    "identifier ('java' || '_method')('x')",
    "ıdentıfıer('java_method')('java.lang.System', 'load', {0})",
]
QUERIES_INSIDE = [
    "(SELECT max(v) FROM s)",
    "(ſelect max(v) FROM s)",
    "coalesce({0}, (SELECT 'x'))",
    "EXISTS (SELECT 1)",
    "{0} IN (FROM s)",
    "{0} IN (VALUES ('a'))",
    "{0} IN (TABLE s)",
    "{0} IN (WITH q AS (FROM s) FROM q)",
    "(MAP a USING 'sh' FROM s)",
    "(REDUCE a USING 'sh' FROM s)",
    "{0}) FROM (s",
    "{0} FROM s",
    "from_protobuf({0}, 'm', 'x.desc')",
]
HIDES = [
    "upper({0}) -- java_method('x')",
    "upper({0} /* a comment */)",
    "upper(/*+ BROADCAST(s) */ {0})",
    "upper({0} /* one",
    "concat({0}, '${env:HOME}')",
    "concat({0}, ${env:HOME})",
    "upper({0}); DROP TABLE s",
    "upper({0}",
    "upper({0}))",
    "upper({0}]",
    "upper('{0}')",
    'upper("{0}")',
    "upper(`{0}`)",
    "{0}r'\\' || java_method(1) || r'\\'",
    "r{0}",
    "x{0}",
    "{0}{0}",
    "{0}'x'",
    "{0}(1)",
    "{0!r}",
    "{0!s}",
    "{0:>9}",
    "{0.__class__}",
    "{0[0]}",
    "{}",
    "{v}",
    "{1}",
    "{-1}",
    "{0",
    "'not closed",
    "`not closed",
    "upper(\\{0})",
    "\0",
]
VARIES = ["rand()", "uuid()", "now()", "current_user", "current_timestamp()", "input_file_name()"]


def _ids(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode().replace("\0", "zero")


@pytest.mark.parametrize("template", [*CALLS_CODE, *QUERIES_INSIDE, *HIDES, *VARIES], ids=_ids)
def test_a_stored_text_that_may_not_reach_spark_is_refused_when_it_is_opened(
    little: Path, tmp_path: Path, template: str
) -> None:
    path = Path(shutil.copytree(little, tmp_path / "db"))
    stored(path, "w", term=calling(f"spark:{template}"))
    with Watch(path):
        with pytest.raises(HeadwaterError) as caught:
            hw.open(path)
        assert isinstance(caught.value, NotIncremental), caught.value
        assert caught.value.reason == "UNSAFE_TEXT"
        for command in ("status", "show", "explain", "changes"):
            assert silently([command, str(path), *(["g"] if command != "status" else [])]) == 1
    with pytest.raises(NotIncremental, match="UNSAFE_TEXT"):
        check_template(template, 1)


@pytest.mark.parametrize("name", ["java_method", "Reflect", "try_reflect", "read_files"])
def test_a_stored_call_of_a_function_that_runs_code_is_refused(
    little: Path, tmp_path: Path, name: str
) -> None:
    """Also where the view says that it is a function of its own."""
    path = Path(shutil.copytree(little, tmp_path / "db"))
    stored(path, "w", term=calling(name), functions=lambda _: {name: "0" * 16})
    with Watch(path), pytest.raises(NotIncremental, match="runs code"):
        hw.open(path)


def test_a_stored_call_of_a_function_that_nobody_defined_is_refused_when_it_is_needed(
    little: Path, tmp_path: Path
) -> None:
    path = Path(shutil.copytree(little, tmp_path / "db"))
    stored(path, "w", term=calling("mine"), functions=lambda _: {"mine": "0" * 16})
    with Watch(path), pytest.raises(HeadwaterError):
        hw.open(path).apply({"s": [(3, "c")]})


TEXTS = [
    "SELECT k, java_method('java.lang.System', 'load', v) AS u FROM s",
    "SELECT k, java_method /* now */ ('java.lang.System', 'load', v) AS u FROM s",
    "SELECT k, `java_method`('java.lang.System', 'load', v) AS u FROM s",
    "SELECT k, IDENTIFIER('java_method')('java.lang.System', 'load', v) AS u FROM s",
    "SELECT k, v AS u FROM IDENTIFIER('s')",
    "SELECT k, v AS u FROM parquet.`x`",
    "SELECT k, v AS u FROM text.`x.txt`",
    "SELECT k, v AS u FROM other",
    "SELECT k, v AS u FROM read_files('x')",
    "SELECT TRANSFORM (k, v) USING 'sh' AS (k, u) FROM s",
    "FROM s MAP k, v USING 'sh' AS (k, u)",
    "FROM s REDUCE k, v USING 'sh' AS (k, u)",
    "SELECT k, '${env:HOME}' AS u FROM s",
    "SELECT k, v AS u FROM s; DROP TABLE s",
    "DROP TABLE s",
    "ADD JAR 'x.jar'",
    "INSERT OVERWRITE DIRECTORY 'x' SELECT k, v AS u FROM s",
    "CREATE TEMPORARY FUNCTION f AS 'x.Y' USING JAR 'x.jar'",
    "SET spark.x = 1",
    "EXECUTE IMMEDIATE 'DROP TABLE s'",
    "",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_stored_query_that_may_not_reach_spark_is_refused_when_it_is_verified(
    little: Path, tmp_path: Path, text: str
) -> None:
    path = Path(shutil.copytree(little, tmp_path / "db"))
    stored(path, "w", text=lambda _: text)
    with Watch(path):
        db = hw.open(path)
        assert weighted(db.table("w")) == {(1, "a"): 1, (2, "b"): 1}, "what is stored is as it was"
        for _ in range(2):
            with pytest.raises(HeadwaterError):
                db.verify("w")


GOOD = [
    "size(split({0}, ','))",
    "transform({0}, x -> x + 1)",
    "aggregate({0}, 0, (acc, x) -> acc + x)",
    "reduce({0}, 0, (acc, x) -> acc + x)",
    "extract(year FROM {0})",
    "EXTRACT(DAYS FROM {0} - {1})",
    "trim(both 'x' FROM {0})",
    "overlay({0} PLACING '_' FROM 1 FOR 1)",
    "substring({0} FROM 2 FOR 3)",
    "map('a', {0})['a']",
    "map({0}, 1)[{0}]",
    "date_format({0}, 'yyyy-MM-dd''T''HH')",
    "regexp_replace({0}, '(\\\\w+) (\\\\w+)', '$2 $1')",
    "regexp_extract({0}, r'\\d+', 0)",
    'regexp_extract({0}, R"it\'s", 0)',
    "concat({0}, 'it\\'s')",
    "concat({0}, 'a ''quoted'' word -- no comment /* none */')",
    'concat({0}, "java_method(", "`")',
    "get_json_object({0}, '$.a[0].b')",
    "{0}:a.b[0]",
    "{0}::string",
    "from_json({0}, 'a INT, b ARRAY<STRING>').b[0]",
    "filter({0}, x -> x IS NOT NULL AND x <> 'select')",
    "named_struct('values', {0}, 'table', {1}).values",
    "CASE WHEN {0} > 1.5e3 THEN 0x1F ELSE -{0} END",
    "{0} - -{1}",
    "{0} BETWEEN {1} AND {1} + INTERVAL '1' DAY",
    "make_interval(years => {0})",
    "{0} RLIKE '^[A-Z]' OR {0} ILIKE ANY ('a%', 'b!%')",
    "to_char({0}, '999D99')",
    "translate({0}, 'aeiou', '43!0')",
    "zip_with(array({0}), array({1}), (x, y) -> (x, y)).x",
    "größe({0})",
    "({0}).`a b`",
    "array({0}, {1})[0]",
    "concat('{{', {0}, '}}')",
    "unix_timestamp({0})",
    "coalesce({0}, array())",
]


@pytest.mark.parametrize("template", GOOD)
def test_texts_that_may_reach_spark(template: str) -> None:
    if template.startswith("named_struct"):  # names of fields are texts; a field `values` is none
        template = template.removesuffix(".values")
    check_template(template, 2)
    check_query(f"SELECT {template.format('a', 'b')} AS x FROM s")


class Noting:
    """Spark's part in reading a query: it says one type of everything, and keeps what it was asked."""

    zone = "UTC"

    def __init__(self, type: KeyType):
        self.type = type
        self.asked: dict[str, int] = {}

    def __call__(self, template: str, types: tuple[KeyType, ...]) -> Told:
        self.asked[template] = len(types)
        return Told(str(self.type), self.type)


def test_the_queries_of_the_corpora_may_reach_spark_with_all_their_expressions() -> None:
    schemas = {n: bag(columns(ddl)) for n, ddl in SCHEMA.items()}
    asked: dict[str, int] = {}
    for query in corpus.read():
        check_query(query.text)
        for type in (STRING, BIGINT):
            ask = Noting(type)
            with contextlib.suppress(HeadwaterError):  # it may be of another type
                read_sql(query.text, schemas, ask)
                break
        asked |= {} if query.refused else ask.asked
    for template, holes in asked.items():
        check_template(template, holes)
    assert len(asked) > 80
    for other_query in read_corpus():
        check_query(other_query.spark)


BAD_QUERIES = [
    *TEXTS[:5],
    *TEXTS[9:13],
    "SELECT ıdentıfıer('a') FROM s",
    "SELECT 'a",
    "SELECT a \\ b",
]


@pytest.mark.parametrize("text", BAD_QUERIES, ids=_ids)
def test_queries_that_hide_something_are_refused(text: str) -> None:
    with pytest.raises(NotIncremental, match="UNSAFE_TEXT"):
        check_query(text)
