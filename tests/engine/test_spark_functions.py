"""Scalars that only Spark knows, in views: kept through increments they are what Spark's own answer is.

Many expressions stand in one view, so that the file takes seconds. The rows have NULLs and odd values in every
column; two increments add and take away.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from headwater.errors import EngineError, NotIncremental, QueryError, TypeMismatch, UnknownName
from spark_session import session

pytestmark = pytest.mark.spark

SCHEMA = (
    "id BIGINT, n INT, x DOUBLE, m DECIMAL(10,2), s STRING, j STRING, d DATE, ts TIMESTAMP,"
    " tn TIMESTAMP_NTZ, f BOOLEAN, b BINARY"
)
Row = tuple[Any, ...]
ROWS: list[Row] = [
    (1, 3, 0.5, Decimal("12.34"), "a,b,c", '{"a": 1, "b": [1, 2, 3], "c": {"d": "x"}}', date(2024, 2, 29),
     datetime(2024, 2, 29, 13, 14, 15, 123456), datetime(2024, 12, 31, 23, 59, 59), True, b"abc"),
    (2, -7, -1.25, Decimal("-0.05"), "Straße {0} 'q'", '{"a": null}', date(1970, 1, 1),
     datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1970, 1, 1), False, b""),
    (3, None, None, None, None, None, None, None, None, None, None),
    (4, 0, float("nan"), Decimal("0.00"), "", "not json", date(2023, 12, 31),
     datetime(2023, 3, 26, 2, 30), datetime(2023, 3, 26, 2, 30), None, b"\x00\xff"),
    (5, 100000, float("inf"), Decimal("99999999.99"), "2024-05-06", "[1]", date(1582, 10, 15),
     datetime(2038, 1, 19, 3, 14, 7), datetime(2000, 2, 29, 12), True, b"abc"),
    (6, 12, 1e10, Decimal("7.50"), "a1b22 c333", '{"a": 1, "a2": "é"}', date(2024, 1, 31),
     datetime(2024, 1, 31, 0, 0), datetime(2024, 1, 31), False, "é".encode()),
]  # fmt: skip
MORE: list[Row] = [
    (7, 5, 3.0, Decimal("1.00"), "x,,y", '{"b": []}', date(2024, 3, 1), datetime(2024, 3, 1, 1),
     datetime(2024, 3, 1, 1), True, b"k"),
    ROWS[0],
    (8, 1, 0.1, Decimal("2.50"), "  pad\t", "{}", date(2100, 2, 28), datetime(2100, 2, 28, 5, 6, 7),
     datetime(2100, 2, 28), None, b"zz"),
]  # fmt: skip

EXPRESSIONS = r"""
-- arrays, maps and structs inside of one expression
split(s, ',')[0]; size(split(s, ',')); array_contains(split(s, ','), 'b'); element_at(map('a', n, 'b', n * 2), 'a')
element_at(split(s, ','), -1); try_element_at(split(s, ','), 2); array_join(array_sort(split(s, '')), '|')
array_max(array(n, 3, id)); cardinality(array_distinct(split(s, ''))); concat_ws('-', split(s, ','), 'z')
array_join(reverse(split(s, ',')), ','); get(split(s, ','), n); array_position(split(s, ','), 'c'); map_keys(str_to_map(s, ',', 'b'))[0]
array_join(sequence(1, 3), ','); size(sequence(d, d + INTERVAL 3 DAYS)); array_join(slice(split(s, ''), 1, 2), '')
named_struct('a', n, 'b', s).b; struct(n, s).s; struct(n AS k, 1).k; map_contains_key(map(id, s), 1L); size(map(1, 2, 3, 4))
array_join(array_union(split(s, ','), array('q')), ','); arrays_overlap(split(s, ','), array('b', 'q')); split(s, ',') = array('a', 'b', 'c')
-- lambdas
array_join(transform(split(s, ','), x -> upper(x)), ','); size(filter(split(s, ''), c -> c > 'a')); exists(split(s, ','), x -> x = 'b')
forall(split(s, ','), x -> length(x) < 3); aggregate(sequence(1, 4), 0, (acc, x) -> acc + x * n, acc -> acc * 10L)
reduce(array(1, 2, 3), CAST(0 AS BIGINT), (a, x) -> a + x + id); array_join(zip_with(split(s, ','), split(s, 'b'), (x, y) -> concat(x, y)), '/')
array_join(transform(array(1, 2), (x, i) -> x + i * n), ','); map_values(map_filter(map('a', n, 'b', 5), (k, v) -> v > 1))[0]
array_join(transform(split(s, ','), b0 -> concat(b0, s)), '+'); to_json(transform(split(s, ','), k1 -> struct(k1, n)))
array_join(transform(split(s, ','), X -> lower(x)), ''); to_json(transform_values(map('a', n), (k, v) -> v + length(k)))
array_join(array_sort(split(s, ','), (l, r) -> CASE WHEN l > r THEN -1 WHEN l < r THEN 1 ELSE 0 END), ',')
-- JSON, CSV, XML
get_json_object(j, '$.a'); get_json_object(j, '$.c.d'); from_json(j, 'a INT, b ARRAY<INT>').a; get(from_json(j, 'b ARRAY<INT>').b, 1)
to_json(named_struct('A', n, 'b', s)); to_json(struct(n, s)); to_json(map(id, n)); json_array_length(get_json_object(j, '$.b')); get(json_object_keys(j), 0)
from_json(j, 'c STRUCT<d: STRING>').c.d; to_json(from_json(j, 'MAP<STRING, STRING>')); from_csv(s, 'p STRING, q STRING').q; to_csv(struct(n, s))
schema_of_json('{"a": 1}'); try_parse_json(j) IS NULL; try_variant_get(try_parse_json(j), '$.a', 'int'); xpath_string('<a><b>x</b></a>', 'a/b')
-- text
regexp_extract(s, '([a-z]+)(\\d+)', 2); regexp_replace(s, '[aeiou]', '{}'); regexp_replace(s, r'\d+', '#'); regexp_count(s, '[a-z]'); regexp_substr(s, '\\d+')
s RLIKE '^a'; s NOT RLIKE '\\d'; regexp_like(s, 'b'); s LIKE ANY ('a%', '%x'); s NOT LIKE ALL ('a%', '%x'); s LIKE ALL ('a%', '%c'); s ILIKE 'A%'
split_part(s, ',', 2); substring_index(s, ',', 2); translate(s, 'abc', 'xyz'); initcap(s); lpad(s, 8, '*'); rpad(s, 3); ascii(s); char(n % 256); chr(65)
soundex(s); levenshtein(s, 'abc'); format_string('%05d|%s', n, s); format_number(m, 1); printf('%s!', s); concat_ws(',', s, NULL, 'e'); btrim(s); trim(BOTH 'a' FROM s)
overlay(s PLACING '__' FROM 2 FOR 1); position('b' IN s); locate('b', s, 3); find_in_set('b', s); base64(b); unbase64(base64(b)); hex(n); hex(s); unhex(hex(s))
encode(s, 'UTF-8'); decode(b, 'ISO-8859-1'); decode(n, 3, 'three', 0, 'zero', 'other'); bit_length(s); octet_length(s); char_length(s); url_encode(s); url_decode(url_encode(s))
parse_url('http://example.com/p?q=1', 'QUERY', 'q'); mask(s); elt(2, s, 'second'); quote(s); replace(s, 'a'); space(2) || s; to_char(m, '999999999.99'); to_number('1,234', '9,999'); get(get(sentences(s), 0), 0)
s || '{x}'; left(b, 1); concat(b, b); substr(b, 1, 1); lower(md5(s)); md5(b); sha1(s); sha2(s, 256); crc32(s); hash(s, n); xxhash64(s, n, d); contains(b, b); luhn_check('79927398713'); is_valid_utf8(s); collate(s, 'UTF8_LCASE') = 'A,B,C'
-- numbers
bround(m, 1); round(m, -1); ceil(m, 1); floor(x, 1) IS NULL; exp(n / 100); ln(abs(n) + 1); log(2, abs(n) + 1); log10(100); log2(8); cbrt(x); sin(x); atan2(x, 1); hypot(3, n); degrees(x); pi(); e()
pmod(n, 5); positive(n); n & 6; n | 1; n ^ 3; ~n; shiftleft(n, 2); shiftright(n, 1); shiftrightunsigned(n, 1); n << 1; n >> 1; bit_count(n); getbit(n, 1); conv(s, 16, 10) IS NULL; bin(n); factorial(5)
try_add(n, 2147483647); try_subtract(n, 1); try_multiply(n, 1000000); try_divide(id, n); try_mod(id, n); width_bucket(x, 0, 10, 5); isnan(x); nanvl(x, 0); nvl(n, 0); nvl2(n, 1, 2); ifnull(n, id); nullifzero(n); zeroifnull(n)
greatest(n, id, 3); least(m, 1.5); rint(x); signum(x); try_to_number(s, '9999'); typeof(m); unhex('4A'); n BETWEEN 1 AND 5; n IN (1, 3, NULL); n::STRING; CAST(x AS STRING); TRY_CAST(s AS DATE)
-- dates and times
d + INTERVAL 3 DAYS; d - INTERVAL '1' MONTH; d + INTERVAL '2-3' YEAR TO MONTH; ts - INTERVAL 1 HOUR; ts + INTERVAL '1 02:03:04' DAY TO SECOND; tn + INTERVAL 90 MINUTES; d + INTERVAL 5 HOURS; d - 1
date_trunc('month', ts); date_trunc('HOUR', tn); date_trunc('quarter', d); trunc(d, 'week'); date_format(ts, 'yyyy-MM-dd HH:mm'); date_format(d, 'E'); months_between(d, DATE'2024-01-01'); months_between(ts, tn, false)
unix_timestamp(ts); unix_timestamp('2024-01-02', 'yyyy-MM-dd'); from_unixtime(n); to_unix_timestamp(ts); unix_date(d); unix_micros(ts); unix_seconds(ts); to_date('2024/01/02', 'yyyy/MM/dd'); to_date(ts); to_timestamp('2024-01-02 03:04:05'); try_to_timestamp(s); try_to_date(s, 'yyyy-MM-dd')
make_date(2024, 2, abs(n) % 28 + 1); make_timestamp(2024, 1, 2, 3, 4, 5.678); make_timestamp_ntz(2024, 1, 2, 3, 4, 5); timestamp_seconds(n); timestamp_millis(id); date_from_unix_date(n % 1000); extract(DOW FROM d); extract(YEAROFWEEK FROM d); extract(SECOND FROM ts); date_part('minute', ts); dayname(d); monthname(d); weekday(d)
next_day(d, 'MON'); date_diff(d, DATE'2024-01-01'); timestampdiff(HOUR, ts, tn); timestampadd(DAY, n % 100, ts); dateadd(MONTH, 1, ts); datediff(DAY, ts, tn); dateadd(d, 1); extract(DAY FROM ts - TIMESTAMP'2024-01-01 00:00:00'); (d - DATE'2024-01-01') > INTERVAL 1 DAY; ts - tn > INTERVAL '10' DAY
from_utc_timestamp(ts, 'Asia/Tokyo'); to_utc_timestamp(tn, 'Europe/Berlin'); convert_timezone('UTC', 'America/New_York', tn); CAST(ts AS DATE); CAST(ts AS TIMESTAMP_NTZ); CAST(tn AS TIMESTAMP); CAST(d AS TIMESTAMP_NTZ); ts = tn; ts > '2024-01-01'; d = ts; make_dt_interval(1, n % 20) > INTERVAL '1' DAY; date_format(ts, 'EEEE') = 'Monday'; hour(tn); CAST(INTERVAL '1' DAY AS STRING); last_day(ts); TIMESTAMP'2024-01-01 00:00:00+02:00' > ts
-- conditions
n IS DISTINCT FROM 3; n IS NOT DISTINCT FROM NULL; f IS TRUE; f IS NOT FALSE; f AND n > 1; NOT f; !f; s == 'a'; s <> ''; isnull(n); isnotnull(n); equal_null(n, id); CASE WHEN size(split(s, ',')) > 1 THEN md5(s) ELSE upper(s) END; coalesce(try_to_date(s, 'yyyy-MM-dd'), d); if(f, split(s, ',')[0], hex(n)); nullif(md5(s), md5(''))
"""  # fmt: skip


def expressions() -> list[str]:
    lines = [x for x in EXPRESSIONS.strip().splitlines() if not x.startswith("--")]
    return [e.strip() for line in lines for e in line.split(";") if e.strip()]


def batches(size: int) -> list[list[str]]:
    every = expressions()
    return [every[i : i + size] for i in range(0, len(every), size)]


def table(rows: Iterable[Row], weight: int | None = None) -> pa.Table:
    """The rows as Arrow, with `_w` where a weight is given; TIMESTAMP is an instant, here in UTC."""
    types = [
        pa.int64(),
        pa.int32(),
        pa.float64(),
        pa.decimal128(10, 2),
        pa.string(),
        pa.string(),
        pa.date32(),
    ]
    types += [pa.timestamp("us", tz="UTC"), pa.timestamp("us"), pa.bool_(), pa.binary()]
    names = [c.split()[0] for c in SCHEMA.replace("(10,2)", "").split(",")]
    columns = list(zip(*rows, strict=True))
    made = pa.table({n: pa.array(c, t) for n, c, t in zip(names, columns, types, strict=True)})
    if weight is not None:
        made = made.append_column("_w", pa.array([weight] * made.num_rows, pa.int64()))
    return made


def counted(found: pa.Table) -> Counter[str]:
    """Rows as a multiset of their texts, in which NaN is NaN."""
    return Counter(repr(tuple(r.values())) for r in found.to_pylist())


@pytest.fixture(scope="module")
def spark() -> Any:
    return session()


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db", spark) as made:
        made.source("t", SCHEMA)
        yield made


def check(db: hw.Database, spark: Any, rows: list[Row], queries: dict[str, str]) -> None:
    """Every view is what Spark answers to its query over the rows, with the same types."""
    spark.createDataFrame(table(rows), SCHEMA).createOrReplaceTempView("t")
    for name, query in queries.items():
        expected = spark.sql(query)
        expected.createOrReplaceTempView(name)
        found = db[name].snapshot()
        assert found.schema.simpleString() == expected.schema.simpleString(), name
        a, b = counted(found.toArrow()), counted(expected.toArrow())
        assert a == b, f"{name}: {a - b} but {b - a}"


def through_increments(db: hw.Database, spark: Any, queries: dict[str, str]) -> None:
    """Views defined over some rows are checked after more rows, and after fewer."""
    db.apply({"t": table(ROWS)})
    for name, query in queries.items():
        db.view(name, query)
    db.apply({"t": table(MORE)})
    check(db, spark, [*ROWS, *MORE], queries)
    db.apply({"t": table([ROWS[0], ROWS[1], MORE[0]], -1)})
    check(db, spark, [*ROWS[2:], ROWS[0], MORE[2]], queries)


@pytest.mark.parametrize("part", range(len(batches(70))))
def test_selected(db: hw.Database, spark: Any, part: int) -> None:
    some = batches(70)[part]
    listed = ", ".join(f"{e} AS v{i}" for i, e in enumerate(some))
    through_increments(db, spark, {"v": f"SELECT id, {listed} FROM t"})


def test_anywhere_in_a_query(db: hw.Database, spark: Any) -> None:
    """In WHERE, GROUP BY, HAVING, join conditions, inside and around aggregates, in subqueries and over views."""
    queries = {
        "filtered": "SELECT id, s FROM t WHERE s RLIKE '^[a-z]' AND size(split(s, ',')) > 1",
        "either": "SELECT id FROM t WHERE exists(split(s, ','), x -> x = 'b') OR dayname(d) = 'Thu'",
        "grouped": "SELECT date_trunc('month', ts) AS m, count(*) AS n, sum(size(split(s, ','))) AS k"
        " FROM t GROUP BY DATE_TRUNC( 'month', ts)",
        "by_alias": "SELECT md5(s) AS h, avg(n) AS a FROM t GROUP BY h",
        "having": "SELECT d, max(n) AS x FROM t GROUP BY d HAVING bit_count(max(n)) > 1",
        "around": "SELECT f, format_number(sum(m), 2) AS total, hex(count(*)) AS n FROM t GROUP BY f",
        "one_row": "SELECT concat_ws('/', min(s), max(s), hex(count(DISTINCT md5(s)))) AS v FROM t",
        "joined": "SELECT a.id, b.id AS other FROM t a JOIN t b"
        " ON split(a.s, ',')[0] = split(b.s, ',')[0] AND a.id < b.id",
        "days": "SELECT a.id, b.id AS other FROM t a JOIN t b"
        " ON date_trunc('year', a.ts) = date_trunc('year', b.tn) WHERE a.id <> b.id",
        "subquery": "SELECT id, hex((SELECT max(n) FROM t)) AS v FROM t",
        "distinct_": "SELECT DISTINCT crc32(s) AS c, d + INTERVAL 1 MONTH AS d FROM t",
        "unions": "SELECT md5(s) AS v FROM t UNION ALL SELECT sha1(s) FROM t WHERE id > 2",
        "struct_field": "SELECT id, p.a AS a FROM (SELECT id, from_json(j, 'a INT, b ARRAY<INT>') AS p FROM t)",
        "records": "SELECT id, from_json(j, 'a INT, z STRING') AS p FROM t",
        "lists": "SELECT id, split(s, ',') AS p, array(n, id) AS q, array(struct(n, s)) AS r FROM t",
        "by_list": "SELECT split(s, '') AS p, count(*) AS n FROM t GROUP BY split(s, '')",
        "of_lists": "SELECT id, p[0] AS a, size(p) AS n FROM (SELECT id, split(s, ',') AS p FROM t WHERE s > '')",
        "distinct_lists": "SELECT DISTINCT transform(split(s, ','), x -> upper(x)) AS p FROM t",
        "joined_lists": "SELECT a.id, b.id AS other FROM t a JOIN t b ON split(a.s, ',') = split(b.s, ',')",
        "over_view": "SELECT id, array_join(p, '|') AS p, q[1] AS q, r[0].s AS r FROM lists",
        "filtered_sum": "SELECT f, sum(n) FILTER (WHERE s LIKE ANY ('a%', '%c')) AS v FROM t GROUP BY f",
    }
    through_increments(db, spark, queries)


def test_another_time_zone(tmp_path: Path, spark: Any) -> None:
    """Text is an instant in the zone of the session that the database was made with."""
    there = spark.newSession()
    there.conf.set("spark.sql.session.timeZone", "America/New_York")
    query = (
        "SELECT id, ts > TIMESTAMP'2024-02-29 09:00:00' AS a, ts < '2024-02-29 08:20' AS b, hour(ts) AS h,"
        " date_trunc('day', ts) AS t, CAST(ts AS STRING) AS s, ts >= DATE'2024-02-29' AS d,"
        " date_format(tn, 'HH') AS n, to_timestamp('2024-01-02 03:04:05') AS c FROM t"
    )
    with hw.open(tmp_path / "db", there) as db:
        db.source("t", SCHEMA)
        db.view("v", query)
        db.apply({"t": table(ROWS)})
        check(db, there, ROWS, {"v": query})


def test_names_are_kept(tmp_path: Path, spark: Any) -> None:
    """A view is the same after the database is opened again, and its braces and quotes are."""
    query = (
        "SELECT id, concat(s, '{0}`', md5(\"it's\")) AS v, get(split(s, '[{,}]'), 0) AS w FROM t"
    )
    with hw.open(tmp_path / "db", spark) as db:
        db.source("t", SCHEMA)
        db.view("v", query)
        db.apply({"t": table(ROWS)})
    with hw.open(tmp_path / "db", spark) as db:
        db.view("v", query)
        assert not db.ask.told, "what is known is not asked again"
        db.view("over", "SELECT v, count(*) AS n FROM v GROUP BY v")
        db.view("twice", "SELECT md5(v) AS h, n FROM over")
        db.apply({"t": table(MORE)})
        check(db, spark, [*ROWS, *MORE], {"v": query})
        db.verify()


def test_in_tasks(db: hw.Database, spark: Any) -> None:
    """The same where changes are carried through by tasks of Spark."""
    db.policy.execution = "spark"
    queries = {
        "flat": "SELECT id, split(s, ',') AS p, md5(s) AS h, hour(tn) AS k FROM t WHERE s RLIKE '[a-z]'",
        "grouped": "SELECT split(s, ',') AS p, count(*) AS n, max(tn) AS m FROM t GROUP BY 1",
        "joined": "SELECT a.id, b.id AS o FROM t a JOIN t b ON split(a.s, ',')[0] = split(b.s, ',')[0]",
    }
    for name, query in queries.items():
        db.view(name, query)
    db.apply({"t": table([*ROWS, *MORE])})
    db.apply({"t": table([ROWS[0], MORE[0]], -1)})
    check(db, spark, [*ROWS[1:], ROWS[0], MORE[2]], queries)
    db.verify()


@hw.function(returns="STRING")
def shouted_for_spark_functions(text: str | None) -> str | None:
    return None if text is None else text.upper() + "!"


def test_functions_of_ours_and_of_the_session(db: hw.Database, spark: Any) -> None:
    """A registered function may stand inside of what Spark evaluates; one of the session is refused."""
    db.view("v", "SELECT id, md5(shouted_for_spark_functions(s)) AS h FROM t")
    db.apply({"t": table(ROWS)})
    spark.createDataFrame(table(ROWS)).createOrReplaceTempView("t")
    expected = spark.sql(
        "SELECT id, md5(concat(upper(s), '!')) AS h FROM t WHERE s NOT LIKE '%ß%'"
    ).toArrow()
    found = db["v"].snapshot().where("id <> 2").toArrow()
    assert counted(expected) <= counted(found)
    spark.udf.register("only_in_the_session", lambda x: x, "string")
    try:
        with pytest.raises(NotIncremental, match="USER_FUNCTION") as error:
            db.view("w", "SELECT hex(only_in_the_session(s)) AS x FROM t")
    finally:
        spark.sql("DROP TEMPORARY FUNCTION only_in_the_session")
    assert "headwater.function" in str(error.value)


def test_an_error_of_the_data_loses_nothing(db: hw.Database, spark: Any) -> None:
    """A row for which Spark raises is an error of `apply`; the row can be left out, and all goes on."""
    query = "SELECT id, split(s, ',')[2] AS v FROM t WHERE s LIKE '%,%'"
    db.view("v", query)
    db.apply({"t": table(ROWS)})
    version = db.version
    bad = ("p,q", *[None] * 6)
    with pytest.raises(EngineError, match="INVALID_ARRAY_INDEX"):
        db.apply({"t": table([(9, 1, 1.0, None, *bad)])})
    assert db.version == version
    db.apply({"t": table(MORE)})
    check(db, spark, [*ROWS, *MORE], {"v": query})


REFUSED = (
    (NotIncremental, "NON_DETERMINISTIC", "shuffle(split(s, ','))[0]"),
    (NotIncremental, "NON_DETERMINISTIC", "aes_encrypt(s, '0000111122223333')"),
    (NotIncremental, "TIME_OF_DAY", "date_format(now(), 'yyyy')"),
    (NotIncremental, "TIME_OF_DAY", "months_between(current_date, d)"),
    (NotIncremental, "TIME_OF_DAY", "unix_timestamp()"),
    (NotIncremental, "TIME_OF_DAY", "dayname(DATE 'today')"),
    (NotIncremental, "SESSION", "md5(current_user())"),
    (NotIncremental, "SESSION", "hex(version())"),
    (NotIncremental, "SIDE_EFFECT", "coalesce(split(s, ',')[0], raise_error('none'))"),
    (NotIncremental, "SIDE_EFFECT", "reflect('java.util.UUID', 'randomUUID')"),
    (NotIncremental, "TIME_WINDOW", "session_window(ts, '1 hour').start"),
    (NotIncremental, "NESTED", "map(s, n)"),
    (NotIncremental, "NESTED", "d - DATE'2024-01-01'"),
    (NotIncremental, "NESTED", "s COLLATE UTF8_LCASE"),
    (QueryError, "is no scalar", "kll_sketch_agg_bigint(n)"),
    (QueryError, "is no scalar", "hex(stack(2, 1, 2))"),
    (UnknownName, "the function `nosuch` is not known", "hex(nosuch(n))"),
    (UnknownName, "unknown column `nocol`", "transform(split(s, ','), x -> x || nocol)[0]"),
    (TypeMismatch, 'however "s" has the type "STRING"', "array_join(s, ',')"),
    (TypeMismatch, "cannot be computed", "upper(split(s, ','))"),
)


@pytest.mark.parametrize(("kind", "says", "expression"), REFUSED, ids=[e for _, _, e in REFUSED])
def test_refused(shared: hw.Database, kind: type[Exception], says: str, expression: str) -> None:
    with pytest.raises(kind, match=re.escape(says)) as error:
        shared.view("v", f"SELECT {expression} AS x FROM t")
    assert type(error.value) is kind and error.value.span is not None  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: Any, spark: Any) -> Iterator[hw.Database]:
    with hw.open(tmp_path_factory.mktemp("refused") / "db", spark) as made:
        made.source("t", f"{SCHEMA}, bags ARRAY<STRING>")
        yield made
