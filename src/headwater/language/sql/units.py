"""Functions whose arguments are not those of sqlglot's node: units and formats of time, paths, places, optional arguments.

sqlglot reads the name of a unit and the format of a date into its own words, so both are taken from the text. What is
not read here, such as a unit that is not constant, is left to Spark as it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from headwater.calculus import formats, jsonpath
from headwater.calculus.check import type_of
from headwater.calculus.terms import Call, Const, Term
from headwater.calculus.texts import literal_pattern, plain_pattern
from headwater.calculus.types import (
    BIGINT,
    BINARY,
    DATE,
    INTEGER,
    INTEGRAL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    Base,
    ListType,
)
from headwater.language.sql.coerce import cast_to
from headwater.language.sql.placing import place_of

if TYPE_CHECKING:
    from headwater.language.sql.expressions import Expressions

_MOMENTS = (DATE, TIMESTAMP, TIMESTAMP_NTZ)


def _inside(x: Expressions, e: exp.Expr) -> list[Any]:
    """The words of a call."""
    place = place_of(e)
    return [t for t in x.reader.tokens if place and place[0] <= t.start < place[1]]


def constants(x: Expressions, e: exp.Expr) -> dict[int, str]:
    """The arguments of a call that are text as it was written, by their place; empty where the text does not say."""
    words = _inside(x, e)
    found: dict[int, str] = {}
    depth, number = 0, 0
    for i, token in enumerate(words):
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        number += token.text == "," and depth == 1 and token.token_type.name == "COMMA"
        alone = words[i - 1].text in ("(", ",") and words[i + 1 : i + 2]
        if token.token_type.name == "STRING" and depth == 1 and i and alone:
            if words[i + 1].text in (")", ","):
                found[number] = token.text
    return found


def _text(x: Expressions, e: exp.Expr, term: Term) -> Term:
    """A term as text, where Spark makes text of it by itself."""
    t = type_of(term)
    if t == BINARY or not isinstance(t, Base):
        x.unsupported(e)
    return cast_to(term, STRING)


def _moment(x: Expressions, e: exp.Expr, term: Term, target: Base) -> Term:
    """A date or a time as another one; text is Spark's to read where it stands for a time."""
    if type_of(term) not in (*_MOMENTS, VOID):
        x.unsupported(e)
    return cast_to(term, target)


def _date_trunc(x: Expressions, e: exp.TimestampTrunc) -> Term:
    unit = constants(x, e).get(0)
    if unit is None:
        return x.unsupported(e)
    return Call("date_trunc", (Const(unit, STRING), _moment(x, e, x.key(e.this), TIMESTAMP)))


def _to_date(x: Expressions, e: exp.TsOrDsToDate) -> Term:
    if e.args.get("format") is not None:
        return cast_to(_read_in(x, e), DATE)
    inner = x.key(e.this)
    return inner if type_of(inner) in (DATE, VOID) else x.castable(inner, DATE, e)


def _concat_ws(x: Expressions, e: exp.ConcatWs) -> Term:
    return Call("concat_ws", tuple(_text(x, e, x.key(a)) for a in e.expressions))


_PARTS = {
    **{u: u for u in ("year", "quarter", "month", "day", "hour", "minute", "dayofweek")},
    **{"second": "second_part", "week": "weekofyear", "doy": "dayofyear", "dow": "dayofweek"},
    **{"yearofweek": "yearofweek", "dayofyear": "dayofyear"},
}


def _part(x: Expressions, e: exp.Expr, unit: str, of: exp.Expr) -> Term:
    term = x.key(of)
    if unit.lower() not in _PARTS or type_of(term) not in _MOMENTS:
        return x.unsupported(e)
    return Call(_PARTS[unit.lower()], (term,))


def _extract(x: Expressions, e: exp.Extract) -> Term:
    return _part(x, e, e.name, e.expression)


