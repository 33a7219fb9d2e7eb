"""Sums of doubles are the correctly rounded sums of the rows that are there, whatever came and went.

A story is a group: rows come and go in it, among them huge and tiny ones, NaN and infinities, and after every change what
is kept is compared with fractions of the rows that are there, rounded once. All stories run in one database, side by side.
"""

from __future__ import annotations

import math
import random
import tarfile
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import headwater as hw
from headwater.calculus.dyadic import Dyadic, nearest, root
from headwater.state import exact

ARCHIVE = Path(__file__).parents[1] / "data" / "doubles-cb789d1.tar.gz"
Row = dict[str, Any]


# --- the kernels -----------------------------------------------------------------------------------------------


def doubles(rng: np.random.Generator, n: int, kind: int) -> Any:
    """Doubles of one kind: of all sizes, prices, those at the edges, or small whole numbers."""
    edges = [1e308, -1e308, 1.7e308, 5e-324, -5e-324, 0.0, 2.0**-1022, 1.0, 2.0**53, 1.5]
    made = [
        lambda: rng.normal(size=n) * 10.0 ** rng.integers(-300, 300, n),
        lambda: np.round(rng.normal(size=n) * 100, 2),
        lambda: rng.choice(edges, n),
        lambda: rng.integers(-5, 5, n).astype(float),
    ]
    return made[kind]()


