"""What Headwater derives for a view, as SQL: the flat parts of a nested view, and the groups that they read.

    a map's term, a sum of products     SELECT ... FROM ... WHERE, with UNION ALL
    a stratum, answers of groups        SELECT ... FROM (... GROUP BY) WHERE

So that Spark can evaluate the shredded query whole, as a plan of its own. Answers that read bags in order have no text
here, since no query of the benchmark has them.
"""

from __future__ import annotations

from headwater.calculus.check import type_of
from headwater.calculus.terms import Box, Field, Pred, Record, Rel, Sng, Term, Unbox, Var, subterms
from headwater.calculus.types import RecordType, is_key
from headwater.plan.program import Map, Program
from headwater.plan.scalar import scalar
from headwater.rules.monomial import Monomial, summands


def parts(program: Program, view: str) -> dict[str, str]:
    """The parts of a view by path, each as a query; a view that is flat has one, at no path.

    A bag is its label in the row around it, under the bag's name; `_label` stands beside the rows that it holds.
    """
    made = program.views[view]
    if made.stratum is not None:
        return {"": _answers(program, made.stratum)}
    out = {}
    for part in made.parts:
        names = ["_label" if n == "#0" else n.removesuffix("#0") for n, _ in part.columns]
        assert len(part.label) <= 1 and "#" not in "".join(names), "a label of one column"
        out[part.path] = _rows(program, part.map, names)
    return out


def table_of(path: str) -> str:
    """What a relation or a part is called as a table."""
    return path.replace(".", "_")


def _rows(program: Program, m: Map, names: list[str]) -> str:
    """The rows of a map, each as often as it is there."""
    texts = []
    for sign, n in summands(m.term):
        assert sign > 0 and isinstance(n.output, Sng) and isinstance(n.output.key, Record)
        cells = [t for _, t in n.output.key.fields]
        counts = [f for f in n.factors if isinstance(f, Unbox)]
        shown = [f"{_text(t)} AS {name}" for t, name in zip(cells, names, strict=True)]
        often = " * ".join(_text(f.key) for f in counts)
        more = f" LATERAL VIEW explode(array_repeat(0, int({often}))) AS `#`" if counts else ""
        texts.append(f"SELECT {', '.join(shown)} FROM {_joined(program, n)}{more}{_where(n)}")
    return " UNION ALL ".join(texts)


def _answers(program: Program, name: str) -> str:
    """A stratum: one row of a group, from the sums of its columns."""
    s = program.strata[name]
    assert not (s.bags or s.weight or s.always)
    texts = []
    for sign, n in summands(s.group.term):
        assert sign > 0 and isinstance(n.output, Sng) and isinstance(n.output.key, Record)
        value = n.output.value
        values = [t for _, t in value.fields] if isinstance(value, Record) else [value]
        factors = [_text(f) for f in n.factors if not isinstance(f, Pred)]
        columns = [
            f"{_text(t)} AS {c}"
            for (_, t), c in zip(n.output.key.fields, s.group.columns, strict=True)
        ]
        columns += [
            f"{' * '.join([_text(t), *factors])} AS {c}"
            for t, (c, _) in zip(values, s.group.ring, strict=True)
        ]
        texts.append(f"SELECT {', '.join(columns)} FROM {_joined(program, n)}{_where(n)}")
    keys = ", ".join(s.group.columns)
    sums = ", ".join(f"sum({c}) AS {c}" for c, _ in s.group.ring)
    groups = f"SELECT {keys}, {sums} FROM ({' UNION ALL '.join(texts)}) GROUP BY {keys}"
    row = ", ".join(f"{e.sql} AS `{n}`" for n, e in s.row)
    return f"SELECT {row} FROM ({groups}) WHERE {' AND '.join(w.sql for w in s.where) or 'true'}"


def _joined(program: Program, m: Monomial) -> str:
    """The atoms of a monomial, joined; each column is called `variable.column`."""
    read = {t for part in (*m.factors, m.output) for t in subterms(part)}
    atoms = []
    for v, source in m.atoms:
        assert isinstance(source, Rel) and isinstance(v.type, RecordType)
        name = source.name
        text = f"({_answers(program, name)})" if name in program.strata else table_of(name)
        names = [n for n, _ in v.type.fields if Field(v, n) in read]
        columns = ", ".join(f"`{n}` AS `{v.name}.{n}`" for n in names) or "1"
        atoms.append(f"(SELECT {columns} FROM {text})")
    return " CROSS JOIN ".join(atoms)


def _where(m: Monomial) -> str:
    tests = [_text(f.condition) for f in m.factors if isinstance(f, Pred)]
    return f" WHERE {' AND '.join(tests)}" if tests else ""


def _text(term: Term) -> str:
    """A scalar, or the number of a ring, over the columns of the rows that are joined."""
    columns: dict[Term, str] = {}
    for t in subterms(term):
        match t:
            case Field(Var(variable), name):
                columns[t] = f"{variable}.{name}"
    return scalar(term if is_key(type_of(term)) else Box(term), columns).sql
