"""Scalars as the compiler writes them: the SQL text on Spark, and the tree on Arrow, mean the expression.

One table has NULLs and edge values of every type. Each expression is read from SQL; what Spark gives for
it is compared with what it gives for the text that was written, value by value and in type, and with
what `vector.evaluate` gives for the tree. Terms that SQL has no words for are compared with the
interpreter. All expressions go to Spark in a few SELECTs.
"""

from __future__ import annotations

import json
import math
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headwater.calculus.interpret import interpret
from headwater.calculus.ring import bag as bag_of
from headwater.calculus.scalars import SCALARS
from headwater.calculus.terms import (
    Add,
    Answer,
    Box,
    Call,
    Const,
    Field,
    Neg,
    Not,
    Num,
    Pred,
    Record,
    Rel,
    Sum,
    Term,
    Times,
    Unbox,
    Var,
    Zero,
    substitute,
)
from headwater.calculus.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTEGER,
    INTEGRAL,
    REAL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Exact,
    ListType,
    ProductType,
    RecordType,
    bag,
    decimal,
    record,
)
from headwater.engine.here.arrow import NODES, ZONED, ArrowCannot, evaluate, is_column
from headwater.errors import NotIncremental, ScalarError, TypeMismatch
from headwater.interop.arrow_types import arrow_type
from headwater.interop.spark_text import spark_type
from headwater.language.functions import DEFINED
from headwater.language.sql import read_sql
from headwater.language.sql.expressions import LONG
from headwater.plan.scalar import (
    CARDINALITY,
    SQL,
    TREES,
    Scalar,
    from_json,
    literal,
    scalar,
    to_json,
)
from spark_session import session
from test_scalars_exact import trees as exact_trees
from test_scalars_spark import expressions as constant_expressions

pytestmark = pytest.mark.spark

inf, nan = math.inf, math.nan
DOUBLES = (0.0, -0.0, 1.5, -2.25, 1e308, -1e308, 5e-324, inf, -inf, nan, 0.1, 3.0)
TEXTS = (
    "",
    "a",
    "ab",
    "abc",
    "b",
    "Abc",
    "zé",
    "a%c",
    "a_c",
    " a ",
    "\t a\u3000",
    "$x",
    "'\\",
    "日本",
    "\U0001f600a",
)
EDGES = (0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1, 9007199254740995, -123456789012345678)
DAYS = tuple(map(date.fromisoformat, ("2024-02-29", "1969-12-31", "2021-01-03", "1582-10-15")))
TIMES = ("2024-02-29 23:59:59.999999", "1969-12-31 23:59:59.999999", "1970-01-01 00:00:00")

# The values of each column; NULL is added to all.
COLUMNS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "y": (TINYINT, (0, 1, -5, 7)),
    "h": (SMALLINT, (0, 3, -300, 7)),
    "i": (INTEGER, (0, 1, -7, 40000, 7)),
    "l": (BIGINT, (0, 1, -3, 3000000000, 40000)),
    "j": (INTEGER, (1, 2, -3, 7)),
    "big": (BIGINT, EDGES),
    "d": (DOUBLE, DOUBLES),
    "e": (DOUBLE, DOUBLES),
    "g": (DOUBLE, (1.5, -3.0, 1e-300, inf, nan)),
    "f": (FLOAT, (0.0, 0.10000000149011612, -2.5, nan, inf, 16777216.0)),
    "p": (decimal(10, 2), tuple(map(Decimal, ("0.00", "1.50", "-99999999.99", "12.35", "0.01")))),
    "q": (decimal(12, 4), tuple(map(Decimal, ("0.0000", "1.5000", "-3.3333", "99999999.9999")))),
    "w": (
        decimal(38, 2),
        tuple(map(Decimal, ("0.00", "1.50", "-123456789012345678901234567890.12"))),
    ),
    "z": (
        decimal(38, 10),
        tuple(
            map(
                Decimal,
                ("0.0000000001", "-2.5050000000", "1.1250000000", "-0.0000000005", "7.1234567895"),
            )
        ),
    ),
    "c": (decimal(5, 0), tuple(map(Decimal, ("1", "-3", "7", "99999")))),
    "s": (STRING, TEXTS),
    "u": (STRING, TEXTS),
    "x": (BINARY, (b"", b"\x00", b"\xff", b"a")),
    "k": (BOOLEAN, (True, False)),
    "m": (BOOLEAN, (True, False)),
    "dt": (DATE, DAYS),
    "dv": (DATE, DAYS),
    "ts": (TIMESTAMP, tuple(map(datetime.fromisoformat, TIMES))),
    "tu": (TIMESTAMP, tuple(map(datetime.fromisoformat, TIMES))),
    "tn": (TIMESTAMP_NTZ, tuple(map(datetime.fromisoformat, TIMES))),
    "r": (record(a=INTEGER, b=STRING), ((1, "x"), (None, "y"))),
    "a": (ListType(INTEGER), ([], [1], [None, 2, 2])),
}
ROW = RecordType(tuple((n, t) for n, (t, _) in COLUMNS.items()))
X = Var("x", ROW)
OF = {Field(X, n): n for n in COLUMNS}
_pick = random.Random(5)
ROWS = [
    tuple(None if _pick.random() < 0.15 else _pick.choice(v) for _, v in COLUMNS.values())
    for _ in range(300)
]