def _date_part(x: Expressions, e: exp.Anonymous) -> Term:
    match e.expressions:
        case [exp.Literal(is_string=True) as unit, of]:
            return _part(x, e, unit.this, of)
    return x.unsupported(e)


def _unix_timestamp(x: Expressions, e: exp.StrToUnix) -> Term:
    """unix_timestamp(t) of a time; a text is read in a format."""
    if constants(x, e):
        return Call("unix_timestamp", (_read_in(x, e),))
    return Call("unix_timestamp", (_moment(x, e, x.key(e.this), TIMESTAMP),))


# --- formats ------------------------------------------------------------------------------------------------


def _format(x: Expressions, e: exp.Expr, known: Callable[[str], Any]) -> Const:
    """The constant format of a call, which is its second argument, as it is written."""
    found = constants(x, e).get(1)
    if found is None or not known(found):
        x.unsupported(e)
    return Const(found, STRING)


def _read_in(x: Expressions, e: exp.Expr) -> Term:
    """to_timestamp(text, format)."""
    text = x.key(e.this)
    if type_of(text) != STRING:
        return x.unsupported(e)
    return Call("to_timestamp", (text, _format(x, e, formats.reader)))


def _date_format(x: Expressions, e: exp.TimeToStr) -> Term:
    inner = e.this.this if isinstance(e.this, exp.TimeStrToTime) else e.this
    pattern = _format(x, e, formats.writable)
    return Call("date_format", (_moment(x, e, x.key(inner), TIMESTAMP), pattern))


_DEFAULT = "%Y-%mstrict-%dstrict %Hstrict:%Mstrict:%Sstrict"
"""What sqlglot puts in the place of a format that is not there."""


def _from_unixtime(x: Expressions, e: exp.UnixToStr) -> Term:
    term = x.key(e.this)
    t = type_of(term)
    if not isinstance(t, Base) or t.name not in INTEGRAL:
        return x.unsupported(e)
    default = e.args["format"].this == _DEFAULT and not constants(x, e)
    pattern = Const("yyyy-MM-dd HH:mm:ss", STRING) if default else _format(x, e, formats.writable)
    return Call("from_unixtime", (cast_to(term, BIGINT), pattern))


def _is_null(name: str) -> Callable[[Expressions, Any], Term]:
    def read(x: Expressions, e: exp.Anonymous) -> Term:
        return (
            Call(name, (x.key(e.expressions[0]),)) if len(e.expressions) == 1 else x.unsupported(e)
        )

    return read


def _pad(x: Expressions, e: exp.Pad) -> Term:
    fill = e.args.get("fill_pattern")
    text, size = _text(x, e, x.key(e.this)), x.key(e.expression)
    if isinstance(type_of(text), Base) and type_of(x.key(e.this)) == BINARY:
        return x.unsupported(e)
    with_what = Const(" ", STRING) if fill is None else x.key(fill)
    return Call("lpad" if e.args.get("is_left") else "rpad", (text, size, with_what))


def _position(x: Expressions, e: exp.StrPosition) -> Term:
    """instr, and locate from a place on."""
    word, start = x.key(e.args["substr"]), e.args.get("position")
    if start is None:
        return Call("instr", (x.key(e.this), word))
    return Call("locate", (word, x.key(e.this), x.key(start)))


def _pattern(name: str, *args: str) -> Callable[[Expressions, Any], Term]:
    """A function of a regular expression, if that means here what it means in Java."""

    def read(x: Expressions, e: exp.Expr) -> Term:
        others = {k for k, v in e.args.items() if isinstance(v, exp.Expr)} - {"this", "expression"}
        pattern = x.key(e.args["expression"])
        word = pattern.value if isinstance(pattern, Const) else None
        if others - set(args) or not isinstance(word, str) or plain_pattern(word) is None:
            return x.unsupported(e)
        one = Const(1, INTEGER)
        rest = (x.key(e.args[a]) if e.args.get(a) is not None else one for a in args)
        return Call(name, (x.key(e.this), pattern, *rest))

    return read


