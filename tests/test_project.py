"""The project's own rules, as tests over its files.

Layers import one way, each module opens with its concept, imports stand at the top, files stay
small enough to hold one idea, and no tracked file names a machine. Each rule is a function from
a file's text to what is wrong in it, and is also tried on text that breaks it: a rule that never
fires says nothing.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src"
MODULES = sorted((SRC / "headwater").rglob("*.py"))
MAX_LINES = 600

# What each layer imports; what those import is allowed with them. `headwater.errors` and `headwater.version`
# are open to all; the package itself has the public names.
ARROWS: dict[str, set[str]] = {
    "calculus": set(),
    "interop": {"calculus"},
    "rules": {"calculus"},
    "theory": {"rules"},
    "language": {"rules", "interop"},
    "plan": {"rules", "interop"},
    "state": set(),
    "engine": {"plan", "state"},
    "io": {"engine", "language"},
    "feeds": {"io"},
    "show": {"plan", "theory"},
    "sinks": {"feeds"},
    "script": {"language"},
    "api": {"io", "show", "dataflow", "folds", "feeds", "sinks", "script"},
    "flow": {"dataflow"},
    "st": {"folds"},
    "copies": {"api"},
    "datasource": {"api"},
    "command": {"copies"},
    "dataflow": {"io"},
    "streams": {"calculus"},  # the semantics of streams stands alone; how they run is below
    "folds": {"streams", "dataflow", "language"},
}
OPEN = ("headwater.errors", "headwater.version")
WITHOUT_SPARK = {"calculus", "rules", "state"}

# Hosts that text may name: public references, and those reserved for examples.
HOSTS = {
    *("www.apache.org", "spark.apache.org", "www.w3.org", "doi.org", "arxiv.org"),
    *("localhost", "example.com", "example.org"),
}
ABSOLUTE = re.compile(
    r"(?<![\w.~$)}\]*-])/(?:home|root|Users|tmp|work|opt|usr|var|etc|mnt|srv|private|data)/\w"
    r"|\b[A-Za-z]:\\[A-Za-z]\w+"
    r"|\bfile:///\w"
)
HOST = re.compile(r"\b(?:https?|ftp|ssh|jdbc:\w+|spark)://(?:[^/\s@]*@)?([\w.-]+)")
ADDRESS = re.compile(r"\b(?!127\.)(?:\d{1,3}\.){3}\d{1,3}:\d+")


def name_of(path: Path) -> str:
    """The dotted name of a module in src: `headwater.rules.delta`, and a package's own name."""
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {name_of(path) for path in MODULES}
PACKAGES = {name_of(path) for path in MODULES if path.name == "__init__.py"}


def layer(module: str) -> str | None:
    """The layer that a module belongs to: the longest name in ARROWS that it starts with."""
    parts = module.split(".")[1:]
    prefixes = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
    return next((p for p in prefixes if p in ARROWS), None)


def below(name: str) -> set[str]:
    """A layer and everything that the arrows lead to from it."""
    return {name}.union(*(below(b) for b in ARROWS[name]))


