"""Hashes of keys: equal keys share them, others hardly ever do, and they never change.

`reference` is the definition of a text's hash in plain Python. State on disk is sorted by these hashes, so a
golden value that differs means that no store written before can be read: the code is wrong, not the test.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.state.hashing import GOLDEN, LENGTH, NULL, hash_keys
from headwater.state.keys import Ints
from test_keys import ALL, FORMS, KINDS, Kind

WORD = 1 << 64


def mixed(x: int) -> int:
    """The finaliser of splitmix64."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % WORD
    return x ^ (x >> 31)


def folded(*words: int) -> int:
    """The hash of a row whose columns have these words."""
    h = 0
    for word in words:
        h = mixed((h + word + int(GOLDEN)) % WORD)
    return h - WORD if h >> 63 else h


def reference(text: bytes) -> int:
    """The word of a text."""
    pieces = [text[i : i + 8] for i in range(0, max(len(text), 1), 8)]
    terms = (
        mixed((int.from_bytes(p, "little") + (i + 1) * int(GOLDEN)) % WORD)
        for i, p in enumerate(pieces)
    )
    return (len(text) * int(LENGTH) + sum(terms)) % WORD


def hashed(*columns: pa.Array | pa.ChunkedArray) -> list[int]:
    found: list[int] = hash_keys(list(columns), len(columns[0])).tolist()
    return found


# --- equal and apart ----------------------------------------------------------------------------------------


@KINDS
@pytest.mark.property
@settings(max_examples=max(12, settings().max_examples // 20))
@given(data=st.data())
def test_equal_keys_hash_alike(kind: Kind, data: st.DataObject) -> None:
    """In whatever form they come; and keys that differ have other hashes."""
    values = data.draw(st.lists(kind.nullable, max_size=9))
    again = data.draw(st.permutations(values))
    one = hashed(data.draw(FORMS)(values, kind.type))
    two = hashed(data.draw(FORMS)(again, kind.type))
    plain = list(map(kind.same, [*values, *again]))
    assert len(one) == len(two) == len(values)
    pairs = set(zip(plain, [*one, *two], strict=True))
    assert len(pairs) == len(set(plain)) == len({h for _, h in pairs})


@pytest.mark.property
@given(data=st.data())
def test_composite_keys(data: st.DataObject) -> None:
    """Keys of several columns are alike when all of their columns are."""
    kinds = data.draw(st.lists(st.sampled_from(list(ALL.values())), min_size=1, max_size=4))
    rows = data.draw(st.lists(st.tuples(*(k.nullable for k in kinds)), min_size=1, max_size=9))
    columns = [data.draw(FORMS)([row[i] for row in rows], k.type) for i, k in enumerate(kinds)]
    plain = [tuple(k.same(v) for k, v in zip(kinds, row, strict=True)) for row in rows]
    pairs = set(zip(plain, hashed(*columns), strict=True))
    assert len(pairs) == len(set(plain)) == len({h for _, h in pairs})


@pytest.mark.property
@given(st.lists(st.none() | st.binary(max_size=200), min_size=1, max_size=9), st.integers(0, 8))
@example([b"x" * n for n in (7, 8, 9, 63, 64, 65, 71, 72, 73)], 0)
@example([b"", None, b"\0" * 8, b"\0" * 16], 1)
def test_texts_by_definition(texts: list[bytes | None], start: int) -> None:
    """Texts of any length, in any slice, are hashed as the definition says."""
    wanted = [folded(int(NULL) if t is None else reference(t)) for t in texts][start:]
    for t in (pa.binary(), pa.large_binary()):
        assert hashed(pa.array(texts, t).slice(start)) == wanted


@pytest.mark.parametrize(
    "columns",
    [
        [pa.array([1, -1, None], t) for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())],
        [pa.array([1, 200, None], t) for t in (pa.uint8(), pa.uint16(), pa.uint64(), pa.int64())],
        [pa.array([1, -1, None], t) for t in (pa.int64(), pa.date32())],
        [pa.array([1.5, -0.0, math.nan], t) for t in (pa.float32(), pa.float64())],
        [
            pa.array([Decimal("1.50"), Decimal("-1.50"), None], t)
            for t in (
                pa.decimal32(9, 2),
                pa.decimal64(18, 2),
                pa.decimal128(10, 2),
                pa.decimal128(38, 2),
                pa.decimal256(60, 2),
            )
        ],
        [
            pa.array([datetime(1969, 1, 1), datetime(2024, 2, 29), None], pa.timestamp(*unit))
            for unit in (("s",), ("ms",), ("us",), ("ns",), ("us", "UTC"))
        ],
        [
            pa.array(["a", "long" * 30, None], t)
            for t in (pa.string(), pa.large_string(), pa.binary())
        ],
    ],
    ids=["int", "unsigned", "date", "float", "decimal", "timestamp", "text"],
)
def test_widths(columns: list[pa.Array]) -> None:
    """The same value of another width has the same hash."""
    assert len({tuple(hashed(c)) for c in columns}) == 1


def test_the_place_of_a_column_counts() -> None:
    a, b = pa.array([1, 2, None]), pa.array([2, 1, 1])
    assert all(x != y for x, y in zip(hashed(a, b), hashed(b, a), strict=True))
    assert len({*hashed(a), *hashed(a, a), *hashed(a, a, a)}) == 9


# --- the edges ----------------------------------------------------------------------------------------------


def test_no_columns() -> None:
    assert hash_keys([], 3).tolist() == [0, 0, 0] and hash_keys([], 0).dtype == np.int64


@pytest.mark.parametrize("t", [*(k.type for k in ALL.values()), pa.list_(pa.string())], ids=str)
def test_no_rows_and_nothing_in_them(t: pa.DataType) -> None:
    """Columns without rows, without values, and without some of their buffers."""
    assert hashed(pa.array([], t)) == hashed(pa.chunked_array([], t)) == []
    assert hashed(pa.array([None, None], t).slice(1, 0)) == []
    if not pa.types.is_nested(t):
        assert hashed(pa.nulls(2, t)) == hashed(pa.nulls(2)) == [folded(int(NULL))] * 2
    missing = pa.array([None] * 20, t)
    assert len(set(hashed(missing))) == 1 and hashed(missing.slice(9)) == hashed(missing)[9:]


def test_text_without_data() -> None:
    """Empty texts hash alike beside others, alone, and without any data."""
    offsets = pa.py_buffer(np.zeros(3, np.int32))
    column = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"")])
    assert hashed(column) == hashed(pa.array(["", ""])) == [folded(reference(b""))] * 2
    assert hashed(pa.array(["x", "", None]))[1] == folded(reference(b""))


