"""The generators keep their promises: every node, only the fragment asked for, and values of the type."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.calculus.check import check, type_of
from headwater.calculus.interpret import interpret
from headwater.calculus.terms import (
    NODES,
    Answer,
    Box,
    Call,
    Dict,
    Each,
    Fn,
    For,
    Let,
    Pointwise,
    Pred,
    Rel,
    Sng,
    Term,
    Var,
    Zero,
    binders,
    children,
    free,
    relations,
    subterms,
)
from headwater.calculus.types import BIGINT, DOUBLE, INT, bag, has_box, is_key, record
from strategies import (
    FULL,
    LABELS,
    POSITIVE,
    SHREDDABLE,
    Features,
    Query,
    changes,
    conforms,
    databases,
    full_terms,
    key_terms,
    queries,
    ring_terms,
    updated,
)

IN_POSITIVE = {
    *(
        "Const",
        "Var",
        "Rel",
        "Record",
        "Field",
        "Call",
        "Num",
        "Zero",
        "Sng",
        "Add",
        "Neg",
        "Times",
    ),
    *("For", "Let", "Pred", "Box", "Unbox"),
}
IN_LABELS = {*IN_POSITIVE, "Label", "Dict", "DictUnion", "Apply"}


def bound(term: Term) -> list[str]:
    """The names that are bound in a term, with repetitions."""
    here = [v.name for v in binders(term)]
    return here + [name for c in children(term) for name in bound(c)]


def reads(term: Term) -> bool:
    """Whether a term reads an input or a variable that may stand for one."""
    return any(isinstance(x, Rel) or not is_key(x.type) for x in free(term))


def test_every_node_occurs() -> None:
    seen: set[type] = set()

    @settings(max_examples=500, derandomize=True, database=None)
    @given(full_terms())
    def draw(query: Query) -> None:
        seen.update(type(t) for t in subterms(query.term))

    draw()
    assert {n.__name__ for n in NODES} - {t.__name__ for t in seen} == set()


@pytest.mark.property
@pytest.mark.parametrize("features", [POSITIVE, LABELS, SHREDDABLE, FULL])
@given(st.data())
def test_terms_are_well_typed_and_their_values_are_of_the_type(
    features: Features, data: st.DataObject
) -> None:
    query = data.draw(queries(features))
    t = check(query.term, query.inputs)
    names = bound(query.term)
    assert len(names) == len(set(names))
    old = data.draw(databases(query.inputs))
    for now in (old, updated(old, data.draw(changes(query.inputs)))):
        assert conforms(t, interpret(query.term, now))


@pytest.mark.property
@given(queries(POSITIVE))
def test_positive_terms_are_in_the_fragment(query: Query) -> None:
    assert {type(t).__name__ for t in subterms(query.term)} <= IN_POSITIVE
    for t in subterms(query.term):
        match t:
            case Sng(key, _) | Pred(key):
                assert not reads(key)
            case Box(inner):
                assert not reads(inner)
            case For(_, source, _):
                assert not any(
                    isinstance(s, Zero) and not in_key(source, s) for s in subterms(source)
                )
            case Let(var, _, _):
                assert not is_key(var.type)


def in_key(source: Term, zero: Zero) -> bool:
    """Whether a zero occurs in a source only inside boxes."""
    if source == zero:
        return False
    return isinstance(source, Box) or all(in_key(c, zero) for c in children(source))


@pytest.mark.property
@given(queries(LABELS))
def test_labels_are_defined_once(query: Query) -> None:
    assert {type(t).__name__ for t in subterms(query.term)} <= IN_LABELS
    dicts = [t for t in subterms(query.term) if isinstance(t, Dict)]
    assert len({d.index for d in dicts}) == len(dicts)


@pytest.mark.property
@given(queries(SHREDDABLE))
def test_shreddable_terms_compare_no_boxes(query: Query) -> None:
    assert {type(t).__name__ for t in subterms(query.term)} <= IN_POSITIVE
    for t in subterms(query.term):
        if isinstance(t, Call):
            assert not any(has_box(type_of(a)) for a in t.args)
        assert not isinstance(t, (Pointwise, Each, Fn, Answer))


@pytest.mark.property
@given(st.data())
def test_open_terms_have_the_type_that_was_asked_for(data: st.DataObject) -> None:
    inputs = {"R": bag(record(a=BIGINT, b=DOUBLE))}
    scope = {"row": record(a=BIGINT, b=DOUBLE), "count": INT}
    term = data.draw(ring_terms(inputs["R"], scope, inputs))
    key = data.draw(key_terms(DOUBLE, scope, inputs))
    assert (type_of(term), type_of(key)) == (inputs["R"], DOUBLE)
    for t in (term, key):
        assert {v for v in free(t) if isinstance(v, Var)} <= {Var(n, k) for n, k in scope.items()}
        assert relations(t) <= {Rel("R", inputs["R"])}