def imports(module: str, text: str) -> Iterator[tuple[int, str]]:
    """Line and full name of everything imported; `from headwater import errors` is that module."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=source, names=names, level=level):
                # A dot is the module's package, and each further dot the package around it.
                here = [*module.split("."), *(["__init__"] if module in PACKAGES else [])]
                base = ".".join([*here[: -level or 0], *([source] if source else [])])
                for alias in names:
                    full = f"{base}.{alias.name}"
                    yield node.lineno, full if full in NAMES else base


def against_arrows(module: str, text: str) -> Iterator[str]:
    """Imports that go against the arrows between layers."""
    own = layer(module)
    if own is None or module.endswith(".__main__"):
        if module == "headwater.errors":
            for line, target in imports(module, text):
                if target.startswith("headwater"):
                    yield f"{line}: `errors` imports {target}; it imports nothing of Headwater"
        return
    allowed = below(own)
    for line, target in imports(module, text):
        if target.split(".")[0] == "pyspark" and own in WITHOUT_SPARK:
            yield f"{line}: `{own}` knows nothing of Spark, and imports {target}"
        if target.split(".")[0] != "headwater" or target in OPEN:
            continue
        if layer(target) not in allowed:
            yield f"{line}: `{own}` imports {target}; it may import {', '.join(sorted(allowed))}"


def without_docstring(module: str, text: str) -> Iterator[str]:
    """A module that does not open with a sentence about its concept."""
    if len(ast.get_docstring(ast.parse(text)) or "") < 20:
        yield "1: no docstring that says what the module is"


def hidden_imports(module: str, text: str) -> Iterator[str]:
    """Imports inside a function with no comment on the same line that says why."""
    why = {
        token.start[0]
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
        and not re.match(r"#\s*(noqa|type:|pragma|pyright)", token.string)
    }
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import | ast.ImportFrom) and not why.intersection(
                    range(node.lineno, (node.end_lineno or node.lineno) + 1)
                ):
                    yield f"{node.lineno}: an import inside `{function.name}` without its reason"


SPELLING = {"startswith", "endswith", "removeprefix", "removesuffix", "rsplit"}
SPELT = {
    "SPARK_TEXT",  # a call with text for Spark is named by it, which is its notation
    'f".{mark}"',  # an array's relation is called after it in terms that are on disk
    '(" AS double))", " AS float))")',  # text of Spark, which is no name
    '"array"',
}


def read_from_names(module: str, text: str) -> Iterator[str]:
    """A fact that is read from how a name is spelt: what is known of a relation, map or call is a field of it."""
    if not module.startswith(("headwater.plan", "headwater.rules")):
        return
    for found in ast.walk(ast.parse(text)):
        match found:
            case ast.Call(func=ast.Attribute(attr=attr), args=args) if attr in SPELLING:
                said = ", ".join(ast.unparse(a) for a in args).replace("'", '"')
                if said not in SPELT:
                    yield f"{found.lineno}: {attr}({said}) reads a fact from a name"
            case ast.Call(
                func=ast.Name(id="int"), args=[ast.Subscript(slice=ast.Slice(), value=value)]
            ):
                yield f"{found.lineno}: a number is read back from the name `{ast.unparse(value)}`"


def too_long(module: str, text: str) -> Iterator[str]:
    """A file that has grown past one idea."""
    lines = len(text.splitlines())
    if lines > MAX_LINES:
        yield f"{lines} lines; past {MAX_LINES} a file holds two ideas"


def machine_names(_: str, text: str) -> Iterator[str]:
    """Absolute paths and hosts, which hold on one machine only."""
    for number, line in enumerate(text.splitlines(), 1):
        if number == 1 and line.startswith("#!"):
            continue
        if found := ABSOLUTE.search(line) or ADDRESS.search(line):
            yield f"{number}: {found.group()} holds on one machine only"
        yield from (f"{number}: host {h}" for h in HOST.findall(line) if h not in HOSTS)


Rule = Callable[[str, str], Iterator[str]]
RULES: tuple[Rule, ...] = (
    against_arrows,
    without_docstring,
    hidden_imports,
    read_from_names,
    too_long,
)


def tracked() -> list[Path]:
    """The files that git knows; none outside of a checkout."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
        )
    except (OSError, subprocess.CalledProcessError):
        return []
    return [path for name in listed.stdout.split("\0") if (path := ROOT / name).is_file()]


def text_of(path: Path) -> str:
    """The text of a file; a binary file has none."""
    data = path.read_bytes()
    return "" if b"\0" in data else data.decode("utf-8")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_modules_keep_the_rule(rule: Rule) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{finding}"
        for path in MODULES
        for finding in rule(name_of(path), path.read_text("utf-8"))
    ]
    assert not wrong, f"{rule.__doc__}\n" + "\n".join(wrong)


def test_every_package_is_a_layer() -> None:
    """A new package gets its arrows."""
    packages = {name.split(".")[1] for name in NAMES if name.count(".") >= 2}
    assert packages <= ARROWS.keys()


def test_the_folders_of_the_tests_are_the_layers() -> None:
    """A reader finds the test of a module where the module is; helpers, data and found failures have a folder each."""
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    folders = {path.parent.name for path in tests if path.parent != ROOT / "tests"}
    assert folders <= {*ARROWS, "nested", "found", "oracles"}
    names = [path.name for path in tests]
    assert sorted(set(names)) == sorted(names), "tests have no packages, so a name is there once"