@pytest.mark.parametrize("seed", range(120))
def test_columns_of_exact_numbers_are_what_fractions_say(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    x = doubles(rng, n, seed % 4)
    numbers = [Fraction(float(v)) for v in x]
    column = exact.stored(exact.of_doubles(x))
    again = exact.limbs(column)
    assert exact.fractions(again) == numbers
    assert exact.stored(again).equals(column)  # there is one form of each number
    assert exact.nonzero(column).tolist() == (x != 0).tolist()
    assert exact.rounded(again).tolist() == x.tolist()
    assert not exact.nonzero(exact.plus(column, exact.stored(exact.of_doubles(-x)))).any()

    y = rng.permutation(x)
    products = exact.times(exact.of_doubles(x), exact.of_doubles(y))
    expected = [a * Fraction(float(b)) for a, b in zip(numbers, y, strict=True)]
    assert exact.fractions(products) == expected
    assert exact.fractions(exact.times(products, products)) == [p * p for p in expected]
    assert exact.rounded(products).tolist() == [nearest(p) for p in expected]

    by = rng.integers(-(2**62), 2**62, n) if seed % 2 else rng.integers(-100, 100, n)
    scaled = exact.fractions(exact.scaled(again, by))
    assert scaled == [a * int(w) for a, w in zip(numbers, by, strict=True)]


@pytest.mark.parametrize("seed", range(120))
def test_sums_and_means_of_groups_are_rounded_once(seed: int, monkeypatch: Any) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    x = doubles(rng, n, seed % 4)
    if seed % 3 == 0:
        monkeypatch.setattr(exact, "AT_ONCE", 17)  # the work is done in pieces
    starts = np.unique(np.append(0, rng.integers(0, n, 4)))
    groups = np.split(x, starts[1:])
    sums = exact.limbs(exact.sums(exact.stored(exact.of_doubles(x)), starts))
    numbers = [sum((Fraction(float(v)) for v in g), Fraction(0)) for g in groups]
    assert exact.fractions(sums) == numbers
    assert exact.rounded(sums).tolist() == [nearest(f) for f in numbers]
    if seed % 4 in (1, 3):
        assert exact.rounded(sums).tolist() == [math.fsum(g) for g in groups]
    by = rng.integers(1, [10, 2**31, 7, 2**40][seed % 4], len(groups))
    for mean, f, times in zip(exact.means(sums, by).tolist(), numbers, by.tolist(), strict=True):
        assert mean == (nearest(f / times) if math.isfinite(nearest(f)) else nearest(f))


def test_overlapping_frames_are_summed_exactly() -> None:
    rng = np.random.default_rng(3)
    x = doubles(rng, 200, 0)
    low = rng.integers(0, 200, 100)
    high = np.minimum(low + rng.integers(0, 50, 100), 200)
    found = exact.limbs(exact.frame_sums(exact.stored(exact.of_doubles(x)), low, high))
    expected = [math.fsum(x[a:b]) for a, b in zip(low, high, strict=True)]
    assert exact.rounded(found).tolist() == expected


def test_roots_are_rounded_once() -> None:
    draw = random.Random(1)
    with localcontext() as context:
        context.prec = 80
        for _ in range(500):
            x = Fraction(draw.getrandbits(draw.randint(1, 400)), 1 + draw.getrandbits(300))
            assert root(x) == float((Decimal(x.numerator) / Decimal(x.denominator)).sqrt())
    assert root(Fraction(49, 16)) == 1.75 and root(Fraction(0)) == 0.0


def test_what_is_not_finite_is_counted_beside() -> None:
    total = Dyadic.of(math.inf) + Dyadic.of(1.5) + Dyadic.of(-math.inf)
    assert math.isnan(total.rounded())
    assert (total + -Dyadic.of(math.inf)).rounded() == -math.inf
    assert (total + -Dyadic.of(math.inf) + -Dyadic.of(-math.inf)).rounded() == 1.5
    assert Dyadic.of(1e-300, 1e-300, -math.inf).neg == 1 and Dyadic.of(0.0, math.inf).nan == 1


# --- stories -----------------------------------------------------------------------------------------------------

SPREADS = ("var_pop", "var_samp", "stddev_pop", "stddev_samp", "skewness", "kurtosis")
PAIRS = ("covar_pop", "covar_samp", "corr", "regr_sxx", "regr_syy", "regr_sxy", "regr_slope",
         "regr_intercept", "regr_r2")  # fmt: skip
COLUMNS = ("x", "f", "d")
BY_GROUP = ", ".join(
    [f"{g}({c}) AS {g}_{c}" for c in COLUMNS for g in SPREADS]
    + [f"{g}({c}) AS {g}_{c}" for c in ("x", "f") for g in ("sum", "avg")]
    + [f"{g}(x, y) AS {g}_xy" for g in PAIRS]
    + [
        "sum(DISTINCT x) AS sum_dx",
        "avg(DISTINCT x) AS avg_dx",
        "stddev(DISTINCT x) AS stddev_samp_dx",
    ]
)
FRAMES = {"upto": "", "near": " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING"}
OVER = {
    name: ", ".join(
        f"{g}({c}) OVER (PARTITION BY k ORDER BY id{frame}) AS {g}_{c}_{name}"
        for g, c in (
            ("sum", "x"),
            ("avg", "x"),
            ("sum", "f"),
            ("stddev_samp", "x"),
            ("var_pop", "d"),
        )
    )
    for name, frame in FRAMES.items()
}
VIEWS = {
    "groups": f"SELECT k, count(*) AS n, {BY_GROUP} FROM r GROUP BY k",
    **{name: f"SELECT k, id, {over} FROM r" for name, over in OVER.items()},
    "joined": "SELECT r.k, sum(r.x * s.z) AS t FROM r JOIN s ON r.k = s.k GROUP BY r.k",
    "all": "SELECT sum(x) AS s, avg(x) AS m, stddev(f) AS d FROM r",
}
SOURCE = "k INT, id INT, x DOUBLE, y DOUBLE, f FLOAT, d DECIMAL(12,3)"


def value(draw: random.Random) -> float | None:
    """A double: any size, large ones with small distances, those at the edges, and seldom none, NaN or an infinity."""
    kind = draw.random()
    if kind < 0.05:
        return draw.choice([math.nan, math.inf, -math.inf, None])
    if kind < 0.25:
        return draw.choice([1e8 + 1, 1e8 + 2, 1e8 + 4, 1.7e9 + draw.randint(0, 99), 1e200, 0.1])
    if kind < 0.3:
        return draw.choice([1e308, -1e308, 5e-324])
    return (
        draw.choice([-1, 1]) * draw.random() * 10.0 ** draw.randint(-300, 307 if kind < 0.6 else 3)
    )


def row(draw: random.Random, k: int, number: int) -> Row:
    small = draw.choice([1e-3, 1.0, 1e6, 1e30])
    return {
        "k": k,
        "id": number,
        "x": value(draw),
        "y": draw.choice([draw.gauss(0, 1), 1e8 + draw.randint(0, 5), value(draw)]),
        "f": float(np.float32(draw.gauss(0, small))),
        "d": Decimal(draw.choice([draw.randint(-9999, 9999), 10**11 + draw.randint(0, 9)])).scaleb(
            -3
        ),
    }


def odd(values: list[Any]) -> float | None:
    """The sum, where it is no number."""
    there = {v for v in values if not math.isfinite(v)}
    if not there:
        return None
    return there.pop() if len(there) == 1 else math.nan


def total(values: list[Any]) -> float:
    """The sum, rounded once."""
    found = odd(values)
    return nearest(sum(map(Fraction, values), Fraction(0))) if found is None else found


def mean(values: list[Any]) -> float | None:
    if not values:
        return None
    if not math.isfinite(whole := total(values)):
        return whole
    return nearest(sum(map(Fraction, values), Fraction(0)) / len(values))


def power(x: Fraction, to: str) -> float:
    """A power of a fraction that may be no whole number, by more digits than a double has."""
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 120, 10**9, -(10**9)
        return float((Decimal(x.numerator) / Decimal(x.denominator)) ** Decimal(to)) if x else 0.0


def centred(values: list[Any]) -> list[Fraction]:
    numbers = [Fraction(v) for v in values]
    middle = sum(numbers, Fraction(0)) / len(numbers)
    return [x - middle for x in numbers]


def spread(name: str, values: list[Any]) -> float | None:
    """A moment from its definition."""
    n = len(values)
    if n == 0 or (n == 1 and name.endswith("_samp")):
        return None
    if odd(values) is not None:
        return math.nan
    away = centred(values)
    m2, m3, m4 = (sum((x**k for x in away), Fraction(0)) for k in (2, 3, 4))
    if name in ("skewness", "kurtosis") and m2 == 0:
        return None
    if name == "skewness":
        found = power(n * m3 * m3 / m2**3, "0.5")
        return -found if m3 < 0 else found
    if name == "kurtosis":
        return nearest(n * m4 / (m2 * m2) - 3)
    variance = m2 / (n - name.endswith("_samp"))
    return power(variance, "0.5") if name.startswith("stddev") else nearest(variance)


def pair(name: str, rows: list[Row]) -> float | None:
    """What is said of two columns, of which the first is the dependent one."""
    both = [(r["x"], r["y"]) for r in rows if r["x"] is not None and r["y"] is not None]
    n = len(both)
    if n == 0 or (n == 1 and name == "covar_samp"):
        return None
    ys, xs = [y for y, _ in both], [x for _, x in both]
    fine = [odd(ys) is None, odd(xs) is None]
    syy = sum((c * c for c in centred(ys)), Fraction(0)) if fine[0] else None
    sxx = sum((c * c for c in centred(xs)), Fraction(0)) if fine[1] else None
    if name in ("regr_sxx", "regr_syy"):
        found = sxx if name == "regr_sxx" else syy
        return math.nan if found is None else nearest(found)
    if name in ("regr_slope", "regr_intercept", "regr_r2") and sxx == 0:
        return None
    if name == "regr_r2" and syy == 0:
        return 1.0
    if syy is None or sxx is None:
        return math.nan
    sxy = sum((a * b for a, b in zip(centred(ys), centred(xs), strict=True)), Fraction(0))
    if name == "corr":
        if sxx * syy == 0:
            return None
        found_root = power(sxy * sxy / (sxx * syy), "0.5")
        return -found_root if sxy < 0 else found_root
    middle = [sum(map(Fraction, v), Fraction(0)) / n for v in (ys, xs)]
    shown: dict[str, Callable[[], Fraction]] = {
        "covar_pop": lambda: sxy / n,
        "covar_samp": lambda: sxy / (n - 1),
        "regr_sxy": lambda: sxy,
        "regr_slope": lambda: sxy / sxx,
        "regr_intercept": lambda: middle[0] - sxy / sxx * middle[1],
        "regr_r2": lambda: sxy * sxy / (sxx * syy),
    }
    return nearest(shown[name]())


def there(rows: list[Row], column: str) -> list[Any]:
    return [r[column] for r in rows if r[column] is not None]


def aggregate(name: str, values: list[Any]) -> float | None:
    if name == "sum":
        return total(values) if values else None
    return mean(values) if name == "avg" else spread(name, values)


def group(rows: list[Row]) -> Row:
    """What is said of a group."""
    out: Row = {"n": len(rows)}
    for c in COLUMNS:
        for g in (*SPREADS, *(("sum", "avg") if c != "d" else ())):
            out[f"{g}_{c}"] = aggregate(g, there(rows, c))
    different = {("nan" if v != v else v): v for v in there(rows, "x")}
    for g in ("sum", "avg", "stddev_samp"):
        out[f"{g}_dx"] = aggregate(g, list(different.values()))
    return out | {f"{g}_xy": pair(g, rows) for g in PAIRS}


def frames(rows: list[Row]) -> list[Row]:
    """What is said of the frames of a group's rows."""
    ranked, out = sorted(rows, key=lambda r: r["id"]), []
    for i, r in enumerate(ranked):
        near, upto = ranked[max(i - 1, 0) : i + 2], ranked[: i + 1]
        made = {"id": r["id"]}
        for g, c in (
            ("sum", "x"),
            ("avg", "x"),
            ("sum", "f"),
            ("stddev_samp", "x"),
            ("var_pop", "d"),
        ):
            made[f"{g}_{c}_upto"] = aggregate(g, there(upto, c))
            made[f"{g}_{c}_near"] = aggregate(g, there(near, c))
        out.append(made)
    return out


def same(a: Any, b: Any) -> bool:
    return a == b or (a is not None and b is not None and a != a and b != b)


def check(found: Row, expected: Row, rows: list[Row]) -> None:
    wrong = {n: (found[n], v) for n, v in expected.items() if not same(found[n], v)}
    assert not wrong, (wrong, rows)


def compare(db: hw.Database, rows: list[Row], factors: dict[int, float]) -> None:
    """All views are what fractions say of the rows that are there."""
    by: dict[int, list[Row]] = {}
    for r in rows:
        by.setdefault(r["k"], []).append(r)
    found = {r["k"]: r for r in db.table("groups").to_pylist()}
    assert found.keys() == by.keys()
    for k, mine in by.items():
        check(found[k], group(mine), mine)
    upto, over = ({(r["k"], r["id"]): r for r in db.table(n).to_pylist()} for n in FRAMES)
    assert len(over) == len(upto) == len(rows)
    for k, mine in by.items():
        for expected in frames(mine):
            check(over[k, expected["id"]] | upto[k, expected["id"]], expected, mine)
    for r in db.table("joined").to_pylist():
        products = [
            x * factors[r["k"]] for x in there(by[r["k"]], "x")
        ]  # each is rounded, as in Spark
        assert same(r["t"], total(products) if products else None), (r, products)
    (whole,) = db.table("all").to_pylist()
    xs, fs = there(rows, "x"), there(rows, "f")
    expected = {"s": total(xs) if xs else None, "m": mean(xs), "d": spread("stddev_samp", fs)}
    check(whole, expected, [])


def play(path: Path, seed: int, stories: int, changes: int) -> None:
    """Stories side by side: rows come to all of them and go again, until nothing is left."""
    draw = random.Random(seed)
    db = hw.open(path)
    db.source("r", SOURCE)
    db.source("s", "k INT, z DOUBLE")
    for name, query in VIEWS.items():
        db.view(name, query)
    factors = {k: draw.choice([0.1, -3.7, 1e10, 1e-5]) for k in range(stories)}
    db.apply({"s": [{"k": k, "z": z} for k, z in factors.items()]})
    rows: list[Row] = []
    number = 0
    for _ in range(changes):
        new = [
            row(draw, k, number := number + 1)
            for k in range(stories)
            for _ in range(draw.randint(0, 3))
        ]
        gone = [r for r in rows if draw.random() < 0.4]
        db.apply({"r": hw.Delta(inserts=new, deletes=gone)})
        left = {r["id"] for r in gone}
        rows = [r for r in rows if r["id"] not in left] + new
        compare(db, rows, factors)
    db.apply({"r": hw.Delta(deletes=rows)})
    assert db.table("groups").num_rows == 0
    db.close()


def test_stories_of_doubles_are_what_fractions_say(tmp_path: Path) -> None:
    play(tmp_path / "db", 1, stories=80, changes=3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_many_stories_of_doubles_are_what_fractions_say(tmp_path: Path, seed: int) -> None:
    play(tmp_path / "db", seed, stories=200, changes=5)


# --- by name -----------------------------------------------------------------------------------------------------


@pytest.fixture
def db(tmp_path: Path) -> Any:
    made = hw.open(tmp_path / "db")
    made.source("r", "x DOUBLE, y DOUBLE")
    made.view(
        "q",
        "SELECT sum(x) AS s, stddev(x) AS d, corr(x, y) AS c, skewness(x) AS k, kurtosis(x) AS u FROM r",
    )
    yield made
    made.close()


def shown(db: hw.Database) -> Row:
    (found,) = db.table("q").drop_columns(["_w"]).to_pylist()
    return dict(found)


@pytest.mark.parametrize("base", [1e8, 1.7e9, 1e12], ids=["1e8", "epoch seconds", "1e12"])
def test_spreads_far_from_zero_keep_their_digits(db: hw.Database, base: float) -> None:
    db.apply({"r": [(base + 1, 1.0), (base + 2, 2.0), (base + 4, 3.0)]})
    found = shown(db)
    assert [round(found[n], 3) for n in "dcku"] == [1.528, 0.982, 0.382, -1.5]


def test_what_came_and_went_leaves_nothing(db: hw.Database) -> None:
    db.apply({"r": [(0.1, 1.0), (0.2, 3.0), (0.4, 2.0)]})
    before = shown(db)
    for x in (1e8, 1e200, 1e308, -1e308, math.inf, -math.inf, math.nan, 5e-324):
        db.apply({"r": [(x, 1.0), (x, 7.0)]})
        db.apply({"r": hw.Delta(deletes=[(x, 1.0), (x, 7.0)])})
        assert shown(db) == before, x


def test_a_sum_beyond_all_doubles_is_infinite_as_long_as_it_is_that(db: hw.Database) -> None:
    db.apply({"r": [(1e308, 1.0), (1e308, 1.0)]})
    assert shown(db)["s"] == math.inf
    db.apply({"r": [(-1e308, 1.0)]})
    assert shown(db)["s"] == 1e308
    db.apply({"r": hw.Delta(deletes=[(1e308, 1.0)])})
    assert shown(db)["s"] == 0.0


def test_wide_decimals_and_their_spread(tmp_path: Path) -> None:
    db = hw.open(tmp_path / "db")
    db.source("r", "d DECIMAL(38,0), n BIGINT")
    db.view("q", "SELECT stddev(d) AS s, var_pop(n) AS v, covar_pop(d, n) AS c FROM r")
    rows = [(Decimal(10**37 + i * i), 2**62 + i) for i in range(5)]
    db.apply({"r": rows})
    (found,) = db.table("q").to_pylist()
    ds, ns = [d for d, _ in rows], [n for _, n in rows]
    assert found["s"] == spread("stddev_samp", ds) and found["v"] == spread("var_pop", ns) == 2.0
    assert found["c"] == 8.0
    db.close()


def test_a_comprehension_adds_floats_exactly(tmp_path: Path) -> None:
    db = hw.open(tmp_path / "db")
    db.source("r", "k BIGINT, x DOUBLE")

    @hw.query
    def sums(r):  # type: ignore[no-untyped-def]
        return [{"k": k, "s": sum(x.x for x in r if x.k == k)} for k in {x.k for x in r}]

    db.view("q", sums)
    rows = [(1, 0.1)] * 10 + [(2, 1e16), (2, 1.0), (2, 1.0)]
    db.apply({"r": [*rows, (1, 1e200)]})
    db.apply({"r": hw.Delta(deletes=[(1, 1e200)])})
    found = {r["k"]: r["s"] for r in db.table("q").to_pylist()}
    assert found == {1: 1.0, 2: 1e16 + 2}
    db.close()


# --- databases of before --------------------------------------------------------------------------------------------


def test_a_database_with_sums_of_before_goes_on(tmp_path: Path) -> None:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    db = hw.open(tmp_path / "db")
    before = {n: db.table(n) for n in db.catalog.views if n != "spread"}  # which Spark evaluates
    assert before["sums"].num_rows == 4 and before["running"].num_rows == 13
    extra = {"k": 1, "v": 0.3, "f": 0.5, "d": Decimal("1.25")}
    db.apply({"r": [extra]})
    found = {r["k"]: r for r in db.table("sums").to_pylist()}
    assert math.isclose(found[1]["s"], 2.8 + 0.3) and found[1]["n"] == 5
    (over,) = [r for r in db.table("over").to_pylist() if r["k"] == 1]
    assert math.isclose(over["t"], 3.1)
    db.apply({"r": hw.Delta(deletes=[extra])})
    for name, table in before.items():
        assert db.table(name).num_rows == table.num_rows, name
        assert all(w == 1 for w in db.table(name).column("_w").to_pylist()), name
    db.view("new", "SELECT k, sum(v) AS s FROM r GROUP BY k")
    sums = {r["k"]: r["s"] for r in db.table("new").to_pylist()}
    assert sums[1] == math.fsum([0.4, 0.7, 1.0, 0.7]) and math.isnan(sums[3])
    db.check()
    db.close()


def test_rebuilding_makes_sums_exact(tmp_path: Path) -> None:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    db = hw.open(tmp_path / "db")
    before = {n: db.table(n).num_rows for n in db.catalog.views if n != "spread"}
    db.rebuild()
    kept = {str(t) for m in db.program.maps.values() for _, t in m.ring}
    assert "Dyadic" in kept and "Real" not in kept
    assert {n: db.table(n).num_rows for n in before} == before
    db.apply({"r": [{"k": 1, "v": 1e300, "f": 0.5, "d": Decimal("1.25")}]})
    db.apply({"r": hw.Delta(deletes=[{"k": 1, "v": 1e300, "f": 0.5, "d": Decimal("1.25")}])})
    sums = {r["k"]: r["s"] for r in db.table("sums").to_pylist()}
    assert sums[1] == math.fsum([0.4, 0.7, 1.0, 0.7])
    assert db.table("spread").num_rows == 4  # moments need no Spark now
    db.close()


def test_the_archive_is_of_the_older_form(tmp_path: Path) -> None:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    db = hw.open(tmp_path / "db")
    kept = {str(t) for m in db.program.maps.values() for _, t in m.ring}
    assert "Real" in kept and "Dyadic" not in kept
    assert pa.float64() in {f.type for f in db.table("sums").schema}
    db.close()


# --- in tasks ----------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_sums_are_exact_in_tasks_too(tmp_path: Path) -> None:
    """The same maps whether changes are carried through here or on Spark, by turns."""
    from spark_session import session

    with hw.open(tmp_path / "db", session()) as db:
        db.source("s", "g BIGINT, v DOUBLE")
        db.source("t", "g BIGINT, n BIGINT")
        db.view("v", "SELECT g, sum(v) AS s, avg(v) AS a, stddev(v) AS d FROM s GROUP BY g")
        db.view("w", "SELECT t.n, sum(s.v) AS s FROM s JOIN t ON s.g = t.g GROUP BY t.n")
        rows: list[tuple[int, float]] = []
        draw = random.Random(5)
        db.apply({"t": [(g, g % 2) for g in range(4)]})
        for i in range(6):
            db.policy.execution = ("spark", "driver")[i % 2]
            new = [
                (draw.randrange(4), draw.choice([1e16, 0.1, -1e16, 1e-9, 3.5])) for _ in range(30)
            ]
            old = [rows.pop(draw.randrange(len(rows))) for _ in range(min(len(rows), 12))]
            rows += new
            db.apply({"s": hw.Delta(inserts=new, deletes=old)})
            for row in db.table("v").to_pylist():
                mine = [v for g, v in rows if g == row["g"]]
                assert row["s"] == math.fsum(mine)
            for row in db.table("w").to_pylist():
                assert row["s"] == math.fsum(v for g, v in rows if g % 2 == row["n"])


# --- rounding ----------------------------------------------------------------------------------------------------


def odd_number(draw: random.Random) -> float:
    match draw.randrange(5):
        case 0:
            return draw.choice([0.0, 1.0, -1.0, 1e16, -1e16, 1e308, -1e308, 5e-324, 2.0**-1022])
        case 1:
            return round(draw.uniform(-1e4, 1e4), 2)
        case 2:
            return draw.uniform(-1, 1) * 2.0 ** draw.randint(-1070, 1020)
        case 3:
            return float(draw.randint(-(2**53), 2**53))
        case _:
            return draw.uniform(-1, 1) * 2.0 ** draw.randint(-60, 60)


@pytest.mark.parametrize("seed", range(4))
def test_sums_and_means_are_the_nearest_doubles(seed: int) -> None:
    """Halves of sums are often just between two doubles; some numbers need all limbs, and some are beyond doubles."""
    draw = random.Random(seed)
    drawn: list[Callable[[], float]] = [
        lambda: odd_number(draw),
        lambda: round(draw.uniform(-1e4, 1e4), 2),
        lambda: float(draw.randint(-(2**54), 2**54)),
        lambda: draw.uniform(-1, 1) * 2.0 ** draw.randint(-60, 60),
    ]
    groups = [[drawn[seed]() for _ in range(draw.choice([1, 2, 4, 9]))] for _ in range(500)]
    starts = np.cumsum([0, *(len(g) for g in groups[:-1])])
    by = [draw.choice([len(g), 2, 3, 1000003, 2**31, 2**33 + 1]) for g in groups]
    made = exact.added(exact.of_doubles(np.array([x for g in groups for x in g])), starts)
    for sums in (made, exact.limbs(exact.stored(made))):
        found = exact.rounded(sums).tolist(), exact.means(sums, np.array(by)).tolist()
        for g, n, total_, mean_ in zip(groups, by, *found, strict=True):
            whole = sum(map(Fraction, g), Fraction(0))
            assert total_ == nearest(whole), g
            assert mean_ == (nearest(whole / n) if math.isfinite(total_) else total_), (g, n)
