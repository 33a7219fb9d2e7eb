"""Scalars that have a form in Arrow, value by value against Spark: equal to the last bit, or left to Spark.

Each line is an expression; after `|` what Spark is asked in its place where some values are an error in ANSI mode, which
is then NULL. Where Spark has an error, here there is none of its values: the row is left to Spark. After `#` the
greatest share of rows that may be left to Spark; without it, none. The interpreter is compared for the same rows.
"""

from __future__ import annotations

import os
import random
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from headwater.calculus.formats import read as read_moment
from headwater.calculus.formats import written
from headwater.calculus.interpret import interpret
from headwater.calculus.terms import Field, Term, Var, substitute
from headwater.calculus.types import bag
from headwater.engine.here.arrow import ArrowCannot, evaluate
from headwater.engine.spark.session import local_frame
from headwater.errors import ScalarError
from headwater.interop.arrow_types import arrow_type
from headwater.language.sql import read_sql
from headwater.plan.scalar import Scalar, scalar
from random_scalars import EPOCH, ROW, rows, table, times, times_around
from spark_session import session

pytestmark = pytest.mark.spark

EXPRESSIONS = r"""
year(dt); quarter(dt); month(dt); day(dt); dayofweek(dt); dayofyear(dt); weekofyear(dt); weekday(dt)
year(ts); month(tn); dayofmonth(ts); dayofweek(ts); weekofyear(tn); hour(ts); minute(ts); second(ts); hour(tn); minute(tn); second(tn); hour(dt)
extract(second from ts); extract(week from dt); extract(dow from ts); extract(doy from dt); date_part('hour', ts); extract(yearofweek from dt)
to_date(ts); to_date(tn); cast(ts as date); cast(ts as timestamp_ntz); cast(tn as timestamp); cast(dt as timestamp) # 0.01; cast(dt as timestamp_ntz)
date_trunc('year', ts) # 0.03; date_trunc('QUARTER', ts) # 0.03; date_trunc('mon', ts) # 0.03; date_trunc('week', ts) # 0.03; date_trunc('DAY', ts) # 0.03
date_trunc('hour', ts) # 0.03; date_trunc('minute', tn) # 0.03; date_trunc('second', ts); date_trunc('millisecond', ts); date_trunc('q', ts); date_trunc('month', dt) # 0.05
trunc(dt, 'year') # 0.03; trunc(dt, 'quarter') # 0.03; trunc(dt, 'mm') # 0.03; trunc(dt, 'week') # 0.03; trunc(dt, 'q'); trunc(ts, 'mon') # 0.03
date_add(dt, n) # 0.05; date_sub(dt, 3) # 0.05; dt + n # 0.05; datediff(dt, dv); add_months(dt, n) # 0.05; add_months(dt, 1) # 0.05; last_day(dt); next_day(dt, 'tu') # 0.05; next_day(dt, 'SUNDAY') # 0.05
unix_date(dt); unix_seconds(ts); unix_millis(ts); unix_micros(ts); unix_timestamp(ts); timestamp_seconds(i); timestamp_millis(i); timestamp_micros(i)
round(d) # 0.2; round(d, 1) # 0.2; round(d, 2) # 0.2; round(d, 4) # 0.2; round(p); round(p, 1); round(q, 3); round(q, 0); round(c); round(p, 5); round(i); round(n, -1); round(l, 2); round(w, 4) | try_cast(round(w, 4) as decimal(38, 4)); round(p, -1)
floor(d) | case when d >= -9.223372036854775808e18D and d < 9.223372036854775808e18D then floor(d) end # 0.4; ceil(d) | case when d >= -9.223372036854775808e18D and d < 9.223372036854775808e18D then ceil(d) end # 0.4; floor(p); ceil(p); floor(w); ceil(q); floor(i); ceil(c); floor(l); sign(d); sign(i); sign(p) # 0.01; sqrt(abs(d)); sqrt(d); rint(d); isnan(d); nanvl(d, e); pmod(n, 7); pmod(n, -7)
abs(d); abs(p); -d; -p; greatest(d, e); least(d, e, 1.5D); greatest(p, q); least(s, u); greatest(dt, dv); greatest(ts, ts); coalesce(s, u); nullif(s, 'a'); if(k, s, u); nvl(d, e)
upper(s) # 0.3; lower(s) # 0.3; trim(s); ltrim(s); rtrim(s); concat(s, u); s || '-' || u; concat_ws('-', s, u); concat_ws(', ', s, n, dt); concat_ws('', s); concat_ws(s, 'x', u); concat_ws('-', s, null); length(s)
replace(s, 'a', 'xy'); replace(s, 'é', ''); left(s, 3); right(s, 2); right(s, 0); substring(s, 2, 3); substring(s, 2); instr(s, 'b'); instr(s, '本'); repeat(s, 3); startswith(s, 'a'); contains(s, 'b'); endswith(s, 'c'); s like '%a%'
reverse(s); lpad(s, 5, 'xy'); rpad(s, 5); lpad(s, n, '-'); rpad(s, 3, ''); locate('a', s, 2); locate('a', s, n); locate('', s, 2); substring_index(s, '.', 1); substring_index(s, 'a', -1); substring_index(s, 'a', 2); translate(s, 'abc', 'xy'); split_part(s, ',', 2); split_part(s, 'a', -1); md5(s); sha1(s); sha2(s, 256)
s rlike '^[a-z]' # 0.8; s rlike 'b+c?' # 0.8; rlike(s, '[0-9]{2}$') # 0.8; regexp_extract(s, '([a-z]+)([0-9]+)', 2) # 0.8; regexp_extract(s, '(b|c)') # 0.8; regexp_replace(s, '[aeiou]+', '*') # 0.8; regexp_replace(s, 'b', '') # 0.8
cast(y as string); cast(i as string); cast(l as string); cast(p as string); cast(w as string); cast(c as string); cast(k as string); cast(d as string) # 0.4; cast(dt as string); cast(ts as string); cast(tn as string)
cast(i as bigint); cast(l as double); cast(l as float); cast(i as double); cast(i as boolean); cast(d as boolean); cast(p as boolean); cast(d as float); cast(f as double); cast(p as double); cast(q as double); cast(w as double); cast(k as int); cast(k as double); cast(k as decimal(5, 2))
cast(i as tinyint) | try_cast(i as tinyint) # 1; cast(l as int) | try_cast(l as int) # 1; cast(d as int) | try_cast(d as int) # 1; cast(d as bigint) | try_cast(d as bigint) # 1; cast(d as tinyint) | try_cast(d as tinyint) # 1; cast(f as int) | try_cast(f as int) # 1
cast(p as int) | try_cast(p as int) # 1; cast(q as bigint); cast(w as int) | try_cast(w as int) # 1; cast(p as tinyint) | try_cast(p as tinyint) # 1
cast(d as decimal(10, 2)) | try_cast(d as decimal(10, 2)) # 1; cast(d as decimal(38, 10)) | try_cast(d as decimal(38, 10)) # 1; cast(p as decimal(12, 4)); cast(q as decimal(10, 2)) | try_cast(q as decimal(10, 2)) # 1; cast(w as decimal(38, 2)); cast(l as decimal(20, 0)); cast(i as decimal(12, 2)); cast(n as decimal(2, 1)) | try_cast(n as decimal(2, 1)) # 1
cast(sn as int) | try_cast(sn as int) # 1; cast(sn as bigint) | try_cast(sn as bigint) # 1; cast(sn as tinyint) | try_cast(sn as tinyint) # 1; cast(sn as double) | try_cast(sn as double) # 1; cast(sn as decimal(12, 3)) | try_cast(sn as decimal(12, 3)) # 1; cast(sn as boolean) | try_cast(sn as boolean) # 1
cast(sd as date) | try_cast(sd as date) # 1; to_date(sd) | try_cast(sd as date) # 1; cast(sd as timestamp_ntz) | try_cast(sd as timestamp_ntz) # 1; cast(sd as timestamp) | try_cast(sd as timestamp) # 1
exp(d); ln(d); log(d); log10(d); log2(d); log(e, d); log(10, d); power(d, e); pow(d, 2); power(n, 3); power(p, 0.5D); exp(n); ln(p); log10(l)
w * w | try_multiply(w, w) # 1; w * q | try_multiply(w, q) # 1; p * w | try_multiply(p, w) # 1; q * q; p * q; w / w | try_divide(w, w) # 1; p / q | try_divide(p, q) # 1; w / p | try_divide(w, p) # 1; q / w | try_divide(q, w) # 1; p / 3; w / 7; w + q | try_add(w, q) # 1; w - w | try_subtract(w, w) # 1; p % q | try_mod(p, q) # 1; p % 7; d % e | try_mod(d, e) # 1; d % 3; d % 0.1D
startswith(s, u); endswith(s, u); contains(s, u); instr(s, u); replace(s, u, 'b'); replace(s, 'a', u); left(s, n); right(s, n); substring(s, n, 2); substring(s, -2); substring(s, n, n); repeat(s, n); left(s, -1); s like 'a\\%c'; s like '\\%a\\_%'; s ilike 'AB%' # 0.3; s ilike '%b\\_C%' # 0.3
try_cast(sn as int) # 0.7; try_cast(sn as decimal(12, 3)) # 0.7; try_cast(sn as double) # 1; try_cast(sd as date) # 0.6; try_cast(sd as timestamp) # 0.7; try_cast(i as tinyint) # 1; try_cast(i as bigint); cast(ts as bigint); cast(ts as int) | try_cast(ts as int) # 1; cast(ts as double); cast(i as timestamp); cast(l as timestamp) # 0.8; trim(both 'ab' from s); trim('a' from s); trim(leading 'a' from s); trim(trailing u from s)
hex(s); hex(i); hex(l); hex(y); initcap(s) # 0.5; split(s, ','); split(s, ',', 2); split(s, '\\.'); split(s, '[|]'); split(s, 'a', -1); split(s, 'b', 1); split(s, 'é'); split(s, '[ab]+') # 0.8; split(s, '\\s+') # 0.8; split(s, ' ', 0)
split(s, ',')[0]; element_at(split(s, 'a'), 1); element_at(split(s, 'a'), -1); get(split(s, 'a'), 1); try_element_at(split(s, 'a'), 2); size(split(s, 'a'))
s rlike 'a.c' # 0.8; s rlike '(?i)ABC' # 0.8; s rlike '\\w+' # 0.8; regexp_replace(s, '\\s', '') # 0.8; regexp_extract(s, '(.)b', 1) # 0.8
date_format(ts, 'yyyy-MM-dd'); date_format(ts, 'yyyy-MM-dd HH:mm:ss.SSS'); date_format(tn, 'yyyyMMdd'); date_format(dt, 'MMM d, yyyy'); date_format(ts, 'EEEE, dd MMMM yy'); date_format(ts, 'E h:m:s a'); date_format(ts, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"); date_format(ts, 'y/M/d hh H SSSSSSSSS D DDD'); date_format(dt, "'it''s' EEE")
from_unixtime(i); from_unixtime(i, 'yyyy/MM/dd'); from_unixtime(l, 'HH') # 0.6
to_date(sd, 'yyyy-MM-dd') | try_to_date(sd, 'yyyy-MM-dd') # 0.8; to_timestamp(sd, 'yyyy-MM-dd HH:mm:ss') | try_to_timestamp(sd, 'yyyy-MM-dd HH:mm:ss') # 0.9; unix_timestamp(sd, 'yyyy-MM-dd') | unix_timestamp(try_to_timestamp(sd, 'yyyy-MM-dd')) # 0.8
get_json_object(js, '$.a') # 0.6; get_json_object(js, '$.a.b') # 0.6; get_json_object(js, '$.a[1]') # 0.6; get_json_object(js, '$.a[0].b') # 0.6; get_json_object(js, '$[0]') # 0.6; get_json_object(js, '$.b.c[0]') # 0.6
"""

