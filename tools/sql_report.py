"""What of SQL is maintained: plays the retail corpus and prints a table by clause, with totals at the end.

For each clause: how many queries have it, how many are right after every change, how many are refused and for which
reason, how many are wrong, and what a change costs those that are right. The exit code is 1 if a query is wrong, or if
one that must be refused is not, or for another reason. Spark's own answers are kept in `build/retail`.

    python tools/sql_report.py [--failures] [family ...]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from headwater.plan.analysis import cost_class
from retail.corpus import Query, read
from retail.play import Spark, Verdict, play
from spark_session import session

KEPT = Path(__file__).parent.parent / "build" / "retail" / "answers.pickle"
# --- the table ----------------------------------------------------------------------------------------------------

HEAD = ("", "queries", "right", "refused", "wrong", "cost class")


def outcome(query: Query, found: Verdict) -> str:
    """Right, refused or wrong; to keep a view that must be refused, or refuse it for another reason, is wrong."""
    if query.refused and not found.fits(query):
        return "wrong"
    return found.outcome


def row(label: str, played: Iterable[tuple[Query, Verdict]]) -> tuple[str, ...]:
    """A line of the table."""
    pairs = list(played)
    outcomes = Counter(outcome(q, v) for q, v in pairs)
    reasons = Counter(v.reason for q, v in pairs if outcome(q, v) == "refused")
    costs = Counter(v.cost for _, v in pairs if v.outcome == "right")
    return (
        label,
        str(len(pairs)),
        str(outcomes["right"]),
        f"{outcomes['refused']}" + (f" ({counted(reasons)})" if reasons else ""),
        str(outcomes["wrong"]),
        counted(costs),
    )


def counted(counts: Counter[str]) -> str:
    """Words with their counts, the most frequent first."""
    ordered = sorted(counts.items(), key=lambda c: (-c[1], c[0]))
    return ", ".join(f"{word} {n}" for word, n in ordered)


def table(title: str, rows: Sequence[tuple[str, ...]]) -> str:
    """Lines with columns of equal width."""
    lines = [(title, *HEAD[1:]), *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    drawn = [" | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) for line in lines]
    return "\n".join([drawn[0], "-|-".join("-" * w for w in widths), *drawn[1:]])


def by(
    label: Callable[[Query], Iterable[str]], played: Sequence[tuple[Query, Verdict]]
) -> list[tuple[str, ...]]:
    """A line for each label, the most frequent first."""
    counts = Counter(name for q, _ in played for name in label(q))
    names = sorted(counts, key=lambda n: (-counts[n], n))
    return [row(n, [(q, v) for q, v in played if n in label(q)]) for n in names]


def totals(played: Sequence[tuple[Query, Verdict]]) -> str:
    """The last lines."""
    outcomes = Counter(outcome(q, v) for q, v in played)
    stated = sum(1 for q, v in played if q.refused and v.fits(q))
    costs = Counter(v.cost for _, v in played if v.outcome == "right")
    return (
        f"{len(played)} queries: {outcomes['right']} right, {stated} refused as they must be,"
        f" {outcomes['refused'] - stated} refused so far, {outcomes['wrong']} wrong\n"
        f"a change costs: {counted(costs) or 'nothing'}"
    )


def failure(query: Query, found: Verdict) -> str:
    """What is to be known of a query that is not as it must be."""
    first = (found.message.splitlines() or [""])[0]
    return f"  {query.id}: {found.outcome} {found.reason}: {first[:300]}"


def main(arguments: Sequence[str]) -> int:
    """Plays the corpus, a database a family, and prints."""
    parser = argparse.ArgumentParser(description="what of SQL is maintained, by clause")
    parser.add_argument("family", nargs="*", help="only these files of tests/data/retail")
    parser.add_argument("--failures", action="store_true", help="each query that is not right")
    given = parser.parse_args(arguments)
    queries = [q for q in read() if not given.family or q.family in given.family]
    unknown = set(given.family) - {q.family for q in queries}
    if unknown:
        parser.error(f"no family {', '.join(sorted(unknown))}")
    spark = Spark(session(), KEPT)
    played: list[tuple[Query, Verdict]] = []
    for family in dict.fromkeys(q.family for q in queries):
        members = [q for q in queries if q.family == family]
        with tempfile.TemporaryDirectory() as folder:
            found = play(
                members, Path(folder) / "db", spark, lambda db, name: cost_class(db.program, name)
            )
        played += [(q, found[q.id]) for q in members]
        spark.keep()
        outcomes = Counter(outcome(q, found[q.id]) for q in members)
        print(f"{family}: {counted(outcomes)}", file=sys.stderr, flush=True)
        for q in members if given.failures else ():
            if not found[q.id].fits(q):
                print(failure(q, found[q.id]), file=sys.stderr, flush=True)
    print(table("clause", by(lambda q: q.clauses, played)))
    print()
    print(table("family", by(lambda q: (q.family,), played)))
    print()
    print(totals(played))
    return 1 if any(outcome(q, v) == "wrong" for q, v in played) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
