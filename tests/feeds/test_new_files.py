"""Which files are new, what a step takes, and what is noted: laws over listings, without a disk."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.feeds.listing import (
    File,
    Mark,
    changed_file,
    forgotten,
    is_whole,
    marks,
    new_files,
    step,
    taken_of,
    told_changed,
)

FILES = st.lists(
    st.builds(File, st.sampled_from("abcdefgh"), st.integers(1, 5), st.integers(0, 3)),
    unique_by=lambda f: f.name,
)


@given(st.lists(FILES, max_size=5), st.integers(1, 3), st.integers(1, 9))
def test_every_file_is_taken_once_in_order(looks: list[list[File]], most: int, size: int) -> None:
    """However files come and go, and however they are cut into steps; names stay what they were when first seen."""
    facts: dict[str, list[int]] = {}
    first: dict[str, File] = {}
    order: list[str] = []
    for version, look in enumerate(looks):
        there = [first.setdefault(f.name, f) for f in look]
        while new := new_files(there, taken_of("s", facts)):
            assert new == sorted(new, key=lambda f: (f.time, f.name))
            taken = step(new, most, size)
            assert taken == new[: len(taken)] and 1 <= len(taken) <= most
            assert len(taken) == 1 or sum(f.size for f in taken) <= size
            order += [f.name for f in taken]
            facts |= marks("s", taken, version)
        assert changed_file(there, taken_of("s", facts)) is None
    assert sorted(order) == sorted(first)


def test_marks_of_other_sources_are_others() -> None:
    facts = {**marks("s", [File("a", 1, 2)], 3), "from:t/b": [1, 1, 1], "from:s:query": {}}
    assert taken_of("s", facts) == {"a": Mark(1, 2, 3)}


def test_a_changed_file_is_told_with_what_changed() -> None:
    taken = {"a": Mark(5, 1, 7)}
    for size, told in ((4, "shrank from 5 to 4"), (6, "grew from 5 to 6"), (5, "written again")):
        found = changed_file([File("a", size, 2)], taken)
        assert found is not None and told in str(told_changed("s", *found))
        assert "version 7" in str(told_changed("s", *found))
    assert changed_file([File("a", 5, 1), File("b", 1, 1)], taken) is None


def test_what_is_forgotten_is_gone_and_out_of_sight() -> None:
    taken = {n: Mark(1, 1, v) for v, n in enumerate("abcd")}
    assert forgotten(taken, ["b"], 3) == ["a", "c"]


def test_names_of_files_that_are_being_written() -> None:
    names = ["a.csv", ".a.csv", "_a.csv", "a.csv.tmp", "a_.csv"]
    assert [n for n in names if is_whole(n, 1)] == ["a.csv", "a_.csv"]
    assert not is_whole("a.csv", 0)
