"""Definitions that mean nothing are refused, by a message that names the stage and says what can be done."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from headwater import flow
from headwater.dataflow.define import Readable, Stage, stage_of
from headwater.errors import StageError
from headwater.language.schema import columns

KNOWN = {
    "clicks": Readable(columns("user STRING, at TIMESTAMP, n BIGINT, tags ARRAY<STRING>")),
    "users": Readable(columns("id STRING, country STRING, n INT")),
    "best": Readable(columns("user STRING, n BIGINT"), view=True),
    "passing": Readable(columns("user STRING, n BIGINT"), retained=False),
}
OUT = "user STRING, n BIGINT"


def row(click: Any) -> None: ...


def group(key: Any, clicks: Any) -> None: ...


def two(key: Any, clicks: Any, users: Any) -> None: ...


def kept(key: Any, clicks: Any, state: Any) -> None: ...


def made(f: Callable[..., Any], *inputs: Any, **words: Any) -> Stage:
    return stage_of(f, inputs, KNOWN, **{"out": OUT, **words})


def reads(what: str = "clicks", **words: Any) -> Any:
    return flow.reads(what, **words)


# --- what is right -----------------------------------------------------------------------------------------------------


def test_a_stage_has_everything_that_an_epoch_needs() -> None:
    def counted(user: Any, clicks: Any, state: Any, who: Any, epoch: Any = None) -> None: ...

    s = made(
        counted,
        flow.reads("clicks", order_by="at", framing=flow.daily("at"), take=2, changes=True),
        by="user",
        state={"one": "n BIGINT", "urls": flow.record("n INT", key="u STRING", only="user")},
        lookups={"who": flow.lookup("users", on={"user": "id"})},
        clock="at",
        out={"a": "x INT", "b": "y INT"},
    )
    assert s.name == "counted" and list(s.outputs) == ["a", "b"] and s.single is None
    assert s.takes == {"state", "who", "epoch"} and not s.row_wise
    assert [k.kind for k in s.kept] == ["record", "records"]
    assert s.described() == {
        "inputs": [
            {
                "name": "clicks",
                "row": "`user` string, `at` timestamp, `n` bigint, `tags` array<string>",
                "by": ["columns", ["user"]],
                "order_by": ["at"],
                "framing": "daily(at)",
                "take": 2,
                "changes": True,
                "combine": None,
            }
        ],
        "outputs": {"a": "`x` int", "b": "`y` int"},
        "key": "`user` string",
        "state": s.described()["state"],
        "form": "rows",
        "whole": False,
        "groups": "touched",
        "lookups": {"who": ["users", [["user", "id"]]]},
        "runnable": "all_inputs()",
        "clock": "at",
        "remember": False,
    }


def test_functions_that_a_user_wrote_are_told_apart() -> None:
    def route(r: Any) -> Any: ...

    def frame(r: Any, small: Any) -> Any: ...

    def sum_up(rows: Any) -> Any: ...

    def when(waiting: Any, small: Any) -> Any: ...

    s = made(
        two,
        reads(by=flow.route(route, "u STRING"), framing=flow.frames(frame, "at"), combine=sum_up),
        reads("users", by="id"),
        runnable=when,
    )
    assert s.functions == {
        "function": two,
        "route of clicks": route,
        "framing of clicks": frame,
        "combiner of clicks": sum_up,
        "runnable": when,
    }
    assert made(group, reads(by="user", framing=flow.daily("at"))).functions == {"function": group}


@pytest.mark.parametrize(
    ("f", "takes"),
    [
        (lambda key, clicks, state: None, {"state"}),
        (lambda key, clicks, *, state, epoch: None, {"state", "epoch"}),
        (lambda key, clicks, state, more=1: None, {"state"}),
        (lambda *args, state: None, {"state"}),
        (lambda key, *rows, state: None, {"state"}),
        (lambda key, clicks, **named: None, {"state", "epoch"}),
        (lambda *args, **named: None, {"state", "epoch"}),
    ],
)
def test_signatures_that_fit(f: Callable[..., Any], takes: set[str]) -> None:
    s = made(f, "clicks", by="user", state="n BIGINT", name="s")
    assert s.takes == takes


def test_what_takes_any_names_is_given_them() -> None:
    """A function with **named was let through, and never got its state."""

    @flow.stage("a", by="x", state="n INT", out="x INT, n INT")
    def counted(x: Any, rows: Any, **named: Any) -> Any:
        named["state"].n = (named["state"].n or 0) + 1
        return x, named["state"].n

    seen = flow.trial([counted], {"a": [[(1,)], [(1,)]]}, {"a": "x INT"})
    assert seen.increments("counted") == [[(1, 1)], [(1, 2)]]


# --- what is wrong -----------------------------------------------------------------------------------------------------

WRONG: list[tuple[str, Callable[[], Any], str, str]] = [
    # inputs
    ("unknown input", lambda: made(row, "nothing"), "reads `nothing`, which is unknown", "clicks, "),
    ("no input", lambda: made(row), "reads nothing", "name its inputs"),
    ("no name of one", lambda: made(row, 3), "3 is no name", "give its name"),
    ("one twice", lambda: made(two, "users", "users", by="id"), "reads an input twice", "read it"),
    ("a view", lambda: made(kept, "best", by="user", state="n INT"), "whose rows may go", "changes=T"),
    # groups
    ("by no column", lambda: made(group, "clicks", by="usr"), "groups `clicks` by `usr`", "user, at"),
    ("by an array", lambda: made(group, "clicks", by="tags"), "`tags`, whose values have no", "another"),
    ("by what is none", lambda: made(group, "clicks", by=3), "3 are no columns", '"a"'),
    (
        "a route to what cannot be read",
        lambda: made(group, "clicks", by=flow.route(len, "u STRNG")),
        "has the key of a route that cannot be read",
        "",
    ),
    (
        "a route to arrays",
        lambda: made(group, "clicks", by=flow.route(len, "u ARRAY<INT>")),
        "routes `clicks` to `u`, whose values have no order",
        "another",
    ),
    (
        "keys of other types",
        lambda: made(two, reads(by="user"), reads("users", by="n")),
        r"groups `clicks` by \(`user` string\) and `users` by \(`n` int\)",
        "same types",
    ),
    ("two and no groups", lambda: made(two, "clicks", "users"), "several inputs and no groups", r"by=\(\)"),
    ("one without", lambda: made(two, reads(by="user"), "users"), "how `users` is grouped", "by="),
    ("all to all", lambda: made(group, "clicks", by=flow.ALL), "all its rows to all groups", "one input"),
    # orders and framings
    ("sorted by no column", lambda: made(group, "clicks", by="user", order_by="x"), "sorts `clicks` by `x`", "columns: user"),
    ("sorted by an array", lambda: made(group, reads(order_by="tags"), by="user"), "sorts `clicks` by `tags`", "another"),
    ("sorted by what is none", lambda: made(group, "clicks", by="user", order_by=3), "3 are no columns", '"a"'),
    ("framed by no column", lambda: made(row, reads(framing=flow.daily("x"))), "frames `clicks` by `x`", "columns: user"),
    ("framed by an array", lambda: made(row, reads(framing=flow.daily("tags"))), "frames `clicks` by `tags`", "another"),
    # combining
    ("combined without groups", lambda: made(row, reads(combine=flow.sums("n"))), "combines rows and has no groups", "by="),
    ("no column to combine", lambda: made(group, reads(by="user", combine=flow.sums("m"))), "combines `clicks` over `m`", "columns"),
    (
        "least of changes",
        lambda: made(group, reads(by="user", combine=flow.least("n"), changes=True)),
        "has the least or greatest of changes",
        "deletion",
    ),
    # outputs
    ("no output", lambda: made(row, "clicks", out={}), "has no output", "out="),
    ("no columns", lambda: made(row, "clicks", out=" "), "an output `row` without columns", "name its columns"),
    ("no DDL", lambda: made(row, "clicks", out=["a"]), "has the output `row` of type list", "give DDL"),
    ("DDL that cannot be read", lambda: made(row, "clicks", out="a WHAT"), "the output `row` that cannot be read", ""),
    ("a reserved column", lambda: made(row, "clicks", out="_w INT"), "calls a column `_w`", "a meaning already"),
    ("a name that is none", lambda: made(row, "clicks", out={"a b": "x INT"}), "calls an output `a b`", "a name"),
    # state
    ("state without groups", lambda: made(row, "clicks", state="n INT"), "has state and no groups", r"by=\(\)"),
    ("state that is none", lambda: made(kept, "clicks", by="user", state=5), "has 5 as state", "flow.record"),
    ("a part called so", lambda: made(kept, "clicks", by="user", state={"wake": "n INT"}), "its state `wake`", "another name"),
    ("a column called so", lambda: made(kept, "clicks", by="user", state="clock INT"), "of its state `clock`", "another name"),
    (
        "a column of a part that its handle has",
        lambda: made(kept, "clicks", by="user", state={"a": "clear INT"}),
        "of its state `clear`",
        "another name",
    ),
    ("a column that nobody may see", lambda: made(kept, "clicks", by="user", state="_n INT"), "of its state `_n`", "another name"),
    ("DDL of state", lambda: made(kept, "clicks", by="user", state="n WHAT"), "has state that cannot be read", ""),
    (
        "only without a key",
        lambda: made(kept, "clicks", by="user", state=flow.record("n INT", only="user")),
        "`only` and no key",
        "key=",
    ),
    (
        "only that is no column",
        lambda: made(kept, "clicks", by="user", state=flow.record("n INT", key="u STRING", only="x")),
        "by x, which no input has",
        "columns of an input",
    ),
    (
        "only of other width",
        lambda: made(kept, "clicks", by="user", state=flow.record("n INT", key="u STRING", only=["user", "n"])),
        "other columns than its key has",
        "one for each",
    ),
    (
        "only of another type",
        lambda: made(kept, "clicks", by="user", state=flow.record("n INT", key="u STRING", only="n")),
        "by `n` of `clicks`, which is bigint, and their `u` is string",
        "one type",
    ),
    (
        "sorted by what it has not",
        lambda: made(kept, "clicks", by="user", state=flow.bag("x INT", order_by="y")),
        "sorts its state by `y`",
        "columns: x",
    ),
    (
        "sorted by an array of its own",
        lambda: made(kept, "clicks", by="user", state=flow.bag("x ARRAY<INT>", order_by="x")),
        "sorts its state by `x`",
        "another",
    ),
    # time
    ("a clock that is no column", lambda: made(group, "clicks", by="user", clock="x"), "the clock `x`, which no input", "time"),
    ("a clock that is no time", lambda: made(group, "clicks", by="at", clock="user"), "the clock `user`, which is no time", "time"),
    ("a clock without groups", lambda: made(row, "clicks", clock="at"), "has a clock and no groups", "by="),
    (
        "expires without a clock",
        lambda: made(kept, "clicks", by="user", state=flow.record("n INT", expires=timedelta(1))),
        "state that expires and no clock",
        "clock=",
    ),
    (
        "expires by a number",
        lambda: made(kept, "clicks", by="user", clock="n", state=flow.record("n INT", expires=timedelta(1))),
        "its clock `n` is a number",
        "a column of time",
    ),
    (
        "expires that is no time",
        lambda: made(kept, "clicks", by="user", clock="at", state=flow.record("n INT", expires=5)),
        "state with expires=5",
        "timedelta",
    ),
    # look-ups
    ("what is not there", lambda: made(row, "clicks", lookups={"w": "no"}), "reads `no`, which is unknown", "users"),
    ("what is not kept", lambda: made(row, "clicks", lookups={"w": "passing"}), "`passing` up, which is not kept", "retain"),
    ("by no column", lambda: made(row, "clicks", lookups={"w": flow.lookup("users", {"x": "id"})}), "looks `users` up by `x`", "user"),
    ("at no column", lambda: made(row, "clicks", lookups={"w": flow.lookup("users", {"user": "x"})}), "looks `users` up at `x`", "id"),
    (
        "by another type",
        lambda: made(row, "clicks", lookups={"w": flow.lookup("users", {"n": "n"})}),
        "up at `n`, which is int, by `n`, which is bigint",
        "one type",
    ),
    (
        "of a group by what is not its key",
        lambda: made(group, "clicks", by="user", lookups={"w": flow.lookup("users", {"n": "n"})}),
        "looks `users` up by `n`",
        "columns: user",
    ),
    ("called like state", lambda: made(row, "clicks", lookups={"state": "users"}), "calls a look-up `state`", "another name"),
    # runnables
    ("in_turn", lambda: made(group, "clicks", by="user", runnable=flow.in_turn("clicks", "x")), "`x` is no input", "inputs: clicks"),
    ("prefer", lambda: made(group, "clicks", by="user", runnable=flow.prefer("y", to="clicks")), "`y` is no input", "inputs: clicks"),
    ("sliding", lambda: made(row, "clicks", runnable=flow.sliding("z", frames=2)), "`z` is no input", "inputs: clicks"),
    ("same_frame", lambda: made(row, "clicks", runnable=flow.same_frame()), "`clicks` is not framed", "framing="),
    ("no runnable", lambda: made(row, "clicks", runnable=7), "has runnable=7", "any_input"),
    # what goes with what
    ("changes row by row", lambda: made(row, reads(changes=True)), "takes row by row, and reads changes", "leave changes"),
    ("whole without groups", lambda: made(row, "clicks", whole=True), "is whole and has no groups", "by="),
    ("whole with state", lambda: made(kept, "clicks", by="user", whole=True, state="n INT"), "is whole and has state", "sees all"),
    ("whole in frames", lambda: made(group, reads(by="user", framing=flow.count(2)), whole=True), "whole, and combines or frames", "sees all"),
    (
        "whole to all",
        lambda: made(two, reads(by="user"), reads("users", by=flow.ALL), whole=True),
        "is whole, and sends rows to all groups",
        "look them up",
    ),
    ("remember in groups", lambda: made(group, "clicks", by="user", remember=True), "remembers and has groups", "row by row"),
    ("remember in tables", lambda: made(row, "clicks", remember=True, form="arrow"), "remembers, in the form arrow", "form="),
    ("all groups without state", lambda: made(group, "clicks", by="user", groups="all"), "and no state", "groups of the past"),
    (
        "bags in tables",
        lambda: made(kept, "clicks", by="user", form="arrow", state=flow.bag("x INT")),
        "the form arrow with a clock, records by key or bags",
        "rows",
    ),
    (
        "parts in tables",
        lambda: made(kept, "clicks", by="user", form="pandas", state={"a": "n INT", "b": "n INT"}),
        "the form pandas and several parts",
        "one record",
    ),
    ("form", lambda: made(row, "clicks", form="json"), "has form='json'", "'rows', 'arrow', 'pandas'"),
    ("groups", lambda: made(row, "clicks", groups="some"), "has groups='some'", "'touched', 'all'"),
    ("on_error", lambda: made(row, "clicks", on_error="go on"), "has on_error='go on'", "'hold', 'set aside'"),
    ("changed", lambda: made(row, "clicks", changed="yes"), "has changed='yes'", "'refuse', 'keep', 'replay'"),
    # functions
    ("too few parameters", lambda: made(row, "clicks", by="user"), "a function of 1 parameters", r"f\(key, clicks\) with epoch"),
    ("too many", lambda: made(two, "clicks", by="user"), "a parameter `users` that means nothing", r"f\(key, clicks\)"),
    ("no parameter for state", lambda: made(group, "clicks", by="user", state="n INT"), "has `state`, and its function", "add `state`"),
    (
        "no parameter for state beside any",
        lambda: made(lambda *a: None, "clicks", by="user", state="n INT", name="s"),
        "has `state`, and its function",
        "add `state`",
    ),
    ("no parameter for a look-up", lambda: made(row, "clicks", lookups={"who": "users"}), "has `who`, and its function", "add `who`"),
    ("none for what is not there", lambda: made(kept, "clicks", by="user"), "a parameter `state` that means nothing", "epoch"),
    ("no function", lambda: made(5, "clicks", name="s"), "is no function", "decorator"),
    ("no name", lambda: made(lambda r: None, "clicks"), "has no name", "name="),
]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "what", "hint"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG]
)
def test_a_definition_that_means_nothing(make: Any, what: str, hint: str) -> None:
    with pytest.raises(StageError, match=what) as e:
        make()
    assert re.search(r"the stage `[^`]+`", e.value.what), "it names the stage"
    assert re.search(hint, e.value.hint or ""), e.value.hint


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: flow.reads("a", take=0), "take=0 is no number of increments"),
        (lambda: flow.reads("a", take=True), "take=True"),
        (lambda: flow.reads("a", start="now"), "start='now' means nothing"),
        (lambda: flow.reads("a", framing="daily"), "framing='daily' is no framing"),
        (lambda: flow.reads("a", combine=3), "combine=3 combines nothing"),
        (lambda: flow.reads("a", order_by=3), "3 are no columns"),
        (lambda: flow.lookup("a", on=["x"]), "says not which columns are equal"),
        (lambda: flow.lookup(3), "3 is no name"),
        (lambda: flow.record("n INT", only=3), "3 are no columns"),
    ],
)
def test_words_that_mean_nothing(make: Any, what: str) -> None:
    with pytest.raises(StageError, match=what) as e:
        make()
    assert e.value.hint


# --- of a graph -------------------------------------------------------------------------------------------------------


def test_two_writers_of_one_flow() -> None:
    back = flow.declared_flow("back", "x INT")

    @flow.stage("a", out=back)
    def first(r: Any) -> None: ...

    @flow.stage("a", out=back)
    def second(r: Any) -> None: ...

    told = "the stage `second` gives `back`, which is given by the stage `first`"
    with pytest.raises(StageError, match=told) as e:
        flow.trial([first, second], {}, {"a": "x INT"}, flows=[back])
    assert e.value.hint == "take another name"


def test_a_name_that_is_taken() -> None:
    @flow.stage("a", name="a", out="x INT")
    def again(r: Any) -> None: ...

    with pytest.raises(StageError, match="gives `a`, which is the name of an input"):
        flow.trial([again], {}, {"a": "x INT"})


def test_what_is_no_stage() -> None:
    with pytest.raises(StageError, match="is no stage") as e:
        flow.trial([len], {}, {})
    assert "flow.stage" in e.value.hint