IN_A_ZONE = r"""
year(ts); day(ts); hour(ts); minute(ts); second(ts); hour(dt) # 1; to_date(ts); cast(ts as timestamp_ntz); cast(ts as string); cast(tn as timestamp) # 1; cast(dt as timestamp) # 1
date_trunc('year', ts) # 0.05; date_trunc('quarter', ts) # 0.05; date_trunc('month', ts) # 0.05; date_trunc('week', ts) # 0.05; date_trunc('day', ts) # 0.05; date_trunc('hour', ts) # 0.05; date_trunc('minute', ts) # 0.05; date_trunc('second', ts)
cast(sd as timestamp) | try_cast(sd as timestamp) # 1; unix_seconds(ts); concat_ws(' ', ts, n); extract(second from ts)
date_format(ts, 'yyyy-MM-dd HH:mm:ss.SSS EEE'); date_format(dt, 'yyyy-MM-dd HH') # 1; date_format(tn, 'HH:mm') # 1; from_unixtime(unix_seconds(ts)); to_date(cast(dt as string), 'yyyy-MM-dd') # 1; to_timestamp(cast(tn as string), 'yyyy-MM-dd HH:mm:ss') | try_to_timestamp(cast(tn as string), 'yyyy-MM-dd HH:mm:ss') # 1
"""
ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
)
X = Var("x", ROW)
OF = {Field(X, n): n for n, _ in ROW.fields}
LEFT = object()
"""In the place of a value that is left to Spark."""