EXPRESSIONS = """
i; l; y; s; d; f; p; w; x; k; dt; ts; tn; r; r.a; r.b; null; 'a\\\\b'; 1.50; 1e300
struct(i as a, s as b); named_struct('a b', p, 'c', struct(k as q)); struct(i as a, s as b).b; 'a\\nb\\tc'
i + j; i - j; i * j; y + y; h * y; l + i; y - l; big + 0L; l * l; d + e; d - e; d * e; f + f; f * f; f - d; i + d; i * f
p + q; p - q; p * q; p + p; p * c; w + w; w - p; w + z; z - z; z * y; p + 1; p * 2; 1.5 * i; p + i; l + p; p * 1.25
w * 3; z * z; i / j; l / j; d / g; p / c; p / j; w / j; z / c; p / 3; 1 / j; q / 1.5; d / 3; i / g; w / c
i % j; l % j; y % 2Y; p % c; d % g; i div j; l div j; big div 3; big % 7; -i; -d; -p; -l; abs(i); abs(d); abs(p); abs(f)
sign(i); sign(p); sqrt(i); power(i, 2); floor(p); ceil(p); floor(i); ceil(z); floor(c); round(p, 1); round(p); round(i, -1)
round(q, -2); round(d, 2); round(w, 1); greatest(i, j); greatest(d, e); least(d, e, g); least(s, u); greatest(p, q); least(dt, dv)
greatest(null, i); least(k, m); greatest(y, h, i, l); least(ts, tu); greatest(x, x)
i = j; i <> j; i < l; y <= h; big > l; big >= 9007199254740993; i <=> j; i <=> null; i = null; y = 7; l = i
d = e; d <> e; d < e; d <= e; d > e; d >= e; d <=> e; f = f; f < d; f <=> f; d = i; d > p; big < d; p = q; p < q; p <= p
p > 1; p = 1.5; w >= p; w <=> p; z < w; c = i; s = u; s <> u; s < u; s <= u; s > u; s >= u; s <=> u; s = 'a'; s < 'b'
x = x; x < x; x <=> x; k = m; k < m; k <=> m; k >= m; dt = dv; dt < dv; dt >= date'2000-01-01'; ts < tu; ts = tu; ts <=> tu
ts >= timestamp'1970-01-01 00:00:00'; tn = tn; dt < ts; dt = '2024-02-29'; r = r; r = struct(1 as a, 'x' as b); r <=> r
k and m; k or m; not k; k and null; null or m; k and m and i > 0; k or m or i is null; not (k and m); i = 1 and s = 'a' or k
i is null; i is not null; r is null; d is null; null is null; k is true; k is not false; p is not null and q is null
case when k then i else j end; case when k then i end; case when k then 1 when m then 2.5 end; if(k, s, u); if(k, d, f)
case i when 1 then 'one' when 7 then 'seven' else s end; case when k then p else q end; case when i > 0 then l else y end
coalesce(i, j); coalesce(s, u, 'none'); coalesce(p, q); coalesce(d, 0); coalesce(null, dt); nullif(i, j); nullif(s, 'a')
nullif(d, e); nvl2(i, s, u); coalesce(i / j, 0.5); if(k, r, r); case when k then dt when m then dv end
i in (1, 7); i in (1, null); s in ('a', 'b', '$x'); s not in ('a'); d in (1.5D, 0.0D); l in (1, 40000); p in (1.5, 12.35)
i between 0 and 7; p between 0 and 10; s between 'a' and 'b'; dt between dv and date'2024-12-31'; d not between 0 and 2
year(dt); quarter(dt); month(dt); day(dt); dayofweek(dt); dayofyear(dt); weekofyear(dt); year(ts); month(tn); hour(ts)
minute(ts); second(tn); hour(tn); date_add(dt, i); date_sub(dt, 400); dt + 1; dt - i; datediff(dt, dv); datediff(ts, dv)
add_months(dt, 1); last_day(dt); trunc(dt, 'month'); trunc(dt, 'week'); dt + interval 1 month; date_add(dt, y); last_day(ts)
cast(i as bigint); cast(y as int); cast(l as double); cast(big as double); cast(i as decimal(12, 2)); cast(big as decimal(20, 0))
cast(big as decimal(38, 10)); cast(p as decimal(12, 4)); cast(z as decimal(38, 2)); cast(q as decimal(11, 2)); cast(z as decimal(11, 9))
cast(f as double); cast(p as double); cast(i as string); cast(d as string); cast(p as string); cast(dt as string); cast(ts as string)
cast(i as boolean); cast(k as int); cast(dt as timestamp); cast(ts as date); cast(p as int); cast(i as float); cast(y as smallint)
cast(null as decimal(5, 2)); try_cast(s as int); try_cast(i as tinyint); cast(s as binary) is null; cast(k as string)
upper(s); lower(s); length(s); trim(s); ltrim(s); rtrim(s); reverse(s); concat(s, u); s || '-' || u; concat(s, i); concat(s)
replace(s, 'a', 'xx'); startswith(s, 'a'); startswith(s, u); endswith(s, 'c'); endswith(s, ''); contains(s, 'b'); contains(s, u)
contains(s, '日'); instr(s, 'b'); left(s, 2); left(s, 0); left(s, j); right(s, 2); repeat(s, 2); substring(s, 2); substring(s, 0, 2)
substring(s, 2, 1); substring(s, 1, 0); substring(s, -2, 1); substring(s, j, 2); substring(u, 5, 100)
s like 'a%'; s like '%c'; s like '%b%'; s like 'abc'; s like '%'; s like ''; s like 'a_c'; s like 'a\\\\%c'; s like 'a%c'; s like s || '%'
s ilike 'A%'; s not like '%a'; s like null; startswith(s, null); length(null); null + i; not null; a; a is null
"""