def test_input_is_not_written_to() -> None:
    column = pa.array([3, 1, 2])
    hashed(column, column)
    assert column.to_pylist() == [3, 1, 2]


def test_a_type_that_is_no_key() -> None:
    with pytest.raises(TypeError, match="map"):
        hashed(pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())))


# --- spread -------------------------------------------------------------------------------------------------

SPREAD: dict[str, Any] = {
    "counted": lambda n: [pa.array(np.arange(n))],
    "multiples": lambda n: [pa.array(np.arange(n) << 32)],
    "reals": lambda n: [pa.array(np.arange(n) * 0.5)],
    "cents": lambda n: [pa.array(np.arange(n)).cast(pa.decimal128(38, 0))],
    "texts": lambda n: [pa.array([f"customer {i}" for i in range(n)])],
    "long texts": lambda n: [pa.array([f"{'x' * 90}{i}" for i in range(n)])],
    "pairs": lambda n: [pa.array(np.arange(n) // 256), pa.array(np.arange(n) % 256)],
}


@pytest.mark.parametrize("name", SPREAD)
def test_spread(name: str) -> None:
    """No two alike; every bit is set in half of the hashes; the highest and the lowest bits fill evenly."""
    n = 1 << 16
    h = hash_keys(SPREAD[name](n), n)
    assert len(np.unique(h)) == n
    for bit in range(64):
        assert abs(int(((h >> bit) & 1).sum()) - n // 2) < 5 * math.sqrt(n) / 2, bit
    for byte in (h.view(np.uint64) >> np.uint64(56), h.view(np.uint64) & np.uint64(255)):
        counts = np.bincount(byte.astype(np.int64), minlength=256)
        assert abs(counts - n // 256).max() < 6 * math.sqrt(n / 256)


# --- for ever -----------------------------------------------------------------------------------------------


GOLDEN_COLUMNS: dict[str, tuple[list[pa.Array], list[int]]] = {
    "integers": (
        [pa.array([0, 1, -1, (1 << 63) - 1, None], pa.int64())],
        [
            -2152535657050944081,
            -7995527694508729151,
            -1956407806741107680,
            3055647633038352039,
            7192185014346937746,
        ],
    ),
    "booleans": (
        [pa.array([False, True, None], pa.bool_())],
        [-2152535657050944081, -7995527694508729151, 7192185014346937746],
    ),
    "dates": (
        [pa.array([date(1970, 1, 1), date(2024, 2, 29), None], pa.date32())],
        [-2152535657050944081, -2626719216396998387, 7192185014346937746],
    ),
    "timestamps": (
        [pa.array([datetime(1969, 7, 20, 20, 17, 40, 123456), None], pa.timestamp("us"))],
        [-1395608416060903087, 7192185014346937746],
    ),
    "moments": (
        [pa.array([datetime(2024, 2, 29, tzinfo=UTC), None], pa.timestamp("us", "UTC"))],
        [535334272576152370, 7192185014346937746],
    ),
    "floats": (
        [pa.array([0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, None], pa.float64())],
        [
            -2152535657050944081,
            -2152535657050944081,
            -2964862180898217846,
            2638638862653029785,
            -8294845451629592578,
            -4095617212816704698,
            7192185014346937746,
        ],
    ),
    "decimals": (
        [pa.array([Decimal("1.50"), Decimal("-0.01"), None], pa.decimal128(10, 2))],
        [-520672635019369304, -1956407806741107680, 7192185014346937746],
    ),
    "large decimals": (
        [pa.array([Decimal(10**37), Decimal(-(10**37)), Decimal(1 << 63)], pa.decimal128(38, 0))],
        [7687555761477030945, 7708775230375165503, 5710316611837058488],
    ),
    "texts": (
        [pa.array(["", "a", "a\0", "eight by", "nine byte", "é" * 50, None], pa.string())],
        [
            -6411193824288604561,
            329846883477912483,
            -3714887674771459813,
            -9178926013285042246,
            -7021983419716336818,
            2467714042609974632,
            7192185014346937746,
        ],
    ),
    "bytes": (
        [pa.array([b"", b"\xff" * 8, b"0123456789" * 10], pa.binary())],
        [-6411193824288604561, 1917934582227559115, 7459013293439727719],
    ),
    "structs": (
        [
            pa.array(
                [{"x": 1, "y": "a"}, {"x": None, "y": None}, None],
                pa.struct([("x", pa.int64()), ("y", pa.string())]),
            )
        ],
        [6279639612414306906, 144833386334073439, -3522558416324133970],
    ),
    "arrays": (
        [pa.array([[], [1], [None], [1, 2], None], pa.list_(pa.int64()))],
        [
            -6766723102813555779,
            4698278481515765320,
            -2675785915783288064,
            4557778022654884237,
            7192185014346937746,
        ],
    ),
    "nested": (
        [pa.array([[{"x": 0.5}], [{"x": -0.0}, None]], pa.list_(pa.struct([("x", pa.float64())])))],
        [8875659853706360207, 3945628573320418804],
    ),
    "pairs": (
        [pa.array([1, None, 2], pa.int64()), pa.array(["a", "b", None], pa.string())],
        [-8441280378514496170, 5118564826802541098, -1874750473024928224],
    ),
}


@pytest.mark.parametrize("name", GOLDEN_COLUMNS)
def test_hashes_never_change(name: str) -> None:
    columns, wanted = GOLDEN_COLUMNS[name]
    found: Ints = hash_keys(columns, len(columns[0]))
    assert found.tolist() == wanted