def _split(x: Expressions, e: exp.RegexpSplit) -> Term:
    pattern, limit = x.key(e.expression), e.args.get("limit")
    word = pattern.value if isinstance(pattern, Const) else None
    if not isinstance(word, str) or not _splits(word):
        return x.unsupported(e)
    most = Const(-1, INTEGER) if limit is None else x.key(limit)
    return Call("split", (_text(x, e, x.key(e.this)), pattern, most))


def _splits(pattern: str) -> bool:
    """Whether text is split here at a pattern: at a word, or at what is never empty."""
    if literal_pattern(pattern) is not None:
        return True
    found = plain_pattern(pattern)
    return found is not None and found.search("") is None


def _bracket(x: Expressions, e: exp.Bracket) -> Term:
    """An element of an array that keeps its order; of others there is no first one."""
    names = {(None, None): "item", (1, False): "element_at", (1, True): "try_element_at"}
    called = names.get((e.args.get("offset"), e.args.get("safe")))
    if called is None or len(e.expressions) != 1:
        return x.unsupported(e)
    array, place = x.key(e.this), x.key(e.expressions[0])
    t = type_of(array)
    known = isinstance(t, ListType) and isinstance(t.element, Base) and isinstance(place, Const)
    return Call(called, (array, place)) if known else x.unsupported(e)


def _log(x: Expressions, e: exp.Log) -> Term:
    """log(base, x); sqlglot has log2 and log10 as the same, and Spark has not."""
    name = x.reader.word(e).lower()
    if name in ("log2", "log10"):
        return Call(name, (x.key(e.expression),))
    return Call("log", (x.key(e.this), x.key(e.expression)))


def _json(x: Expressions, e: exp.JSONExtractScalar) -> Term:
    path = constants(x, e).get(1)
    if x.reader.word(e).lower() != "get_json_object" or not path or jsonpath.steps(path) is None:
        return x.unsupported(e)
    return Call("get_json_object", (x.key(e.this), Const(path, STRING)))


def _sha2(x: Expressions, e: exp.SHA2) -> Term:
    bits = e.args.get("length")
    if not isinstance(bits, exp.Literal) or bits.this != "256":
        return x.unsupported(e)
    return Call("sha256", (x.key(e.this),))


CALLS: dict[type[exp.Expr], Callable[[Expressions, Any], Term]] = {
    exp.TimestampTrunc: _date_trunc,
    exp.TsOrDsToDate: _to_date,
    exp.ConcatWs: _concat_ws,
    exp.Extract: _extract,
    exp.StrToUnix: _unix_timestamp,
    exp.Pad: _pad,
    exp.StrPosition: _position,
    exp.RegexpLike: _pattern("rlike"),
    exp.RegexpExtract: _pattern("regexp_extract", "group"),
    exp.RegexpReplace: _pattern("regexp_replace", "replacement"),
    exp.SHA2: _sha2,
    exp.RegexpSplit: _split,
    exp.Bracket: _bracket,
    exp.Log: _log,
    exp.JSONExtractScalar: _json,
    exp.TimeToStr: _date_format,
    exp.UnixToStr: _from_unixtime,
    exp.StrToTime: _read_in,
    exp.Initcap: lambda x, e: Call("initcap", (x.key(e.this),)),
}
"""How nodes are read whose arguments need more than a name."""

NAMED: dict[str, Callable[[Expressions, Any], Term]] = {
    "date_part": _date_part,
    "datepart": _date_part,
    "isnull": _is_null("is_null"),
    "isnotnull": _is_null("is_not_null"),
}
"""The same for functions that sqlglot has no node for."""

INTERNAL = frozenset(
    (
        *("second_part", "yearofweek", "sha256", "one_row", "is_null", "is_not_null", "negate"),
        *("cast", "item", "as_timestamp", "trim_both", "trim_leading", "trim_trailing"),
        *("window_start", "window_starts", "add_micros"),
    )
)
"""Scalars of the calculus that are no functions of Spark by these names."""