def sql_expressions() -> list[str]:
    lines = EXPRESSIONS.strip().splitlines()
    long = ", ".join(map(str, range(LONG)))
    return [*(e.strip() for line in lines for e in line.split(";") if e.strip()), f"i in ({long})"]


def read(expression: str, schema: dict[str, Any]) -> Term:
    """The term of an expression, with x for the row."""
    term: Any = read_sql(f"SELECT {expression} AS v" + (" FROM t" if schema else ""), schema)
    if schema:
        assert term.source == Rel("t", bag(ROW))
        return substitute(dict(term.body.key.fields)["v"], {term.var: X})
    found: Term = dict(term.key.fields)["v"]
    return found


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """The rows in Arrow, in two chunks."""
    columns = [
        pa.array([_arrow(row[i]) for row in ROWS], type=arrow_type(t))
        for i, (_, t) in enumerate(ROW.fields)
    ]
    whole = pa.table(columns, names=[n for n, _ in ROW.fields])
    return pa.concat_tables([whole.slice(0, 100), whole.slice(100)])


def _arrow(value: Any) -> Any:
    return dict(zip("ab", value, strict=True)) if isinstance(value, tuple) else value


@pytest.fixture(scope="module")
def spark(table: pa.Table) -> Any:
    made = session()
    frame = made.createDataFrame(table)
    frame.withColumn("tn", frame.tn.cast("timestamp_ntz")).createOrReplaceTempView("t")
    return made