def test_no_file_names_a_machine() -> None:
    files = tracked()
    if not files:
        pytest.skip("not a git checkout")
    wrong = [
        f"{path.relative_to(ROOT)}:{finding}"
        for path in files
        for finding in machine_names("", text_of(path))
    ]
    assert not wrong, "\n".join(wrong)


def test_the_types_are_published() -> None:
    assert (SRC / "headwater" / "py.typed").is_file()


DOC = '"""A module that is here to be checked."""\n'
BROKEN = [
    (against_arrows, "headwater.calculus.terms", "from headwater.rules import delta"),
    (against_arrows, "headwater.calculus.terms", "import headwater"),
    (against_arrows, "headwater.calculus.terms", "from headwater import database"),
    (against_arrows, "headwater.calculus.terms", "from ..rules.delta import delta"),
    (against_arrows, "headwater.calculus", "from ..rules import delta"),
    (against_arrows, "headwater.rules.delta", "from headwater.language.sql import read"),
    (against_arrows, "headwater.rules.delta", "def f():\n    import headwater.language.sql"),
    (against_arrows, "headwater.plan.compiler", "from headwater.language.sql import read"),
    (against_arrows, "headwater.state.run", "from headwater.calculus.types import INT"),
    (against_arrows, "headwater.state.run", "import pyspark.sql"),
    (against_arrows, "headwater.engine.load", "from headwater.dataflow.flow import Flow"),
    (against_arrows, "headwater.streams.schema", "from headwater.dataflow.flow import Flow"),
    (against_arrows, "headwater.errors", "from headwater.calculus.types import Type"),
    (without_docstring, "headwater.x", "import re"),
    (without_docstring, "headwater.x", '"""x"""'),
    (hidden_imports, "headwater.x", "def f():\n    import re"),
    (hidden_imports, "headwater.x", "def f():\n    import re  # noqa: F401"),
    (read_from_names, "headwater.plan.x", "a = name.startswith('subquery:')"),
    (read_from_names, "headwater.rules.x", "a = int(column[1:])"),
    (too_long, "headwater.x", "\n" * (MAX_LINES + 1)),
    (machine_names, "", "open('" + "/home" + "/me/x.csv')"),
    (machine_names, "", "see https:" + "//registry.internal/simple"),
    (machine_names, "", "port of 10.0.0.1" + ":8080"),
]
KEPT = [
    (against_arrows, "headwater.calculus.terms", "from headwater.errors import IllTyped"),
    (against_arrows, "headwater.calculus.terms", "from headwater import errors"),
    (against_arrows, "headwater.calculus.terms", "from headwater.calculus.types import Type"),
    (against_arrows, "headwater.calculus", "from .types import Type"),
    (against_arrows, "headwater.calculus.__main__", "from headwater.rules.delta import delta"),
    (against_arrows, "headwater.language.sql", "from headwater.calculus.types import Type"),
    (against_arrows, "headwater.language.sql", "import sqlglot"),
    (against_arrows, "headwater.engine.load", "from headwater.rules.delta import delta"),
    (against_arrows, "headwater.folds.lower", "from headwater.dataflow.flow import Flow"),
    (against_arrows, "headwater.api.database", "from headwater.io.sources import Source"),
    (without_docstring, "headwater.x", DOC),
    (hidden_imports, "headwater.x", "def f():\n    import re  # only the slow path needs it"),
    (read_from_names, "headwater.plan.x", "a = call.function.startswith(SPARK_TEXT)"),
    (read_from_names, "headwater.language.x", "a = text.startswith('select')"),
    (too_long, "headwater.x", "\n" * MAX_LINES),
    (machine_names, "", "#!/usr" + "/bin/env bash\ncat data/x.csv > /dev/null; py4j==0.10.9.9"),
]


@pytest.mark.parametrize(("rule", "module", "text"), BROKEN)
def test_a_rule_sees_what_breaks_it(rule: Rule, module: str, text: str) -> None:
    assert list(rule(module, text))


@pytest.mark.parametrize(("rule", "module", "text"), KEPT)
def test_a_rule_lets_the_rest_be(rule: Rule, module: str, text: str) -> None:
    assert not list(rule(module, text))
