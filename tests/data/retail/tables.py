"""The tables of a retailer, small and unkind, and what happens to them.

`STORY` is a list of changes: the first load, three days of business, a day on which most rows go, and one on which all
the others do. A change has rows of several tables with weights; an update is a deletion and an insertion. Keys of
customers, products, orders, employees and payments are unique, so that queries can order rows without ties; other
tables have rows that repeat, and keys that are NULL or lead nowhere. Some doubles are NaN, infinite or -0.0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

Row = tuple[Any, ...]
Change = dict[str, list[tuple[Row, int]]]

SCHEMA: dict[str, str] = {
    "regions": "region_id INT, region STRING, country STRING",
    "customers": "cust_id BIGINT, name STRING, email STRING, region_id INT, joined DATE, vip BOOLEAN,"
    " credit DOUBLE, referrer BIGINT",
    "categories": "cat_id INT, parent_id INT, cat STRING",
    "suppliers": "supp_id INT, supplier STRING, country STRING, rating DOUBLE",
    "products": "prod_id BIGINT, title STRING, cat_id INT, supp_id INT, price DECIMAL(12,2), weight DOUBLE,"
    " active BOOLEAN, attrs STRING, launched DATE",
    "stores": "store_id INT, store STRING, region_id INT, opened DATE, area DOUBLE",
    "employees": "emp_id INT, name STRING, boss_id INT, store_id INT, salary DECIMAL(12,2), hired DATE",
    "orders": "order_id BIGINT, cust_id BIGINT, store_id INT, emp_id INT, day DATE, placed TIMESTAMP,"
    " status STRING, channel STRING",
    "order_lines": "order_id BIGINT, line INT, prod_id BIGINT, qty INT, price DECIMAL(12,2),"
    " discount DOUBLE",
    "payments": "pay_id BIGINT, order_id BIGINT, method STRING, amount DECIMAL(12,2), paid TIMESTAMP,"
    " fee DOUBLE",
    "returns": "order_id BIGINT, prod_id BIGINT, qty INT, day DATE, reason STRING",
    "visits": "cust_id BIGINT, at TIMESTAMP, page STRING, ms BIGINT, score DOUBLE",
    "stock": "store_id INT, prod_id BIGINT, day DATE, moved INT",
    "promotions": "promo_id INT, prod_id BIGINT, starts DATE, ends DATE, rate DOUBLE",
    "baskets": "basket_id BIGINT, cust_id BIGINT, tags ARRAY<STRING>,"
    " items ARRAY<STRUCT<prod: BIGINT, qty: INT>>, ship STRUCT<city: STRING, zip: STRING>",
}

TYPES: dict[str, pa.DataType] = {
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "DECIMAL(12,2)": pa.decimal128(12, 2),
    "DOUBLE": pa.float64(),
    "ARRAY<STRING>": pa.list_(pa.large_string()),
    "ARRAY<STRUCT<prod: BIGINT, qty: INT>>": pa.list_(
        pa.struct([("prod", pa.int64()), ("qty", pa.int32())])
    ),
    "STRUCT<city: STRING, zip: STRING>": pa.struct(
        [("city", pa.large_string()), ("zip", pa.large_string())]
    ),
}

NAN, INF = math.nan, math.inf


class Draw:
    """Choices that are the same on every machine."""

    def __init__(self, seed: int):
        self.random = Random(seed)

    def below(self, n: int) -> int:
        return int(self.random.random() * n)

    def of(self, options: Sequence[Any]) -> Any:
        return options[self.below(len(options))]

    def day(self, first: date, days: int) -> date:
        return first + timedelta(days=self.below(days))

    def money(self, most: int) -> Decimal:
        return Decimal(self.below(most * 100)).scaleb(-2)


def moment(day: date, minutes: int, seconds: int = 0) -> datetime:
    """A moment of a day."""
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return start + timedelta(minutes=minutes, seconds=seconds)


# --- rows ---------------------------------------------------------------------------------------------------------

FIRST = date(2023, 11, 1)
NAMES = (
    "ada lovelace",
    "Bo Li",
    "Cem Ünal",
    "dora van Dyk",
    "Eva  Ek",
    "Finn O'Hara",
    "gus",
    "Hana",
)
PAGES = ("home", "search", "product/7", "product/11", "cart", "checkout", "thanks")
ATTRS = (
    '{"color": "red", "size": 3, "tags": ["new", "eco"]}',
    '{"color": "blue", "size": null, "dims": {"w": 10, "h": 2.5}}',
    '{"color": "red", "size": 12}',
    '{"size": 7, "tags": []}',
    "not json",
    None,
)


def customer(d: Draw, key: int) -> Row:
    """A customer with a key."""
    name = d.of(NAMES)
    email = d.of(
        [None, f"{name.split()[0].lower()}{key}@shop.example.com", f"C{key}@Mail.example.org"]
    )
    return (
        key,
        name,
        email,
        d.of([1, 1, 2, 2, 3, 4, 9, None]),
        d.day(date(2022, 1, 1), 720) if d.below(9) else None,
        d.of([True, False, False, None]),
        d.of([0.0, -0.0, 12.5, 100.25, 250.0, NAN, None, 12.5]),
        d.of([None, None, 1, 2, 3, 5, 99]),
    )


def product(d: Draw, key: int) -> Row:
    """A product with a key."""
    words = ("Mug", "Lamp XL", "desk lamp", "Chair-2", "rug", "Pen (blue)", "Clock", "mug 0.5l")
    return (
        key,
        d.of(words),
        d.of([11, 11, 12, 21, 22, None, 77]),
        d.of([1, 2, 3, 4, None]),
        d.money(90) + 1,
        d.of([0.25, 0.5, 1.5, 2.0, -0.0, 0.0, NAN, None]),
        d.of([True, True, False, None]),
        d.of(ATTRS),
        d.day(date(2021, 1, 1), 900) if d.below(8) else None,
    )


def order(d: Draw, key: int, first: date, days: int) -> Row:
    """An order with a key, placed on one of the days."""
    day = d.day(first, days)
    return (
        key,
        d.of([1, 1, 1, 2, 2, 3, 4, 5, 6, 8, None, 42]),
        d.of([1, 1, 2, 3, None, 8]),
        d.of([1, 2, 3, 4, None]),
        day,
        moment(day, 480 + d.below(700), d.below(60)),
        d.of(["paid", "paid", "shipped", "open", "cancelled", None]),
        d.of(["web", "web", "shop", "phone"]),
    )


def lines(d: Draw, key: int) -> list[Row]:
    """The lines of an order."""
    return [
        (
            key,
            n,
            d.of([1, 2, 3, 4, 5, 7, 7, 8, 11, None]),
            d.of([1, 1, 2, 3, 5, None]),
            d.money(60) + 1,
            d.of([0.0, -0.0, 0.25, 0.5, None, 0.125]),
        )
        for n in range(1, 2 + d.below(3))
    ]


def payment(d: Draw, key: int, order_id: int | None, day: date) -> Row:
    """A payment with a key."""
    return (
        key,
        order_id,
        d.of(["card", "card", "cash", "gift", None]),
        d.money(120) - 5,
        moment(day, 600 + d.below(600), d.below(60)),
        d.of([0.0, 0.25, 1.5, None, 0.1]),
    )


def visit(d: Draw, first: date, days: int) -> Row:
    """A page that someone looked at; several in an hour, so that there are sessions."""
    return (
        d.of([1, 1, 1, 2, 2, 3, 5, None]),
        moment(d.day(first, days), 600 + 7 * d.below(14), 5 * d.below(12)),
        d.of(PAGES),
        d.of([0, 120, 950, 4000, 61000, None]),
        d.of([0.5, 0.75, 1.0, -1.25, -0.0, 0.0, NAN, None]),
    )


def basket(d: Draw, key: int) -> Row:
    """A basket with what it holds."""
    tags = d.of([["gift", "fast"], ["fast"], [], None, ["eco", None, "gift"], ["eco", "eco"]])
    items = [(d.of([1, 2, 3, 7, 7, None]), d.of([1, 2, 4, None])) for _ in range(d.below(4))]
    ship = d.of([("Oslo", "0150"), ("Bern", None), ("Oslo", "0151"), None])
    return (
        key,
        d.of([1, 2, 3, None]),
        None if tags is None else tuple(tags),
        d.of([tuple(items), tuple(items), None]),
        ship,
    )


def loaded(d: Draw) -> dict[str, list[Row]]:
    """The rows that are there at first."""
    orders = [order(d, k, FIRST, 110) for k in range(100, 136)]
    visits = [visit(d, FIRST, 4) for _ in range(44)]
    visits += [*visits[:3], (3, moment(FIRST, 601), "cart", 10, INF)]
    stock = [
        (
            d.of([1, 1, 2, 3, None]),
            d.of([1, 2, 3, 7]),
            d.day(FIRST, 40),
            d.of([20, 5, -3, -1, -7, None]),
        )
        for _ in range(36)
    ]
    returns = [
        (
            o[0],
            d.of([1, 2, 7, None]),
            d.of([1, 1, 2]),
            d.day(FIRST, 130),
            d.of(["broken", "late", None]),
        )
        for o in orders[::4]
    ]
    starts = [d.day(FIRST, 90) for _ in range(12)]
    return {
        "regions": [
            (1, "North", "NO"),
            (2, "South", "NO"),
            (3, "East", "CH"),
            (4, "West", None),
            (None, "Nowhere", "XX"),
        ],
        "customers": [customer(d, k) for k in range(1, 17)],
        "categories": [
            (1, None, "Home"),
            (2, None, "Office"),
            (11, 1, "Kitchen"),
            (12, 1, "Light"),
            (21, 2, "Paper"),
            (22, 2, None),
            (31, 3, "Lost"),
        ],
        "suppliers": [
            (1, "Acme", "NO", 4.5),
            (2, "Bolt & Co", "CH", NAN),
            (3, "acme", "NO", None),
            (4, "Zeta", None, 3.25),
            (5, "Idle", "SE", -0.0),
        ],
        "products": [product(d, k) for k in range(1, 13)],
        "stores": [
            (1, "Main St", 1, date(2015, 5, 1), 250.5),
            (2, "Harbour", 2, date(2018, 2, 28), 90.0),
            (3, "Station", 2, None, None),
            (4, "Closed", None, date(2020, 2, 29), 0.0),
        ],
        "employees": [
            (1, "Kim", None, 1, Decimal("5200.00"), date(2015, 5, 1)),
            (2, "Lee", 1, 1, Decimal("4100.50"), date(2019, 1, 15)),
            (3, "Max", 1, 2, Decimal("4100.50"), date(2020, 7, 1)),
            (4, "Noa", 3, 2, Decimal("3900.00"), date(2022, 3, 31)),
            (5, "Oli", 3, None, None, date(2023, 8, 1)),
            (6, "Pat", 77, 3, Decimal("3100.25"), None),
        ],
        "orders": orders,
        "order_lines": [line for o in orders[:-3] for line in lines(d, o[0])],
        "payments": [
            payment(d, 500 + i, d.of([o[0], o[0], o[0], None]), o[4])
            for i, o in enumerate(orders[::2])
        ]
        + [payment(d, 600 + i, o[0], o[4]) for i, o in enumerate(orders[::5])],
        "returns": [*returns, returns[0], (999, 1, 1, date(2024, 1, 9), "late")],
        "visits": visits,
        "stock": [*stock, stock[0], stock[1]],
        "promotions": [
            (
                i,
                d.of([1, 2, 3, 7, 11, None]),
                s,
                s + timedelta(days=3 + d.below(30)),
                d.of([0.1, 0.25, NAN, None]),
            )
            for i, s in enumerate(starts)
        ],
        "baskets": [basket(d, k) for k in range(1, 15)],
    }


# --- what happens -------------------------------------------------------------------------------------------------


class Shop:
    """The tables as they change; every step notes what it does as a change."""

    def __init__(self) -> None:
        self.d = Draw(20231101)
        self.rows: dict[str, Counter[Row]] = {n: Counter() for n in SCHEMA}
        self.story: list[Change] = []
        self.now: Change = {}

    def add(self, table: str, *rows: Row, times: int = 1) -> None:
        self.change(table, [(r, times) for r in rows])

    def drop(self, table: str, *rows: Row, times: int = 1) -> None:
        self.change(table, [(r, -times) for r in rows])

    def update(self, table: str, old: Row, **values: Any) -> None:
        """One row with other values."""
        names = [c.split()[0] for c in columns(SCHEMA[table])]
        new = tuple(values.get(n, v) for n, v in zip(names, old, strict=True))
        self.change(table, [(old, -1), (new, 1)])

    def change(self, table: str, rows: Iterable[tuple[Row, int]]) -> None:
        for row, n in rows:
            self.now.setdefault(table, []).append((row, n))
            self.rows[table][row] += n
            assert self.rows[table][row] >= 0, f"{table} has no {row}"

    def there(self, table: str) -> list[Row]:
        """The different rows of a table, in the order that they came in."""
        return [r for r, n in self.rows[table].items() if n > 0]

    def done(self) -> None:
        """Ends a change."""
        self.story.append(self.now)
        self.now = {}


def played() -> list[Change]:
    """All changes, in order."""
    shop = Shop()
    d = shop.d
    for table, rows in loaded(d).items():
        shop.add(table, *rows)
    shop.done()

    # Business: orders come with lines and payments, customers and a price change, goods go back.
    news = [order(d, k, date(2024, 2, 20), 20) for k in range(136, 143)]
    for i, o in enumerate(news):
        shop.add("orders", o)
        shop.add("order_lines", *lines(d, o[0]))
        shop.add("payments", payment(d, 700 + i, o[0], o[4]))
    shop.add("visits", *(visit(d, FIRST + timedelta(days=3), 3) for _ in range(8)))
    for c in shop.there("customers")[:3]:
        shop.update("customers", c, region_id=d.of([1, 2, None]), credit=d.of([NAN, 1.5, -0.0]))
    shop.update("products", shop.there("products")[6], price=Decimal("3.75"), weight=0.75)
    shop.drop("returns", *shop.there("returns")[1:3])
    shop.add("stock", (1, 7, FIRST + timedelta(days=50), -4), (2, 7, FIRST + timedelta(days=50), 9))
    shop.add("baskets", basket(d, 15), basket(d, 16))
    shop.done()

    # The tables that others refer to change: names, parents, and rows that go while others lead to them.
    shop.update("regions", (2, "South", "NO"), region="Deep South")
    shop.update("categories", (12, 1, "Light"), parent_id=2)
    shop.add("categories", (77, 2, "Odd"))
    shop.drop("stores", (3, "Station", 2, None, None))
    shop.update("suppliers", (2, "Bolt & Co", "CH", NAN), rating=2.0)
    shop.update("suppliers", (4, "Zeta", None, 3.25), rating=NAN)
    shop.drop("products", shop.there("products")[2])
    shop.add("customers", customer(d, 42), customer(d, 17))
    shop.update("employees", shop.there("employees")[3], boss_id=1, salary=Decimal("4100.50"))
    for p in shop.there("promotions")[:4]:
        shop.update("promotions", p, ends=p[3] + timedelta(days=10))
    shop.add("promotions", (50, 7, date(2024, 2, 1), date(2024, 3, 1), 0.5))
    shop.add("visits", (None, moment(FIRST, 700), "home", None, None), times=2)
    shop.add("returns", (None, 7, 1, date(2024, 2, 2), "late"), times=2)
    shop.done()

    # Second thoughts: orders are cancelled or go and leave lines behind, and odd numbers go.
    for o in shop.there("orders")[5:12]:
        shop.update("orders", o, status="cancelled")
    shop.drop("orders", *shop.there("orders")[20:24])
    shop.drop("order_lines", *shop.there("order_lines")[3:10])
    shop.drop("visits", (3, moment(FIRST, 601), "cart", 10, INF), *shop.there("visits")[:2])
    shop.drop("customers", shop.there("customers")[4])
    shop.drop("baskets", *shop.there("baskets")[2:5])
    shop.add("baskets", basket(d, 17), basket(d, 18))
    for b in shop.there("baskets")[:2]:
        shop.update("baskets", b, tags=("fast", "new"))
    shop.drop("payments", *shop.there("payments")[4:8])
    o = order(d, 150, date(2024, 3, 1), 30)
    shop.add("orders", o)
    shop.add("order_lines", *lines(d, 150))
    shop.done()

    # Most of it goes, in all tables at once.
    for table in SCHEMA:
        for i, row in enumerate(shop.there(table)):
            if i % 3 != 1:
                shop.drop(table, row, times=shop.rows[table][row])
    shop.done()

    # And then the rest.
    for table in SCHEMA:
        for row in shop.there(table):
            shop.drop(table, row, times=shop.rows[table][row])
    shop.done()
    return shop.story


# --- forms --------------------------------------------------------------------------------------------------------


def columns(ddl: str) -> list[str]:
    """The columns of a DDL text, each with its type."""
    out, depth = [""], 0
    for c in ddl:
        depth += (c in "<(") - (c in ">)")
        if c == "," and not depth:
            out.append("")
        else:
            out[-1] += c
    return [c.strip() for c in out]


def arrow(table: str, rows: Sequence[Row]) -> pa.Table:
    """Rows of a table as Arrow."""
    parts = [c.split(" ", 1) for c in columns(SCHEMA[table])]
    values = list(zip(*rows, strict=True)) if rows else [()] * len(parts)
    arrays = [
        pa.array([_nested(v, TYPES[t]) for v in column], TYPES[t])
        for (_, t), column in zip(parts, values, strict=True)
    ]
    return pa.table(arrays, [n for n, _ in parts])


def _nested(value: Any, t: pa.DataType) -> Any:
    """Tuples, which rows have so that they can be counted, as lists and records."""
    if value is None:
        return None
    if pa.types.is_list(t):
        return [_nested(v, t.value_type) for v in value]
    if pa.types.is_struct(t):
        return {f.name: _nested(v, f.type) for f, v in zip(t, value, strict=True)}
    return value


def change_of(table: str, change: Sequence[tuple[Row, int]]) -> pa.Table:
    """A change of a table as Arrow, with weights."""
    weights = pa.array([n for _, n in change], pa.int64())
    return arrow(table, [r for r, _ in change]).append_column("_w", weights)


def states(story: Sequence[Mapping[str, Sequence[tuple[Row, int]]]]) -> list[dict[str, list[Row]]]:
    """The rows of all tables after each change."""
    rows: dict[str, Counter[Row]] = {n: Counter() for n in SCHEMA}
    out = []
    for change in story:
        for table, changed in change.items():
            for row, n in changed:
                rows[table][row] += n
        out.append({t: list(counted.elements()) for t, counted in rows.items()})
    return out


STORY = played()
STATES = states(STORY)
WORDS = ("the first load", "business", "references", "second thoughts", "most goes", "all goes")