def cases(listed: str) -> list[tuple[str, str, float]]:
    """The expressions, what Spark is asked for each, and how much may be left to it."""
    out = []
    for part in (e.strip() for line in listed.strip().splitlines() for e in line.split("; ")):
        rest, _, share = part.partition(" # ")
        ours, _, asked = rest.partition(" | ")
        out.append((ours.strip(), (asked or ours).strip(), float(share or 0)))
    return out


def read(expression: str) -> Term:
    term: Any = read_sql(f"SELECT {expression} AS v FROM t", {"t": bag(ROW)})
    return substitute(dict(term.body.key.fields)["v"], {term.var: X})


def trees() -> list[Any]:
    """The trees of all expressions."""
    return [scalar(read(ours), OF).tree for ours, _, _ in cases(EXPRESSIONS)]


def told(s: Scalar, given: pa.Table, zone: str) -> list[Any]:
    """The values here, row by row, `LEFT` where a row is Spark's."""
    try:
        return plain(evaluate(s.tree, given, zone))
    except ArrowCannot:
        if given.num_rows == 1:
            return [LEFT]
        half = given.num_rows // 2
        return told(s, given.slice(0, half), zone) + told(s, given.slice(half), zone)


def plain(column: Any) -> list[Any]:
    """Values that are equal only if they are the same: times as numbers, doubles as their text."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz)).view(pa.int64())
    if pa.types.is_date32(column.type):
        column = column.view(pa.int32())
    found = column.to_pylist()
    return [repr(v) for v in found] if pa.types.is_floating(column.type) else found


def answers(spark: Any, given: pa.Table, asked: list[str]) -> pa.Table:
    frame = local_frame(spark, given)
    return frame.selectExpr(*(f"{e} AS v{i}" for i, e in enumerate(asked))).toArrow()


def is_moment(t: Any) -> bool:
    """Whether values are dates or times, which end with the year 9999 in Python."""
    return str(t) in ("date", "timestamp", "timestamp_ntz")


def interpreted(term: Term, row: tuple[Any, ...], t: Any) -> Any:
    """What the interpreter says, as `plain` would show it; `LEFT` for an error."""
    try:
        found = plain(pa.array([interpret(term, {}, {"x": row})], arrow_type(t)))[0]
    except ScalarError:
        return LEFT
    return found


def compared(spark: Any, listed: str, drawn: list[tuple[Any, ...]], zone: str) -> list[str]:
    """What is wrong, a line for each expression."""
    given, wrong = table(drawn), []
    every = cases(listed)
    expected = answers(spark, given, [asked for _, asked, _ in every])
    for i, (ours, _, share) in enumerate(every):
        term = read(ours)
        s = scalar(term, OF)
        if s.tree is None:
            wrong.append(f"{ours}: no tree")
            continue
        here = told(s, given, zone)
        there = plain(expected.column(i).cast(arrow_type(s.type)))
        bad = [
            (drawn[j], a, b)
            for j, (a, b) in enumerate(zip(here, there, strict=True))
            if a is not LEFT and a != b
        ]
        if bad:
            row = {n: v for (n, _), v in zip(ROW.fields, bad[0][0], strict=True) if n in s.reads}
            wrong.append(f"{ours}: {len(bad)} rows, of {row} {bad[0][1]!r}, not {bad[0][2]!r}")
        left = sum(a is LEFT for a in here) / len(here)
        if left > share:
            wrong.append(f"{ours}: {left:.3f} of the rows are left to Spark")
        if zone == "UTC":
            zeros = str(s.type) in ("double", "float")  # of which the calculus has one
            meant = [interpreted(term, row, s.type) for row in drawn[:150]]
            other = [
                (drawn[j], m, b)
                for j, (m, a, b) in enumerate(zip(meant, here, there, strict=False))
                if a is not LEFT
                and m != ("0.0" if b == "-0.0" and zeros else b)
                and not (m is LEFT and is_moment(s.type))
            ]
            if other:
                row = {
                    n: v for (n, _), v in zip(ROW.fields, other[0][0], strict=True) if n in s.reads
                }
                wrong.append(
                    f"{ours}: the interpreter says {other[0][1]!r} of {row}, not {other[0][2]!r}"
                )
    return wrong


def test_equal_to_spark() -> None:
    wrong = compared(session(), EXPRESSIONS, rows(1000), "UTC")
    assert not wrong, "\n".join(wrong)


def in_zone(zone: str) -> Any:
    there = session().newSession()
    there.conf.set("spark.sql.session.timeZone", zone)
    return there


@pytest.mark.parametrize("zone", ZONES)
def test_equal_to_spark_in_a_zone(zone: str) -> None:
    drawn = rows(500, 2, ts=times_around(zone), tn=times_around(zone))
    wrong = compared(in_zone(zone), IN_A_ZONE, drawn, zone)
    assert not wrong, "\n".join(wrong)


PATTERNS = (
    *("yyyyMMdd", "dd/MM/yyyy", "M/d/yyyy", "yyyy-MM", "yyyy", "dd MMM yyyy", "MM/dd/yy"),
    *("yyyy-MM-dd'T'HH:mm:ss.SSS", "yyyyMMddHHmmss", "hh:mm a dd.MM.yyyy", "H:m d.M.yyyy"),
    *("yyyy-MM-dd HH:mm:ss.SSSSSS", "yyyyMMddHHmmss.SSS", "yyyy.MM.dd 'at' HH'h'", "d-MMM-yy h a"),
)


def test_patterns_are_read_as_spark_reads_them() -> None:
    """Moments written in a pattern, some with a digit or a sign changed."""
    draw, wrong = random.Random(4), []
    for pattern in PATTERNS:
        texts = [written(times(draw), pattern) for _ in range(400)]
        for i in range(0, 400, 3):
            at = draw.randrange(len(texts[i]))
            texts[i] = texts[i][:at] + draw.choice("0123456789 -/aPx") + texts[i][at + 1 :]
        form = pattern.replace("'", "\\'")
        asked = local_frame(session(), pa.table({"s": texts})).selectExpr(
            f"try_to_timestamp(s, '{form}') AS v", f"try_to_date(s, '{form}') AS d"
        )
        there, days = (plain(c) for c in asked.toArrow().columns)
        for text, expected, day in zip(texts, there, days, strict=True):
            try:
                here = (read_moment(text, pattern) - EPOCH) // timedelta(microseconds=1)
            except ValueError:
                here = None
            if here is not None and (here, here // 86_400_000_000) != (expected, day):
                wrong.append(f"{pattern}: {text!r} is {here}, not {expected}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_many_values() -> None:
    count = int(os.environ.get("VALUES", "50000"))
    wrong = []
    for seed in range(-(-count // 5000)):
        wrong += compared(session(), EXPRESSIONS, rows(5000, 10 + seed), "UTC")
    assert not wrong, "\n".join(dict.fromkeys(wrong))
