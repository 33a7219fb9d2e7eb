"""Text that goes to Spark as it is: which text may.

The template of an expression that only Spark knows (`spark:size(split({0}, ','))`) is stored in the log, and so is the
SQL of a view, which `verify` has Spark compute. A log may come from somebody else, so both are looked at before they
reach Spark, word by word and as Spark itself reads words: nothing that calls into Java, runs a program, opens a file,
reads a table that is not a view's input, or has a meaning that Spark puts in the place of `${...}`.
"""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Iterator
from functools import lru_cache

from headwater.errors import NotIncremental
from headwater.language.sql.functions import RUNS_CODE, refused_function

_WORDS = re.compile(
    r"""(?P<text>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<quoted>`(?:[^`]|``)*`)
    |(?P<comment>--(?:\\\n|[^\r\n])*|/\*)
    |(?P<word>[^\W\d]\w*)
    |(?P<number>\d\w*)
    |(?P<space>\s+)
    |(?P<sign>[-+*/%=<>!|&^~()\[\]{},.:?@#])""",
    re.VERBOSE | re.DOTALL,
)
"""Words as Spark's lexer has them; what is none of these does not belong into an expression."""
_HOLE = "`_0`"
_IN_QUERIES = {"select", "values", "table", "using", "tablesample", "lateral"}
"""Words that only queries have: in an expression they begin a subquery, or name a table or a program."""
_BEGINS_QUERY = {"from", "with", "map", "reduce"}
"""Words that begin a query where they stand first in brackets, and no function's name."""


_GLUED = re.compile(r"[\w'\"`$]")
"""What next to a hole would become one word with what is put into it."""
_CLOSED_BY = {"(": ")", "[": "]", "{": "}"}


def check_template(template: str, holes: int = 1000) -> None:
    """Raises unless a template is an expression that may be defined: no subquery, no comment, no function that runs code.

    A hole is `{0}` and nothing else, with a number below `holes`, and a word of its own: whatever is put there, the
    words around it stay what they are. Brackets are closed, so that it stays inside of those that are put around it.
    """
    words = list(_words(_with_holes(template, holes)))
    if [w for _, w in words].count(_HOLE) != _with_holes(template, holes).count(_HOLE):
        raise _refused(template, "a hole is in a text or a name")
    _check_words(template, words)


def _check_words(
    template: str,
    words: list[tuple[str, str]],
    called: Collection[str] = (),
    ours: bool = False,
) -> None:
    open_ = []
    for i, (kind, word) in enumerate(words):
        before = words[i - 1][1] if i else ""
        after = words[i + 1][1] if i + 1 < len(words) else ""
        if kind == "comment":
            raise _refused(template, "it has a comment")
        if kind == "sign" and word in _CLOSED_BY:
            open_.append(_CLOSED_BY[word])
        elif kind == "sign" and word in ")]}" and (not open_ or open_.pop() != word):
            raise _refused(template, "its brackets are not closed as they are opened")
        if kind == "word":
            low = folded(word)
            begins = low in _BEGINS_QUERY and before == "(" and after != "("
            begins = begins or (low == "from" and not open_)
            if low in _IN_QUERIES or begins:
                raise _refused(template, f"`{word}` belongs to a query")
            then = words[i + 2] if i + 2 < len(words) else ("", "")
            raises = ours and low == "raise_error" and (after, then[0]) == ("(", "text")
            if (
                not raises
            ):  # with a text that is given, as ours are for rows that there should be none of
                _check_word(template, low, after, then[1])
        if kind == "quoted" and after == "(" and word not in called:
            raise _refused(template, f"{word} is called, and a function's name has no quotes")
        if kind == "quoted" and after == "(":
            check_called(word.strip("`"))
    if open_:
        raise _refused(template, "its brackets are not closed as they are opened")


@lru_cache(maxsize=65_536)
def check_expression(text: str, functions: frozenset[str] = frozenset()) -> None:
    """Raises unless a text that goes to Spark in a stored program is an expression as ours are: without holes.

    `functions` are those of Python that views call, which must be registered; their names stand in quotes.
    """
    _check_words(text, list(_words(text)), {f"`{name}`" for name in functions}, ours=True)


def _with_holes(template: str, holes: int) -> str:
    """A template with the same name in all holes."""
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as e:
        raise _refused(template, "its holes are not those of a template") from e
    out = ""
    for literal, name, how, conversion in parts:
        if out.endswith(_HOLE) and _GLUED.match(literal):
            raise _refused(template, "a hole is a part of a word")
        out += literal
        if name is None:
            continue
        whole = re.fullmatch(r"[0-9]{1,3}", name) and not how and conversion is None
        if not whole or int(name) >= holes or out.endswith(_HOLE) or _GLUED.match(out[-1:]):
            raise _refused(template, "its holes are not those of a template")
        out += _HOLE
    return out


def check_called(name: str) -> None:
    """Raises where a function that is called by its name runs code."""
    if folded(name) in RUNS_CODE:
        raise _refused(name, f"`{name}` runs code")


def folded(word: str) -> str:
    """A word as Spark compares it with its own: it reads letters as their capitals, `ı` as I and `ſ` as S too."""
    return "".join(c.upper() if len(c.upper()) == 1 else c for c in word).lower()


def check_query(text: str) -> None:
    """Raises unless a query's text has only words that mean to Spark what they mean here.

    Which tables and functions it reads is checked by reading it; this is about what could be hidden from that.
    """
    words = [w for w in _words(text) if w[0] != "comment"]
    for i, (kind, word) in enumerate(words):
        after = words[i + 1][1] if i + 1 < len(words) else ""
        if kind == "word":
            low = folded(word)
            if low in RUNS_CODE and after == "(":
                raise _refused(text, f"`{word}` runs code")
            if low == "identifier" and after == "(":
                raise _refused(text, "a name is computed in it")
            program = low == "using" and i + 1 < len(words) and words[i + 1][0] == "text"
            if program or (low in ("transform", "map", "reduce") and after != "("):
                raise _refused(text, f"`{word}` runs a program")
        if kind == "quoted" and after == "(":
            raise _refused(text, f"{word} is called, and a function's name has no quotes")


def _check_word(template: str, word: str, after: str, then: str) -> None:
    if word == "identifier" and after == "(":
        raise _refused(template, "a name is computed in it")
    refused = refused_function(word, after == "(", then == ")")
    if refused is not None:
        raise _refused(template, f"`{word}` {refused[1]}")


def _words(text: str) -> Iterator[tuple[str, str]]:
    if "${" in text:
        raise _refused(text, "Spark would put something in the place of `${...}`")
    at = 0
    while at < len(text):
        found = _WORDS.match(text, at)
        if found is None:
            raise _refused(text, f"it cannot be read from `{text[at : at + 20]}` on")
        at = found.end()
        kind = found.lastgroup or ""
        if found.group() == "/*":
            at = _after_comment(text, at)
        if kind != "space":
            yield kind, found.group()


def _after_comment(text: str, at: int) -> int:
    """Where a comment in brackets ends; they may be inside of each other."""
    depth = 1
    while depth:
        found = re.compile(r"/\*|\*/").search(text, at)
        if found is None:
            raise _refused(text, "a comment in it does not end")
        depth += 1 if found.group() == "/*" else -1
        at = found.end()
    return at


def _refused(text: str, why: str) -> NotIncremental:
    shown = " ".join(text.split())
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    return NotIncremental(
        "UNSAFE_TEXT", f"`{shown}` is not given to Spark: {why}", hint="write it otherwise"
    )