def answers(spark: Any, texts: list[str]) -> tuple[list[list[Any]], list[str]]:
    """What Spark gives for expressions over the table, column by column, and their types."""
    shown = ", ".join(f"{e} AS v{i}" for i, e in enumerate(texts))
    frame = spark.sql(f"SELECT {shown} FROM t")
    types = [plain(f.dataType.simpleString()) for f in frame.schema.fields]
    return [c.to_pylist() for c in frame.toArrow().columns], types


def same(a: Any, b: Any) -> bool:
    """Equal to the last bit, where NaN is NaN."""
    if isinstance(a, float) and isinstance(b, float) and (a != a or b != b):
        return a != a and b != b
    if isinstance(a, datetime) and isinstance(b, datetime):
        a, b = (v.replace(tzinfo=v.tzinfo or UTC) for v in (a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return type(a) is type(b) and bool(a == b)


def plain(name: str) -> str:
    """A type's name without spaces and backticks."""
    return name.replace(" ", "").replace("`", "")


def compared(what: str, found: list[Any], expected: list[Any]) -> list[str]:
    wrong = [(f, e) for f, e in zip(found, expected, strict=True) if not same(f, e)]
    return (
        [f"{what}: {len(wrong)} rows, such as {wrong[0][0]!r}, not {wrong[0][1]!r}"]
        if wrong
        else []
    )


def check(spark: Any, table: pa.Table, shown: list[str], written: list[Scalar]) -> list[str]:
    """What differs between Spark's answers to expressions, to the SQL of scalars, and their trees."""
    columns, types = answers(spark, [*shown, *(s.sql for s in written)])
    wrong = []
    for i, (e, s) in enumerate(zip(shown, written, strict=True)):
        given, found = types[i], types[i + len(shown)]
        if found != plain(spark_type(s.type)):
            wrong.append(f"{e}: {s.sql} is {found}, not {s.type}")
        if given != found and {given, found} - set(INTEGRAL):
            wrong.append(f"{e}: {found}, not {given}")
        values = columns[i]
        wrong += compared(f"{e}: {s.sql}", columns[i + len(shown)], values)
        if s.tree is not None:
            wrong += on_arrow(e, s, table, values)
    return wrong


def on_arrow(what: str, s: Scalar, table: pa.Table, expected: list[Any]) -> list[str]:
    """What differs where Arrow has a value; rows that it leaves to Spark have none here."""
    column, rows = told(s, table)
    assert column.type == arrow_type(s.type), (what, column.type)
    if len(rows) == table.num_rows:
        for part in (table.slice(0, 0), table.slice(7, 1)):
            assert len(evaluate(s.tree, part)) == part.num_rows, what
    return compared(f"{what}: {s.tree}", column.to_pylist(), [expected[i] for i in rows])


def told(s: Scalar, table: pa.Table, first: int = 0) -> tuple[pa.Array, list[int]]:
    """The values that Arrow has, and the numbers of their rows."""
    try:
        column = evaluate(s.tree, table)
        assert isinstance(column, pa.Array) and len(column) == table.num_rows
        return column, list(range(first, first + table.num_rows))
    except ArrowCannot:
        half = table.num_rows // 2
        if not half:
            return pa.array([], arrow_type(s.type)), []
        (a, i), (b, j) = (
            told(s, table.slice(0, half), first),
            told(s, table.slice(half), first + half),
        )
        return pa.concat_arrays([a, b]), i + j


def names_in(tree: Any) -> set[str]:
    if not isinstance(tree, list):
        return set()
    return {tree[0]}.union(*(names_in(t) for t in tree[2:]))


def test_sql_expressions(spark: Any, table: pa.Table) -> None:
    shown = sql_expressions()
    schema = {"t": bag(ROW)}
    written = [scalar(read(e, schema), OF) for e in shown]
    shown.append("cardinality(a)")  # no word of SQL without Spark: the size of a bag that is whole
    written.append(scalar(Call(CARDINALITY, (Field(X, "a"),), INTEGER), OF))
    assert not (wrong := check(spark, table, shown, written)), "\n".join(wrong)
    used = set().union(*(names_in(s.tree) for s in written), *map(names_in, exact_trees()))
    # Only subqueries have `one_row`, only exploded arrays `elements`: they are tried where those are; Python's in `TERMS`;
    # those of windows of time in `test_time_windows_spark`.
    elsewhere = {"one_row", "elements", "py_mod", "py_floordiv", "py_present"}
    elsewhere |= {"window_start", "window_starts", "add_micros"}
    nodes = {*NODES, *ZONED, "column", "literal", "field", "case"} - elsewhere
    assert used == nodes, f"no expression tries {nodes - used}"
    assert {*TREES} <= {*NODES, *ZONED, "case"}
    for s in written:
        assert from_json(json.loads(json.dumps(to_json(s)))) == s


def test_constant_expressions(spark: Any, table: pa.Table) -> None:
    shown, written = [], []
    for e in constant_expressions():
        try:
            term = read(e, {})
            interpret(term, {})
        except (ScalarError, TypeMismatch):
            continue  # an error for Spark too, as test_scalars_spark says
        shown.append(e)
        written.append(scalar(term, {}))
    assert len(shown) > 100
    assert not (wrong := check(spark, table, shown, written)), "\n".join(wrong)


# --- terms that SQL has no words for ------------------------------------------------------------------


def of(name: str) -> Term:
    return Field(X, name)


def const(value: Any, t: Any) -> Term:
    return Const(value, t)


def over(a: Term, b: Term, p: int, s: int) -> Term:
    """A quotient with a type of its own, as avg has it."""
    return Call("/", (a, b), decimal(p, s))


V = Var("v", ProductType((("n", INT), ("total", Exact(4)), ("real", REAL))))
N, TOTAL, REALS = (Field(V, n) for n in ("n", "total", "real"))
LEAST = Answer("min", (), Var("m", bag(INTEGER)))
HUGE = Decimal("12345678901234567890123456.7891")
TERMS: list[Term] = [
    *(
        over(of(a), Call("cast", (of(b),), BIGINT), p, s)
        for a, p, s in (("p", 14, 6), ("q", 16, 8), ("w", 38, 6), ("z", 38, 14), ("c", 9, 4))
        for b in ("j",)
    ),
    *(
        over(const(Decimal(v), decimal(38, s)), of("j"), 20, s + 4)
        for v, s in (("1", 0), ("-2", 0), ("0.5", 1), ("100000000.1", 1), ("2.00005", 5))
    ),
    over(const(Decimal("1.00"), decimal(38, 2)), const(128, BIGINT), 14, 6),  # 0.0078125
    over(const(Decimal("-1.00"), decimal(38, 2)), const(128, BIGINT), 14, 6),
    over(const(Decimal("-1.0001"), decimal(38, 4)), const(3, BIGINT), 14, 8),
    over(const(Decimal("1"), decimal(38, 0)), const(99999, INTEGER), 14, 4),
    over(const(Decimal("1"), decimal(38, 0)), const(20000, INTEGER), 14, 4),
    over(const(Decimal("0.4999949999"), decimal(38, 10)), const(1, BIGINT), 24, 14),
    *(
        Call(f, (of(a), of(b)))
        for f in ("py_mod", "py_floordiv")
        for a, b in (("i", "j"), ("l", "j"), ("y", "j"), ("p", "c"), ("z", "c"))
    ),
    Call("py_mod", (const(-7.5, DOUBLE), of("j"))),
    Call("py_floordiv", (const(-7.5, DOUBLE), of("j"))),
    Call("py_floordiv", (const(1e300, DOUBLE), of("j"))),
    Call("py_mod", (const(2**63 - 2, BIGINT), const(2**63 - 1, BIGINT))),
    Call("py_mod", (const(-5, BIGINT), const(2**63 - 1, BIGINT))),
    Call("py_strip", (of("s"),)),
    Call("py_strip", (const("\t\u3000\x85 a b \xa0\x1f", STRING),)),
    Call("py_present", (Call("coalesce", (of("i"), const(3, INTEGER))),)),
    Call("+", (of("p"), const(3, INTEGER))),  # a constant counts with its type's digits here
    Call("*", (const(3, BIGINT), of("p"))),
    Call("/", (of("p"), const(3, INTEGER))),
    Call("=", (of("p"), of("q"))),
    Call("nullif", (of("p"), of("q"))),
    Call("case", (of("k"), of("p"), of("k"), of("i"), of("q"))),
    Call("coalesce", (of("y"), of("p"), of("z"))),
    Call("like", (of("s"), const("a\\b%", STRING))),
    Call("like", (of("s"), const("'\\\\", STRING))),
    Call("like", (of("s"), const("'\\", STRING))),
    Field(Record((("a", of("i")), ("b", of("s")))), "b"),
    Field(Call("case", (of("k"), of("r"), const(None, record(a=INTEGER, b=STRING)))), "b"),
    Record((("a", Record((("`", of("i")),))), ("b", of("s")))),
    *(const(v, t) for n, (t, values) in COLUMNS.items() if n != "a" for v in (*values, None)),
    *(const(v, STRING) for v in ("${spark.app.name}", "\0\n\r'\"\\", "\\u0041", "--", "?", ":x")),
    *(Box(Unbox(of(n))) for n in ("y", "big", "f", "d", "p", "z")),
    Box(Add((Unbox(of("i")), Num(5, INT), Neg(Unbox(of("y")))))),
    Box(Times((Pred(of("k")), Unbox(of("p")), Unbox(of("q"))))),
    Box(Times((Unbox(of("d")), Unbox(of("e"))))),
    Box(Times((Pred(Call(">", (of("i"), const(0, INTEGER)))), Unbox(of("j")), Num(-2, INT)))),
    Box(Add((Unbox(of("q")), Num(HUGE, Exact(4)), Zero(Exact(4))))),
    Box(Pred(of("k"))),
    Box(Not(Unbox(of("i")))),
    Unbox(of("l")),
    X,
    Box(N),
    N,
    Box(TOTAL),
    Box(Times((N, N, Num(3, INT)))),
    Box(REALS),
    over(Box(TOTAL), Box(N), 38, 8),
    Call("/", (Call("cast", (Box(REALS),), DOUBLE), Call("cast", (Box(N),), DOUBLE))),
    LEAST,
    Call("+", (LEAST, of("j"))),
    Record(()),
]
MORE = {N: "n", TOTAL: "total", REALS: "real", LEAST: "least"}


def shaped(value: Any, t: Any) -> Any:
    """A record as Arrow shows it."""
    if isinstance(value, tuple) and isinstance(t, RecordType):
        return {n: shaped(v, f) for v, (n, f) in zip(value, t.fields, strict=True)}
    return value


def test_terms(spark: Any, table: pa.Table) -> None:
    """What the interpreter says, from Spark and from Arrow."""
    group = {"n": 3, "total": HUGE, "real": 0.1, "least": 40}
    types = {"n": BIGINT, "total": decimal(38, 4), "real": DOUBLE, "least": INTEGER}
    scope = {"v": (3, HUGE, 0.1), "m": bag_of([40, 41])}
    for name, value in group.items():
        column = pa.repeat(pa.scalar(value, arrow_type(types[name])), table.num_rows)
        table = table.append_column(name, column)
    shown = ", ".join(f"{literal(v, types[n])} AS {n}" for n, v in group.items())
    spark.sql(f"SELECT *, {shown} FROM t").createOrReplaceTempView("t")
    written = [scalar(t, {**OF, **MORE}) for t in TERMS]
    columns, found = answers(spark, [s.sql for s in written])
    wrong = []
    for i, (t, s) in enumerate(zip(TERMS, written, strict=True)):
        if found[i] != plain(spark_type(s.type)):
            wrong.append(f"{t}: {s.sql} is {found[i]}, not {s.type}")
        meant = [shaped(interpret(t, {}, {**scope, "x": row}), s.type) for row in ROWS]
        wrong += compared(f"{t}: {s.sql}", columns[i], meant)
        if s.tree is not None:
            wrong += on_arrow(str(t), s, table, meant)
    assert not wrong, "\n".join(wrong)


# --- what is refused, and the ends of the range ----------------------------------------------------------

BAG = Var("b", bag(record(a=INTEGER)))
REFUSED: list[Term] = [
    Var("unknown", INTEGER),
    Box(BAG),
    Box(Sum(BAG)),
    Box(Not(BAG)),
    Answer("max", (), Var("m", bag(INTEGER))),
    Call("=", (Box(BAG), Box(BAG))),
    Field(Var("other", record(a=INTEGER)), "a"),
    Box(Times((TOTAL, TOTAL))),  # 76 digits
]


@pytest.mark.parametrize("term", REFUSED, ids=str)
def test_what_cannot_be_written_is_refused(term: Term) -> None:
    columns = {**OF, **MORE}
    if isinstance(term, Call):
        columns[BAG] = "bag"
    with pytest.raises(NotIncremental) as e:
        scalar(term, columns)
    assert e.value.reason == "EXPRESSION"


def test_every_function_is_written() -> None:
    known = {
        n for n, row in SCALARS.items() if row.apply.__module__.startswith("headwater.calculus")
    }
    # Exact numbers are summands, and never reach Spark.
    assert known - {"cast", "try_cast", "nullif", "_exact", *DEFINED} <= set(SQL) <= set(SCALARS)


def test_other_functions_are_called() -> None:
    term = Call("halved", (of("i"), Call("other fn", (of("j"), of("i")), STRING)), DOUBLE)
    s = scalar(term, OF)
    assert s == Scalar("`halved`(`i`, `other fn`(`j`, `i`))", DOUBLE, ("i", "j"))


def test_columns() -> None:
    s = scalar(of("i"), {of("i"): "a ` b"})
    assert s == Scalar("`a `` b`", INTEGER, ("a ` b",), ["column", "int", "a ` b"])
    assert is_column(s.tree) == "a ` b"
    assert (
        is_column(scalar(Call("negate", (of("i"),)), OF).tree) is None and is_column(None) is None
    )
    short = pa.table({"s": pa.chunked_array([["a", None], []], pa.string())})
    assert evaluate(scalar(of("s"), OF).tree, short) == pa.array(["a", None], pa.large_string())
    assert evaluate(scalar(const(1, INTEGER), {}).tree, short) == pa.array([1, 1], pa.int32())


ERRORS: list[tuple[str, tuple[Any, ...], Any]] = [
    ("+", (2**31 - 1, 1), INTEGER),
    ("-", (-(2**63), 1), BIGINT),
    ("*", (100, 2), TINYINT),
    ("negate", (-(2**63),), BIGINT),
    ("abs", (-128,), TINYINT),
    ("/", (1.0, 0.0), DOUBLE),
    ("/", (Decimal("1"), Decimal("0")), decimal(5, 0)),
    ("%", (1, 0), INTEGER),
    ("div", (-(2**63), -1), BIGINT),
    ("+", (Decimal("9" * 38), Decimal("1")), decimal(38, 0)),
    ("*", (Decimal("9" * 37), Decimal("100")), decimal(37, 0)),
]


@pytest.mark.parametrize(("name", "values", "t"), ERRORS, ids=str)
def test_arrow_leaves_errors_to_spark(name: str, values: tuple[Any, ...], t: Any) -> None:
    vars = [Var(f"x{i}", t) for i in range(len(values))]
    tree = scalar(Call(name, tuple(vars)), {v: v.name for v in vars}).tree
    columns = {v.name: pa.array([a], arrow_type(t)) for v, a in zip(vars, values, strict=True)}
    with pytest.raises(ArrowCannot):
        evaluate(tree, pa.table(columns))
    nothing = pa.table({n: pa.nulls(1, c.type) for n, c in columns.items()})
    assert evaluate(tree, nothing).null_count == 1


def test_narrowing_casts_leave_errors_to_spark() -> None:
    x = Var("x", BIGINT)
    for target in (TINYINT, decimal(3, 1)):
        tree = scalar(Call("cast", (x,), target), {x: "x"}).tree
        with pytest.raises(ArrowCannot):
            evaluate(tree, pa.table({"x": pa.array([1, 1000])}))
