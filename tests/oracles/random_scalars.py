"""Values for scalars, drawn with their edges: one generator for each column of a table."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from headwater.calculus import types as ty
from headwater.interop.arrow_types import arrow_type

Draw = Callable[[random.Random], Any]
EPOCH = datetime(1970, 1, 1)


def some(edges: tuple[Any, ...], *draws: Draw) -> Draw:
    """An edge in one of four cases, else what one of the others draws."""
    return lambda r: r.choice(edges) if edges and r.random() < 0.25 else r.choice(draws)(r)


def whole(bits: int) -> Draw:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    edges = (0, 1, -1, low, high, low + 1, 5, -5, 15, 25, 24, -25, 100)
    return some(edges, lambda r: r.randint(low, high), lambda r: r.randint(-100, 100))


def _places(r: random.Random) -> float:
    """A number with a few places, as prices have them, often a half of the last one."""
    n = r.randint(0, 6)
    return float(f"{r.choice('+-')}{r.randint(0, 10 ** r.randint(1, 9))}e-{n}")


def _half(r: random.Random) -> float:
    return float(
        f"{r.choice('+-')}{r.randint(0, 10 ** r.randint(0, 6))}{r.choice('5')}e-{r.randint(1, 5)}"
    )


def _bits(r: random.Random) -> float:
    value: float = struct.unpack("d", struct.pack("Q", r.getrandbits(64)))[0]
    return value


inf, nan = float("inf"), float("nan")
doubles = some(
    (
        *(0.0, -0.0, 0.5, -0.5, 1.5, 2.5, 1.005, 2.675, 0.285, 1e308, -1e308, 5e-324, inf, -inf),
        *(nan, 0.1, 1e7, 9999999.5, 1e-3, 9.99e-4, 2.0**31, 2.0**63, -(2.0**63), 2.0**53, 1e23),
        *(127.9, -128.9, 2147483647.5, 0.49999999999999994, 4503599627370497.5, -0.3),
    ),
    _places,
    _half,
    lambda r: r.uniform(-1000, 1000),
    lambda r: 10 ** r.uniform(-5, 14) * r.choice((1, -1)),
    _bits,
)
floats = some(
    (0.0, -0.0, 0.5, inf, nan), lambda r: struct.unpack("f", struct.pack("f", _places(r)))[0]
)


def numbers(precision: int, scale: int) -> Draw:
    most = 10**precision - 1

    def draw(r: random.Random) -> Decimal:
        digits = r.choice((r.randint(0, most), r.randint(0, min(most, 10**5)), most, 0, 5, 50, 25))
        sign = r.choice("+-")
        return Decimal(f"{sign if digits else ''}{min(digits, most)}e-{scale}")

    return draw


WORDS = (
    *("", "a", "abc", "Abc", "a,b,,c", "ABC def", " a ", "  a", "a  ", "\t a\n", "héllo", "Straße"),
    *(
        "ÀÉÎ",
        "ŸÆ",
        "Ελλάδα",
        "ΣΑΣ",
        "Привет",
        "日本語",
        "\U0001f600a",
        "ﬁn",
        "İstanbul",
        "ıI",
        "a\u0301",
    ),
    *(
        "%a_b",
        "a%c",
        "$x",
        "'\\",
        "a.b.c",
        "x|y|z",
        "foo123bar",
        "2024-01-02",
        "key=value",
        "\u00a0b",
    ),
    *("aaa", "banana", "a\nb", "\x00z", "ǆ", "ß", "ά", "ԱԲ", "ა", "Ǆ", "ꭰ"),
)


def _word(r: random.Random) -> str:
    letters = r.choice(("abcXYZ 019", "aAbB.,-_", "éÀßñ ab", "кириЛлЖ", "日本ab", "01"))
    return "".join(r.choice(letters) for _ in range(r.randint(0, 12)))


texts = some(WORDS, _word)
number_texts = some(
    (
        *(
            "",
            " ",
            "1",
            " 12 ",
            "+5",
            "-7",
            "1.5",
            ".5",
            "5.",
            "1e3",
            "1E-2",
            "x",
            "1_0",
            "0x1",
            "NaN",
        ),
        *("inf", "-Infinity", "1.5d", "300", "99999999999", "9223372036854775807", "--1", "1 2"),
        *(
            "9223372036854775808",
            "٣",
            "\t8\n",
            "-0",
            "0.005",
            "true",
            "Yes",
            "n",
            "f",
            "TRUE ",
            "1e400",
        ),
        *("0.1234567890123456789", "123456789012345678901234567890", "+.5", "1e", "-", "+"),
    ),
    lambda r: str(r.randint(-(10 ** r.randint(1, 12)), 10**9)),
    lambda r: repr(_places(r)),
    lambda r: f"{r.randint(0, 99999)}.{r.randint(0, 999999):0{r.randint(1, 8)}}",
)


def days(first: date, last: date) -> Draw:
    span = (last - first).days
    return lambda r: first + timedelta(days=r.randint(0, span))


dates = some(
    tuple(
        map(
            date.fromisoformat,
            (
                *(
                    "0001-01-01",
                    "0001-01-08",
                    "9999-12-31",
                    "9999-01-01",
                    "1970-01-01",
                    "1969-12-31",
                ),
                *(
                    "2024-02-29",
                    "2023-02-28",
                    "1900-02-28",
                    "1900-03-01",
                    "1582-10-04",
                    "1582-10-15",
                ),
                *(
                    "2021-01-03",
                    "2020-12-31",
                    "2018-12-31",
                    "2000-01-31",
                    "2100-02-28",
                    "0004-02-29",
                ),
            ),
        )
    ),
    days(date(1, 1, 1), date(9999, 12, 31)),
    days(date(1950, 1, 1), date(2050, 1, 1)),
)


def moments(first: datetime, last: datetime) -> Draw:
    span = (last - first) // timedelta(microseconds=1)

    def draw(r: random.Random) -> datetime:
        t = first + timedelta(microseconds=r.randint(0, span))
        return t.replace(microsecond=r.choice((0, t.microsecond, t.microsecond // 1000 * 1000)))

    return draw


times = some(
    tuple(
        map(
            datetime.fromisoformat,
            (
                *("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "1970-01-01 00:00:00"),
                *(
                    "1969-12-31 23:59:59.999999",
                    "2024-02-29 12:00:00.100000",
                    "1582-10-10 01:02:03",
                ),
                *("2024-12-31 23:59:59", "1883-11-18 12:03:57.5", "2038-01-19 03:14:07.000001"),
            ),
        )
    ),
    moments(datetime(1, 1, 1), datetime(9999, 12, 31)),
    moments(datetime(1960, 1, 1), datetime(2040, 1, 1)),
)


def times_around(zone: str) -> Draw:
    """Instants of a zone, many of them near the hours at which its clocks are set."""
    rules, hour = ZoneInfo(zone), timedelta(hours=1)
    at, found = datetime(1970, 1, 2), []
    while at < datetime(2037, 11, 1):
        near, far = (
            t.replace(tzinfo=UTC).astimezone(rules).utcoffset() for t in (at, at + 24 * hour)
        )
        if near != far:
            found += [at + i * hour for i in range(-2, 27)]
        at += 24 * hour

    def near(r: random.Random) -> datetime:
        return r.choice(found or [EPOCH]) + timedelta(microseconds=r.randint(0, 3_600_000_000))

    rest = moments(datetime(1971, 6, 1), datetime(2036, 6, 1))
    return some((), near, near, rest) if found else rest


def _odd(r: random.Random) -> str:
    text = str(r.choice((dates, times))(r))
    return r.choice(
        (f" {text} ", text[:-1], text + "Z", text.replace("-", "/"), text + "5", text[:7])
    )


date_texts = some(
    (
        *(
            "2024-01-02",
            "2024-02-30",
            "2023-02-29",
            "0000-01-01",
            "0001-01-01",
            "9999-12-31",
            "2024",
        ),
        *(
            "2024-1-2",
            "20240102",
            "x",
            "",
            "2024-01-02T03:04",
            "2024-01-02 25:00:00",
            "10000-01-01",
        ),
        *("2024-01-02 03:04:05.123456789", "2024-01-02 03:04:60", "2024-13-01", "2024-01-02 03"),
        *("2024-01-02 3:4:5", "2024-01-02T03:04:05.1", "2024-01-02 03:04:05+01:00", "-2024-01-02"),
    ),
    lambda r: dates(r).isoformat(),
    lambda r: times(r).isoformat(sep=r.choice(" T")),
    lambda r: times(r).replace(microsecond=0).isoformat(sep=" "),
    _odd,
)


def _json(r: random.Random, depth: int = 0) -> str:
    """JSON text, now and then with spaces, numbers of all kinds, escapes, and something broken."""
    space = r.choice(("", "", " "))
    kind = r.random()
    if depth < 3 and kind < (1.0 if depth == 0 else 0.45):
        if r.random() < 0.7:
            names = r.sample(("a", "b", "c", "d e", "é"), r.randint(0, 4))
            names += r.choices(names, k=1) if names and r.random() < 0.03 else []
            inside = ",".join(f'{space}"{n}":{space}{_json(r, depth + 1)}' for n in names)
            return f"{{{inside}{space}}}"
        return f"[{','.join(_json(r, depth + 1) for _ in range(r.randint(0, 4)))}{space}]"
    words = ('"x"', '""', '"null"', '"a b"', r'"a\"b"', r'"\u00e9\n"', '"日本"', r'"\/"', '"{}"')
    plain = ("null", "true", "false", "0", "-1", "12345678901234567890123", "-0", "1.5", "1.0")
    odd = ("1e3", "1.10", "01", "NaN", "'x'", "x", '"', "1E400", "tru")
    return r.choice(
        r.choice((words, plain, (str(r.randint(-(10**6), 10**6)),), plain[:3], odd[:2]))
    )


json_texts = some(
    (
        *("", " ", "null", "1", '"a"', "{", "{}", "[]", '{"a":1}', '{"a":null}', "[null,1]", "x"),
        *('{"a":1} x', '{"a":1,"a":2}', "{'a':1}", '{"a":[1,null,"b"]}', '{"a":{"b":[]}}', "[[1]]"),
        *('{"a":NaN}', '{"a":01}', '{"a":"b', ' {"a" : "x"} ', '{"a":1,}', '[{"b":1},{"b":2}]'),
        *('{"a":[{"b":1},{"b":2}]}', '{"a":"tab\there"}', r'{"a":"\ud83d\ude00"}', '{"A":1}'),
        *(r'{"a":{"b":"q\"t"}}', '{"a":{"b":1.50,"c":-0.0}}', '{"a":100000000000000000000}'),
    ),
    _json,
)

COLUMNS: dict[str, tuple[Any, Draw]] = {
    "y": (ty.TINYINT, whole(8)),
    "h": (ty.SMALLINT, whole(16)),
    "i": (ty.INTEGER, whole(32)),
    "l": (ty.BIGINT, whole(64)),
    "n": (ty.INTEGER, lambda r: r.randint(-40, 40)),
    "d": (ty.DOUBLE, doubles),
    "e": (ty.DOUBLE, doubles),
    "f": (ty.FLOAT, floats),
    "p": (ty.decimal(10, 2), numbers(10, 2)),
    "q": (ty.decimal(18, 6), numbers(18, 6)),
    "w": (ty.decimal(38, 10), numbers(38, 10)),
    "c": (ty.decimal(5, 0), numbers(5, 0)),
    "s": (ty.STRING, texts),
    "u": (ty.STRING, texts),
    "sn": (ty.STRING, number_texts),
    "sd": (ty.STRING, date_texts),
    "js": (ty.STRING, json_texts),
    "k": (ty.BOOLEAN, lambda r: r.random() < 0.5),
    "dt": (ty.DATE, dates),
    "dv": (ty.DATE, dates),
    "ts": (ty.TIMESTAMP, times),
    "tn": (ty.TIMESTAMP_NTZ, times),
}
ROW = ty.RecordType(tuple((n, t) for n, (t, _) in COLUMNS.items()))


def rows(count: int, seed: int = 1, **instead: Draw) -> list[tuple[Any, ...]]:
    """Rows of all columns, a tenth of the cells NULL."""
    r = random.Random(seed)
    draws = [instead.get(n, draw) for n, (_, draw) in COLUMNS.items()]
    return [tuple(None if r.random() < 0.1 else d(r) for d in draws) for _ in range(count)]


def table(drawn: list[tuple[Any, ...]]) -> pa.Table:
    """Rows in Arrow."""
    columns = list(zip(*drawn, strict=True))
    return pa.table(
        {n: pa.array(c, arrow_type(t)) for c, (n, t) in zip(columns, ROW.fields, strict=True)}
    )
