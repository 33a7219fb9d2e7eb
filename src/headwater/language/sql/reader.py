"""SQL text into a term of the calculus.

sqlglot parses the text in the Spark dialect; names are resolved here against the declared schemas, so
that an error can point at its place. A SELECT is a comprehension over its FROM clause, then a grouping,
then DISTINCT, then ORDER BY with LIMIT; set operations are answers over key counts. What is outside the
language raises `NotIncremental` with a reason, the clause underlined, and what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, TypeVar

import sqlglot
from sqlglot import exp

from headwater.calculus.check import check, type_of
from headwater.calculus.deep import with_room
from headwater.calculus.scalars import common_type
from headwater.calculus.terms import (
    Add,
    Answer,
    Box,
    Call,
    Each,
    Field,
    For,
    Num,
    Pred,
    Record,
    Rel,
    Sng,
    Term,
    Times,
    Unbox,
    Var,
    fresh,
)
from headwater.calculus.types import DOUBLE, FLOAT, INT, INTEGRAL, Base, KeyType, RecordType
from headwater.errors import (
    HeadwaterError,
    NotIncremental,
    ParseError,
    QueryError,
    Span,
    TypeMismatch,
)
from headwater.language.build import ONE, ZERO, distinct
from headwater.language.schema import Schemas, sql_name
from headwater.language.sql import recursion
from headwater.language.sql.aggregate import is_aggregate
from headwater.language.sql.arguments import refuse_unread
from headwater.language.sql.coerce import cast_to
from headwater.language.sql.depth import MOST_ANSWERS, chain, plain, too_deep
from headwater.language.sql.expressions import Expressions
from headwater.language.sql.grammar import foreign, with_windows_named
from headwater.language.sql.loop_queries import no_level
from headwater.language.sql.opaque import Ask
from headwater.language.sql.placing import PlacingParser, place_of
from headwater.language.sql.recursive_grammar import clause_of
from headwater.language.sql.refusals import unknown_table
from headwater.language.sql.scope import Rows, Scope, Source
from headwater.language.sql.select import Select, order_keys, ranked

E = TypeVar("E", bound=HeadwaterError)
SPARK = sqlglot.Dialect.get_or_raise("spark")
STRING = next(t.token_type for t in SPARK.tokenize("''"))

ALL_OF = [(t.token_type, t.text) for t in SPARK.tokenize("SELECT * FROM")]
BEGINS_A_QUERY = {"L_PAREN", "UNION", "EXCEPT", "INTERSECT", "ALL", "DISTINCT"}
ENDS_A_LIST = {"FROM", "WHERE", "GROUP_BY", "HAVING", "ORDER_BY", "LIMIT", "UNION", "R_PAREN"}


def same_words(text: str, other: str) -> bool:
    """Whether two queries are the same but for spaces and comments."""
    if text == other:
        return True
    try:
        words = [[t[k.start : k.end + 1] for k in SPARK.tokenize(t)] for t in (text, other)]
    except sqlglot.errors.SqlglotError:
        return False
    return words[0] == words[1]


@with_room
def read_sql(text: str, schemas: Schemas, ask: Ask | None = None) -> Term:
    """The term of a query over inputs with the given types; `ask` tells what Spark knows and we do not."""
    reader = Reader(text, schemas, ask)
    term = reader.query(reader.parse(), None)
    check(term, schemas)
    return term


@with_room
def tables_named(text: str) -> set[str]:
    """The tables that a query names, in lower case, also those that its answer does not depend on."""
    tree = Reader(text, {}).parse()
    own = {c.alias.lower() for c in tree.find_all(exp.CTE)}
    return {t.name.lower() for t in tree.find_all(exp.Table)} - own


class Reader:
    """One reading of one text: its inputs, its names, and where things stand in it."""

    def __init__(self, text: str, schemas: Schemas, ask: Ask | None = None):
        self.text, self.schemas, self.ask = text, schemas, ask
        self.tokens: list[Any] = []
        self.taken: set[str] = set(schemas)
        self.ctes: dict[str, Term] = {}
        self.rounds: dict[int, str] = {}
        self.loops: list[Var] = []
        """The loops whose steps are being read, the innermost last."""

    # --- text and errors --------------------------------------------------------------------------------

    def _tokens(self) -> list[Any]:
        """The words of the text; a quote written twice inside of a quotation is one quote, as in Spark."""
        out: list[Any] = []
        for token in SPARK.tokenize(self.text):
            before: Any = out[-1] if out else None
            joined = before is not None and before.token_type == token.token_type == STRING
            quote = self.text[token.start]
            if joined and token.start == before.end + 1 and self.text[before.end] == quote:
                out[-1] = type(token)(
                    STRING,
                    before.text + quote + token.text,
                    before.line,
                    before.col,
                    before.start,
                    token.end,
                )
            else:
                out.append(token)
        return with_windows_named(self._with_tables(out))

    def _with_tables(self, tokens: list[Any]) -> list[Any]:
        """TABLE t as SELECT * FROM t, which sqlglot does not read as a query."""
        out: list[Any] = []
        for i, token in enumerate(tokens):
            begins = not out or out[-1].token_type.name in BEGINS_A_QUERY
            named = i + 1 < len(tokens) and tokens[i + 1].token_type.name in ("VAR", "IDENTIFIER")
            if token.text.upper() == "TABLE" and begins and named:
                out += [
                    type(token)(k, t, token.line, token.col, token.start, token.end)
                    for k, t in ALL_OF
                ]
            else:
                out.append(token)
        return out

    def parse(self) -> exp.Expr:
        """The syntax tree of the one query in the text."""
        try:
            self.tokens = plain(self._tokens())
            if (deep := too_deep(self.tokens)) is not None:
                raise self.too_deep(deep)
            if (word := foreign(self.tokens)) is not None:
                span = self.between(word.start, word.end + 1)
                what = f"cannot read the query: Spark does not take what follows `{word.text}`"
                raise ParseError(what, text=self.text, span=span)
            parser = PlacingParser(dialect=SPARK)
            statements = [s for s in parser.parse(self.tokens, self.text) if s is not None]
        except sqlglot.errors.ParseError as e:
            first = e.errors[0] if e.errors else {}
            width = len(first.get("highlight") or " ")
            span = Span(first.get("line") or 1, max(1, (first.get("col") or 1) - width + 1), width)
            what = (first.get("description") or str(e)).rstrip(".")
            raise ParseError(f"cannot read the query: {what}", text=self.text, span=span) from None
        except sqlglot.errors.SqlglotError:
            # The tokenizer gives up only inside a quotation, so the last quote is where it began.
            at = max(self.text.rfind(q) for q in "'\"`")
            what = "cannot read the query: a quotation is not closed"
            raise ParseError(what, text=self.text, span=self.between(at, at + 1)) from None
        if not statements:
            raise ParseError("the query is empty", text=self.text, span=Span(1, 1))
        if len(statements) > 1:
            what = f"expected one query, found {len(statements)} statements"
            raise self.error(ParseError, what, statements[1], hint="define one view at a time")
        if not isinstance(statements[0], (exp.Query, exp.Values)):
            raise ParseError(
                f"expected a query, found {statements[0].key.upper()}",
                text=self.text,
                span=Span(1, 1),
                hint="a view is defined by a SELECT",
            )
        self._no_trailing_comma()
        self._no_frequency()
        for select in statements[0].find_all(exp.Select):
            if not select.expressions:
                what = "a SELECT names no columns"
                raise self.error(ParseError, what, select, hint="SELECT * takes all of them")
        refuse_unread(self, statements[0])
        return statements[0]

    def _no_trailing_comma(self) -> None:
        """Raises where a list ends in a comma, which sqlglot takes and Spark does not."""
        tokens = sqlglot.tokenize(self.text, dialect="spark")
        for comma, after in zip(tokens, [*tokens[1:], None], strict=True):
            ends = after is None or after.token_type.name in ENDS_A_LIST
            if comma.token_type.name == "COMMA" and ends:
                what = "cannot read the query: a comma with nothing after it"
                span = self.between(comma.start, comma.end + 1)
                raise ParseError(what, text=self.text, span=span, hint="leave it out")

    def _no_frequency(self) -> None:
        """Refuses percentile(x, p, n), whose third argument sqlglot drops."""
        tokens = sqlglot.tokenize(self.text, dialect="spark")
        for i, word in enumerate(tokens[:-1]):
            if word.text.lower() != "percentile" or tokens[i + 1].text != "(":
                continue
            depth = commas = 0
            for token in tokens[i + 1 :]:
                depth += (token.text == "(") - (token.text == ")")
                commas += depth == 1 and token.text == ","
                if depth == 0:
                    break
            if commas > 1:
                what = "percentile(value, share, frequency) is not maintained yet"
                span = self.between(word.start, word.end + 1)
                hint = "join with as many rows as the frequency says"
                raise NotIncremental("AGGREGATE", what, text=self.text, span=span, hint=hint)

    def span(self, node: exp.Expr) -> Span:
        """Where a node stands in the text, as far as its tokens tell."""
        marks = [n.meta for n in node.walk() if "start" in n.meta]
        if not marks and (place := place_of(node)) is not None:
            return self.between(*place)
        if not marks:
            return self.span(node.parent) if node.parent is not None else Span(1, 1)
        return self.between(min(m["start"] for m in marks), max(m["end"] for m in marks) + 1)

    def find(self, words: str, node: exp.Expr) -> Span | None:
        """Where words stand in the text, from the beginning of a node on, or else anywhere."""
        pattern = re.compile(r"\s+".join(map(re.escape, words.split())), re.IGNORECASE)
        begins = {t.start for t in self.tokens}
        found = [m for m in pattern.finditer(self.text) if m.start() in begins]
        marks = [n.meta["start"] for n in node.walk() if "start" in n.meta]
        after = [m for m in found if m.start() >= min(marks, default=0)]
        return self.between(*(after or found)[0].span()) if found else None

    def between(self, start: int, end: int) -> Span:
        """A stretch of the text as a place to underline, as far as its line goes."""
        before = self.text[:start]
        line = before.count("\n") + 1
        column = start - (before.rfind("\n") + 1) + 1
        return Span(line, column, len(self.text[start:end].split("\n", 1)[0]))

    def error(self, kind: type[E], what: str, node: exp.Expr, hint: str = "") -> E:
        """An error at a node."""
        return kind(what, text=self.text, span=self.span(node), hint=hint)

    def refuse(self, reason: str, what: str, node: exp.Expr, hint: str) -> NotIncremental:
        """A refusal at a node, by a reason that has a name."""
        return NotIncremental(reason, what, text=self.text, span=self.span(node), hint=hint)

    def word(self, node: exp.Expr) -> str:
        """The word in the text that a node stands for, such as the name of its function."""
        mark = node.meta
        return self.text[mark["start"] : mark["end"] + 1] if "start" in mark else ""

    def too_deep(self, token: Any | None) -> NotIncremental:
        """The refusal of a query with too many levels, at the word where they are too many."""
        what = "the query is nested too deeply"
        hint = "name parts of it: WITH, or a view of its own"
        span = Span(1, 1) if token is None else self.between(token.start, token.end + 1)
        return NotIncremental("TOO_DEEP", what, text=self.text, span=span, hint=hint)

    def no_positions(self, node: exp.Expr) -> NotIncremental:
        """A refusal of what asks for an element's place: arrays are bags here."""
        return self.refuse(
            "ARRAY_ORDER",
            f"`{node.sql(dialect='spark')}` asks for the position of an element, and arrays are bags",
            node,
            "keep the position as a field of the elements",
        )

    def fresh(self, name: str) -> str:
        """A variable's name that nothing else in the query has."""
        new = fresh(name, self.taken)
        self.taken.add(new)
        return new

    def rounded(self, node: exp.Expr, name: str, types: Sequence[KeyType]) -> None:
        """Notes an aggregate that Spark rounds on the way, and we do not; by where its name stands."""
        doubles = any(t in (FLOAT, DOUBLE) for t in types)
        whole = name == "avg" and isinstance(types[0], Base) and types[0].name in INTEGRAL
        if (doubles or whole or name not in ("sum", "avg")) and "start" in node.meta:
            self.rounds[node.meta["start"]] = "whole_mean" if whole else name

    def is_aggregate(self, e: exp.Expr) -> bool:
        return is_aggregate(e)

    # --- queries ------------------------------------------------------------------------------------------

    def query(self, node: exp.Expr, parent: Scope | None) -> Term:
        """The bag of any query expression."""
        known = dict(self.ctes)
        try:
            self.bind_all(node.args.get("with_") or node.args.get("with"), parent)
            match node:
                case exp.Subquery() | exp.Paren():
                    return self.ordered_rows(self.query(node.this, parent), node)
                case exp.SetOperation():
                    return self.ordered_rows(self.set_operation(node, parent), node)
                case exp.Select():
                    return Select(self, node, parent).read()
                case exp.Values():
                    return self.ordered_rows(self._values(node), node)
                case exp.Table():
                    return self.source(node, parent)[0]
                case _:
                    raise self.refuse(
                        "UNSUPPORTED_QUERY", f"{node.key.upper()} is no query", node, ""
                    )
        finally:
            self.ctes = known

    def subquery(self, node: exp.Expr, scope: Scope) -> Term:
        """A query inside an expression, which sees the scope around it; its columns have no names."""
        self.unnamed(node)
        return self.query(node, scope)

    def unnamed(self, node: exp.Expr) -> None:
        """Marks the SELECTs of a query whose output columns nobody can name."""
        for select in node.find_all(exp.Select):
            above: exp.Expr | None = select
            while above is not None and above is not node:
                above = above.parent
                if isinstance(above, (exp.From, exp.Join, exp.With)):
                    break
            else:
                select.meta["unnamed"] = True

    def bind_all(
        self, clause: exp.With | None, parent: Scope | None, without: Collection[str] = ()
    ) -> None:
        """Gives the names of a WITH clause their meaning, all but some of them."""
        if clause is None:
            return
        own: set[str] = set()
        for cte in clause.expressions:
            if cte.alias.lower() in own:
                what = f"two queries of WITH are called `{cte.alias}`"
                raise self.error(QueryError, what, cte.args["alias"])
            own.add(cte.alias.lower())
        if clause_of(clause) is not None:
            recursion.bind(self, clause, parent, without)
            return
        for cte in clause.expressions:
            no_level(self, cte, "MAX RECURSION LEVEL stands in WITH RECURSIVE only")
            if cte.alias.lower() not in without:
                self.ctes[cte.alias.lower()] = self.common_table(cte, parent)

    def common_table(self, cte: exp.CTE, parent: Scope | None) -> Term:
        """One query of WITH, under the names that its head gives its columns."""
        term = self.query(cte.this, parent)
        columns = cte.args["alias"].columns
        return self.relabelled(term, columns, cte) if columns else term

    def relabelled(self, term: Term, columns: list[exp.Expr], node: exp.CTE) -> Term:
        """A bag under the names of its columns that the head of a query of WITH has."""
        names = [c.name for c in columns]
        for i, column in enumerate(columns):
            if column.name in names[:i]:
                what = f"two columns of `{node.alias}` are called `{column.name}`"
                raise self.error(QueryError, what, column)
        row = Var(self.fresh("r"), type_of(term).key)
        known = [n for n, _ in type_of(row).fields]
        if len(known) != len(names):
            raise self.error(
                QueryError, f"{len(names)} names are given for {len(known)} columns", node
            )
        fields = tuple((n, Field(row, k)) for n, k in zip(names, known, strict=True))
        return For(row, term, Sng(Record(fields), ONE))

    def source(self, node: exp.Expr, parent: Scope | None) -> tuple[Term, str]:
        """A table by name, or a subquery, with its alias."""
        if not isinstance(node, exp.Table):
            return self.query(node, None), node.alias or self.fresh("q")
        if not isinstance(node.this, exp.Identifier):
            what = f"`{node.this.sql(dialect='spark')}` is a function that gives a table"
            hint = "explode and inline may stand after LATERAL"
            raise self.refuse("TABLE_FUNCTION", what, node.this, hint)
        name = ".".join(p.name for p in node.parts)
        if name.lower() in self.ctes:
            return self.ctes[name.lower()], node.alias or name
        for known, t in self.schemas.items():
            if known.lower() == name.lower():
                return Rel(known, t), node.alias or node.name
        raise unknown_table(self, node, name)

    def _values(self, node: exp.Values) -> Term:
        scope = Expressions(self, Scope(Rows()))
        rows = [
            [scope.key(x) for x in (r.expressions if isinstance(r, exp.Tuple) else [r])]
            for r in node.expressions
        ]
        for given, row in zip(node.expressions, rows, strict=True):
            if len(row) != len(rows[0]):
                what = f"a row of {len(row)} values after one of {len(rows[0])}"
                raise self.error(QueryError, what, given, hint="give all rows the same columns")
        names = [f"col{i + 1}" for i in range(len(rows[0]))]
        bags = [Sng(Record(tuple(zip(names, row, strict=True))), ONE) for row in rows]
        return self._added(bags, node)

    # --- set operations -------------------------------------------------------------------------------------

    def set_operation(self, node: exp.SetOperation, parent: Scope | None) -> Term:
        """UNION adds; INTERSECT and EXCEPT compare how often a row is on either side."""
        once = bool(node.args.get("distinct"))
        self.unnamed(node.right)
        if isinstance(node, exp.Union):
            for other in _summands(node)[1:]:
                self.unnamed(other)
            added = self._added([self.query(x, parent) for x in _summands(node)], node)
            return self.distinct(added) if once else added
        if len(list(chain(node, (exp.SetOperation,)))) > MOST_ANSWERS:
            raise self.too_deep(None)
        left, right = self.aligned(
            self.query(node.left, parent), self.query(node.right, parent), node
        )
        x = Var(self.fresh("r"), type_of(left).key)
        zero = Num(0, INT)
        counts = Add(
            (
                For(x, left, Sng(x, Record((("l", ONE), ("r", zero))))),
                For(x, right, Sng(x, Record((("l", zero), ("r", ONE))))),
            )
        )
        k, v = Var(self.fresh("k"), x.type), Var(self.fresh("v"), type_of(counts).value)
        l, r = Box(Field(v, "l")), Box(Field(v, "r"))  # noqa: E741
        if isinstance(node, exp.Intersect):
            if once:
                test = Call("and", (Call(">", (l, ZERO)), Call(">", (r, ZERO))))
                body: Term = Times((Pred(test), Sng(k, ONE)))
            else:
                body = Sng(k, Unbox(Call("greatest", (ZERO, Call("least", (l, r))))))
        elif once:
            test = Call("and", (Call(">", (l, ZERO)), Call("<=", (r, ZERO))))
            body = Times((Pred(test), Sng(k, ONE)))
        else:
            body = Sng(k, Unbox(Call("greatest", (ZERO, Call("-", (l, r))))))
        return Each(k, v, counts, body)

    def _added(self, bags: Sequence[Term], node: exp.Expr) -> Term:
        """Bags as one sum, with the column names of the first and the common types of all."""
        wanted = type_of(bags[0]).key
        for bag in bags[1:]:
            wanted = self._common(wanted, type_of(bag).key, node)
        parts = tuple(self.as_row(bag, wanted) for bag in bags)
        return parts[0] if len(parts) == 1 else Add(parts)

    def aligned(self, left: Term, right: Term, node: exp.Expr) -> tuple[Term, Term]:
        """Two bags with the column names of the first and the common types of both."""
        wanted = self._common(type_of(left).key, type_of(right).key, node)
        return self.as_row(left, wanted), self.as_row(right, wanted)

    def _common(self, left: RecordType, right: RecordType, node: exp.Expr) -> RecordType:
        a, b = left.fields, right.fields
        if len(a) != len(b):
            raise self.error(
                TypeMismatch,
                f"{node.key.upper()} of {len(a)} and {len(b)} columns",
                node.args.get("expression") or node,
                hint="select the same number of columns on both sides",
            )
        types = []
        for (name, t), (_, u) in zip(a, b, strict=True):
            common = common_type(t, u)
            if common is None:
                raise self.error(
                    TypeMismatch,
                    f"the column `{name}` is {sql_name(t)} on one side and {sql_name(u)} on the other",
                    node.args.get("expression") or node,
                    hint="cast one of them",
                )
            types.append((name, common))
        return RecordType(tuple(types))

    def as_row(self, bag: Term, wanted: RecordType) -> Term:
        """A bag with columns of other names and types, place by place."""
        t = type_of(bag).key
        if t == wanted:
            return bag
        row = Var(self.fresh("r"), t)
        fields = tuple(
            (n, cast_to(Field(row, own), w))
            for (n, w), (own, _) in zip(wanted.fields, t.fields, strict=True)
        )
        return For(row, bag, Sng(Record(fields), ONE))

    def distinct(self, bag: Term) -> Term:
        """Every row that is there, once."""
        return distinct(bag, self.fresh("k"), self.fresh("v"))

    # --- order and limit --------------------------------------------------------------------------------------

    def ordered_rows(self, bag: Term, node: exp.Expr, names: list[str] | None = None) -> Term:
        """ORDER BY and LIMIT over rows whose columns are the only names."""
        if not (node.args.get("limit") or node.args.get("offset") or node.args.get("order")):
            return bag
        row = Var(self.fresh("r"), type_of(bag).key)
        rows = Rows([(row, bag)], [], [Source("", row)])
        columns: list[Term] = [Field(row, n) for n, _ in type_of(row).fields]
        given = names or [n for n, _ in type_of(row).fields]
        keys, directions = order_keys(Expressions(self, Scope(rows)), node, given, columns)
        return self.limited(
            node, directions, lambda: For(row, bag, Sng(ranked(keys, row), ONE)), bag
        )

    def limited(self, node: exp.Expr, directions: Any, ranked_bag: Any, plain: Term) -> Term:
        """The first rows in order; a bag has no order, so without LIMIT there is nothing to do."""
        limit, offset = self._count(node, "limit"), self._count(node, "offset")
        if limit is None and not offset:
            return plain
        return Answer("first", (limit, offset or 0, tuple(directions)), ranked_bag())

    def _count(self, node: exp.Expr, name: str) -> int | None:
        clause = node.args.get(name)
        if clause is None or (clause.expression.name.upper() == "ALL" and name == "limit"):
            return None
        if isinstance(clause.expression, exp.Literal) and clause.expression.is_int:
            return int(clause.expression.this)
        raise self.error(
            QueryError,
            f"{name.upper()} takes a whole number, not `{clause.expression.sql(dialect='spark')}`",
            clause,
            hint="write the number",
        )


def _summands(node: exp.Union) -> list[exp.Expr]:
    """The queries that a chain of UNION adds: what is made distinct in the end may be so on the way, too."""
    out, left = [node.right], node.left
    while isinstance(left, exp.Union) and not any(
        left.args.get(a) for a in ("with_", "order", "limit", "offset")
    ):
        if left.args.get("distinct") and not node.args.get("distinct"):
            break
        out.append(left.right)
        left = left.left
    return [left, *reversed(out)]
