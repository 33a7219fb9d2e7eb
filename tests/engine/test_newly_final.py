"""What becomes final is found in the runs where it can be: the others are not read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.calculus.patterns import Punctuations
from headwater.calculus.types import Base
from headwater.engine import closing
from headwater.engine.closing import Region
from headwater.state.run import Run
from random_patterns import few_columns, punctuations, rows


@pytest.mark.property
@given(st.data(), few_columns(), st.sampled_from([closing.APART, 1]))
def test_what_is_fresh_and_what_was_final_is_what_is_final(
    data: st.DataObject, columns: dict[str, Base], apart: int
) -> None:
    before, more = (
        Punctuations(data.draw(st.lists(punctuations(columns), max_size=4)), columns)
        for _ in range(2)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(closing, "APART", apart)
        fresh = Region(before, before | more, False).fresh.promise
    for row in rows(data.draw, columns, 30):
        now = before.matches(row) or more.matches(row)
        assert (fresh.matches(row) or before.matches(row)) == now
        if apart > 1:
            assert fresh.matches(row) == (now and not before.matches(row))


def test_runs_that_are_apart_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    tables = Run.tables

    def counted(self: Run, *given: int) -> object:
        read.append(self.ref.rows)
        return tables(self, *given)

    monkeypatch.setattr("headwater.state.store.StoreWriter.tidy", lambda self: None)
    with hw.open(tmp_path / "db") as db:
        db.source("r", "k INT, t INT", closes="t", append_only=True, retain=False)
        db.view("v", "SELECT t, k, count(*) AS n FROM r GROUP BY t, k")
        db.apply({"r": [(0, 100)]})  # from here on runs say zones
        for t, many in ((10, 11), (20, 12), (30, 13)):
            db.apply({"r": [(k, t) for k in range(many)]})
        monkeypatch.setattr(Run, "tables", counted)
        assert db.punctuate("r", t=hw.below(10)).closed == {}
        assert not {11, 12, 13} & set(read)
        assert db.punctuate("r", t=hw.below(15)).closed == {"v": 11}
        assert 11 in read and not {12, 13} & set(read)
        read.clear()
        assert db.punctuate("r", t=hw.upto(30)).closed == {"v": 25}
        assert {12, 13} <= set(read) and 11 not in read
