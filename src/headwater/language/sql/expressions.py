"""Scalar SQL expressions as key terms, and conditions as ring factors.

`Expressions.key` reads an expression of a SELECT in its scope; types are made to agree by casts where
Spark's ANSI coercion has them, and refused where it does not. `Expressions.factors` reads a condition
as the numbers that it multiplies rows with: a conjunction is a product, EXISTS is ¬¬ of a count.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from headwater.calculus.check import type_of
from headwater.calculus.lists import can_list
from headwater.calculus.ring import number
from headwater.calculus.scalars import AS_BAG, OR_EMPTY, SCALARS, common_type
from headwater.calculus.terms import (
    Box,
    Call,
    Const,
    Pred,
    Record,
    Term,
)
from headwater.calculus.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIMESTAMP,
    VOID,
    Base,
    Boxed,
    KeyType,
    ListType,
    RecordType,
    bag,
)
from headwater.errors import (
    AmbiguousColumn,
    HeadwaterError,
    IllTyped,
    NotIncremental,
    ParseError,
    QueryError,
    ScalarError,
    TypeMismatch,
    UnknownName,
)
from headwater.language.build import decimal_literal
from headwater.language.schema import sql_name, type_of_ddl
from headwater.language.sql import calls, opaque, subqueries, units
from headwater.language.sql.arguments import unread
from headwater.language.sql.coerce import (
    as_decimal_literal,
    can_cast,
    case_of,
    cast_to,
    folded,
    is_integral,
    with_backslash,
)
from headwater.language.sql.depth import LONGEST, chain
from headwater.language.sql.functions import ARITHMETIC, COMPARISONS, FUNCTIONS
from headwater.language.sql.intervals import shifted
from headwater.language.sql.refusals import refusal, unknown_column
from headwater.language.sql.scope import Scope, field_of, nested

if TYPE_CHECKING:
    from headwater.language.sql.aggregate import Grouping
    from headwater.language.sql.reader import Reader
    from headwater.language.sql.windows import Windows

NULL_OF = Const(None, VOID)

LONG = 10
"""Constants in an IN from which on they are one constant, and not one comparison each."""

_CHAINED = (*ARITHMETIC, *COMPARISONS)

_PERHAPS_SPARK = ("UNSUPPORTED_EXPRESSION", "ARRAY_ORDER")
"""Refusals of ours of what Spark may know as a scalar."""


class Expressions:
    """The expressions of one SELECT: its scope, its grouping if it has one, and its aliases."""

    def __init__(self, reader: Reader, scope: Scope, grouping: Grouping | None = None):
        self.reader, self.scope, self.grouping = reader, scope, grouping
        self.aliases: dict[str, exp.Expr] = {}
        self._inside = False
        self._chained: dict[int, tuple[exp.Expr, Term]] = {}
        self.outputs: dict[str, Term] = {}
        self.windows: Windows | None = None

    def key(self, e: exp.Expr) -> Term:
        """The key term of an expression; in ORDER BY the names of the output come first."""
        if isinstance(e, exp.Column) and not e.table and e.name.lower() in self.outputs:
            return self.outputs[e.name.lower()]
        if self.grouping is not None:
            known = self.grouping.term_of(e)
            if known is not None:
                return known
        if (read := self._chained.get(id(e))) is not None and read[0] is e:
            return read[1]
        if self._inside:
            return self._chain(e)
        self._inside = True
        try:
            return self._chain(e)
        except opaque.Unread as unread:
            raise unread.error from None
        finally:
            self._inside = False

    def _chain(self, e: exp.Expr) -> Term:
        """An expression whose left side is a chain of operators is read from its beginning on, not from its end."""
        links = list(chain(e, _CHAINED))
        if len(links) > LONGEST:
            raise self.reader.too_deep(None)
        for link in reversed(links[1:]):
            try:
                self._chained[id(link)] = link, self.key(link)
            except (HeadwaterError, opaque.Unread):
                break  # the whole may be read as one
        return self._read(e)

    def _read(self, e: exp.Expr) -> Term:
        """In the language, or else as one call of Spark; `Unread` where only the expression around it may be."""
        exploded = isinstance(e.parent, (exp.Explode, exp.Inline))
        try:
            term = self._typed(e)
            t = type_of(term)
            if exploded and isinstance(t, ListType):
                return Call(AS_BAG, (term,), Boxed(bag(t.element)))
            return term
        except opaque.Unread as unread:
            cause = unread
        except (TypeMismatch, ParseError) as error:
            cause = opaque.Unread(error)
        except NotIncremental as error:
            if error.reason not in ("INTERVAL", "ARRAY_ORDER"):
                raise
            cause = opaque.Unread(error)
        return opaque.read(self, e, cause, exploded)

    def _typed(self, e: exp.Expr) -> Term:
        try:
            term = self._key(e)
            type_of(term)
        except IllTyped as error:
            raise self.reader.error(
                TypeMismatch,
                f"{self._described(e)} cannot be computed: found {error.found}",
                e,
                hint="cast the operands to a common type",
            ) from error
        return term

    def factors(self, e: exp.Expr, nothing: bool = False) -> list[Term]:
        """A condition as factors: all must be non-zero for a row to stay; a bare NULL is one only beside others."""
        match e:
            case exp.Paren():
                return self.factors(e.this, nothing)
            case exp.And():
                return [*self.factors(e.left, True), *self.factors(e.right, True)]
            case exp.Exists() | exp.In() if _has_query(e):
                return [subqueries.factor(self, e, negated=bool(e.args.get("negate")))]
            case exp.Not(this=exp.Exists() | exp.In() as inner) if _has_query(inner):
                return [subqueries.factor(self, inner, negated=True)]
            case _:
                return [Pred(self._condition(e, nothing))]

    def _condition(self, e: exp.Expr, nothing: bool = False) -> Term:
        """A boolean; a bare NULL has no type with Spark, and is one only where it is cast."""
        condition = self.key(e)
        if nothing and type_of(condition) == VOID:
            return Const(None, BOOLEAN)
        if type_of(condition) != BOOLEAN:
            raise self.reader.error(
                TypeMismatch,
                f"{self._described(e)} is {sql_name(type_of(condition))}, not a boolean",
                e,
                hint="compare it with something",
            )
        return condition

    def scope_for_subquery(self) -> Scope:
        """What a subquery sees around it: after grouping only the group's keys."""
        return self.scope if self.grouping is None else self.grouping.outer_scope(self)

    # --- dispatch -------------------------------------------------------------------------------------

    def _key(self, e: exp.Expr) -> Term:
        kind = type(e)
        if unread(e) is not None:
            return self.unsupported(e)
        if kind in COMPARISONS:
            return self.compare(COMPARISONS[kind], e, self.key(e.this), self.key(e.expression))
        if kind in ARITHMETIC:
            return self._arithmetic(ARITHMETIC[kind], e)
        if kind in FUNCTIONS:
            name, *args = FUNCTIONS[kind]
            return Call(name, tuple(self.key(e.args[a]) for a in args if e.args.get(a) is not None))
        call = calls.known(e)
        if call is not None:
            return call(self, e)
        handler: Callable[[Any], Term] | None = getattr(self, f"_{kind.__name__.lower()}", None)
        if handler is not None:
            return handler(e)
        if self.grouping is None and self.reader.is_aggregate(e):
            raise self.misplaced(e)
        return self.unsupported(e)

    def misplaced(self, e: exp.Expr) -> QueryError:
        """An aggregate where there are no groups."""
        return self.reader.error(
            QueryError,
            f"the aggregate {self._described(e)} stands where rows are not grouped",
            e,
            hint="use HAVING, or aggregate in a subquery",
        )

    def _described(self, e: exp.Expr) -> str:
        return f"`{e.sql(dialect='spark')}`"

    def unsupported(self, e: exp.Expr) -> Term:
        error = self.refusal(e)
        if isinstance(error, NotIncremental) and error.reason not in _PERHAPS_SPARK:
            raise error
        raise opaque.Unread(error)

    def refusal(self, e: exp.Expr) -> HeadwaterError:
        """Why an expression is not in the language."""
        return refusal(self.reader, e)

    # --- leaves ---------------------------------------------------------------------------------------

    def _literal(self, e: exp.Literal) -> Term:
        if e.is_string:
            return Const(e.this, STRING)
        text: str = e.this
        if "e" in text.lower():
            return Const(float(text), DOUBLE)
        if "." in text:
            return self._decimal(e)
        value = int(text)
        if value >= 1 << 63:
            return self._decimal(e)
        return Const(value, INTEGER if value < 1 << 31 else BIGINT)

    def _decimal(self, e: exp.Literal) -> Term:
        exact = decimal_literal(Decimal(e.this))
        if exact is None:
            raise self.reader.error(TypeMismatch, f"{e.this} has more than 38 digits", e)
        return exact

    def _boolean(self, e: exp.Boolean) -> Term:
        return Const(bool(e.this), BOOLEAN)

    def _null(self, _: exp.Null) -> Term:
        return NULL_OF

    def _paren(self, e: exp.Paren) -> Term:
        return self.key(e.this)

    def _alias(self, e: exp.Alias) -> Term:
        return self.key(e.this)

    def _column(self, e: exp.Column) -> Term:
        parts = [p.name for p in e.parts]
        try:
            found = self.scope.resolve(parts)
        except AmbiguousColumn as error:
            raise self.reader.error(AmbiguousColumn, error.what, e, hint=error.hint) from None
        if self.grouping is not None and self.scope.local(parts) is not None:
            raise self.reader.error(
                QueryError,
                f"{self._described(e)} is neither grouped by nor aggregated",
                e,
                hint="add it to GROUP BY, or aggregate it",
            )
        if found is None and parts[0].lower() in self.aliases:
            found = nested(self.key(self.aliases[parts[0].lower()]), parts[1:])
        if found is None:
            raise unknown_column(self.reader, self.scope, e)
        return found

    def _dot(self, e: exp.Dot) -> Term:
        inner = self.key(e.this)
        t = type_of(inner)
        if not isinstance(t, RecordType):
            return self.unsupported(e)
        names = {n.lower(): n for n, _ in t.fields}
        if e.expression.name.lower() not in names:
            raise self.reader.error(
                UnknownName, f"{self._described(e.this)} has no field `{e.expression.name}`", e
            )
        return field_of(inner, names[e.expression.name.lower()])

    def _struct(self, e: exp.Struct) -> Term:
        fields: list[tuple[str, Term]] = []
        for i, part in enumerate(e.expressions):
            if isinstance(part, exp.PropertyEQ):
                fields.append((part.this.name, self.key(part.expression)))
            else:
                fields.append((part.alias_or_name or f"col{i + 1}", self.key(part)))
        return Record(tuple(fields))

    # --- operators --------------------------------------------------------------------------------------

    def compare(self, op: str, e: exp.Expr, a: Term, b: Term) -> Term:
        """Two operands compared, cast to their common type first."""
        a, b = self._aligned(e, (a, b), keep_integral=True)
        return Call(op, (a, b))

    def among(self, e: exp.In) -> Term:
        """x IN (a, b, ...), all in their common type; a long list of constants is one constant."""
        value = self.key(e.this)
        listed = [
            self._literal(p) if isinstance(p, exp.Literal) else self.key(p) for p in e.expressions
        ]
        if len(listed) >= LONG and can_list(type_of(value)):
            value, *others = self._aligned(e, (value, *listed))
            constants = [c for c in map(folded, others) if c is not None]
            if len(constants) == len(listed):
                values = tuple(number(c.value) for c in constants)
                return Call("among", (value, Const(values, ListType(type_of(value)))))
        value, *listed = self._aligned(e, (value, *listed), keep_integral=True)
        tests = tuple(Call("=", (value, other)) for other in listed)
        return Call("or", tests) if len(tests) > 1 else tests[0]

    def _nullsafeneq(self, e: exp.NullSafeNEQ) -> Term:
        return Call("not", (self.compare("<=>", e, self.key(e.this), self.key(e.expression)),))

    def _aligned(
        self, e: exp.Expr, terms: tuple[Term, ...], keep_integral: bool = False
    ) -> tuple[Term, ...]:
        """The terms cast to their common type; a string meets another type as that type."""
        common: KeyType | None = VOID
        for t in map(type_of, terms):
            if common is None:
                break
            merged = common_type(common, t)
            if merged is None and STRING in (common, t):
                other = t if common == STRING else common
                merged = (
                    BIGINT if is_integral(other) else other if isinstance(other, Base) else None
                )
            common = merged
        if common is None:
            raise self.reader.error(
                TypeMismatch,
                f"{self._described(e)} compares {' with '.join(sql_name(type_of(t)) for t in terms)}",
                e,
                hint="cast the operands to a common type",
            )
        if common == BINARY and any(type_of(t) == STRING for t in terms):
            self.unsupported(e)  # Spark makes bytes of the text
        self._not_zoned(e, terms, common)
        keep = keep_integral and is_integral(common)
        return tuple(t if keep and is_integral(type_of(t)) else cast_to(t, common) for t in terms)

    def _not_zoned(self, e: exp.Expr, terms: tuple[Term, ...], target: KeyType) -> None:
        """Leaves it to Spark to read a constant as an instant where the zone is not that of the calculus."""
        zone = "UTC" if self.reader.ask is None else self.reader.ask.zone
        constant = any(isinstance(t, Const) and type_of(t) not in (TIMESTAMP, VOID) for t in terms)
        if target == TIMESTAMP and constant and zone not in ("UTC", "Etc/UTC", "Z", "GMT"):
            self.unsupported(e)

    def _arithmetic(self, op: str, e: exp.Expr) -> Term:
        if isinstance(e.expression, exp.Interval):
            return self._shifted(op, e)
        a, b = self.key(e.this), self.key(e.expression)
        ta, tb = type_of(a), type_of(b)
        if op in ("+", "-") and ta == DATE and is_integral(tb):
            return Call("date_add" if op == "+" else "date_sub", (a, b))
        if isinstance(ta, Base) and isinstance(tb, Base) and "decimal" in (ta.name, tb.name):
            a, b = (as_decimal_literal(t) for t in (a, b))
        return Call(op, (a, b))

    def _shifted(self, op: str, e: exp.Expr) -> Term:
        made = shifted(op, e.expression, self.key(e.this))
        if made is None:
            raise self.reader.refuse(
                "INTERVAL",
                f"{self._described(e)} is not a date shifted by whole days or months, nor a time by hours and less",
                e,
                "cast to DATE, and use date_add or add_months",
            )
        return made

    def _neg(self, e: exp.Neg) -> Term:
        inner = self.key(e.this)
        if isinstance(e.this, exp.Literal) and e.this.this == str(1 << 63):
            return Const(-(1 << 63), BIGINT)  # the least bigint is written as a negated number
        if isinstance(inner, Const) and isinstance(inner.value, (int, float, Decimal)):
            return Const(-inner.value, inner.type)
        return Call("negate", (inner,))

    def _not(self, e: exp.Not) -> Term:
        inner = e.this.unnest()
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
            return Call("is_not_null", (self.key(inner.this),))
        if isinstance(inner, exp.In):
            return subqueries.is_in(self, inner, negated=not inner.args.get("negate"))
        if isinstance(inner, (exp.And, exp.Or)) and any(
            subqueries.has_query(x) for x in inner.find_all(exp.In)
        ):
            # Spark moves NOT inwards first, and NOT IN is not the negation of IN where there are NULLs.
            op = "or" if isinstance(inner, exp.And) else "and"
            return Call(op, tuple(self._not(exp.Not(this=x)) for x in inner.flatten()))
        return Call("not", (self.key(e.this),))

    def _and(self, e: exp.And) -> Term:
        return Call("and", tuple(self.key(x) for x in e.flatten()))

    def _or(self, e: exp.Or) -> Term:
        return Call("or", tuple(self.key(x) for x in e.flatten()))

    def _is(self, e: exp.Is) -> Term:
        inner = self.key(e.this)
        if isinstance(e.expression, exp.Null):
            return self._negated(e, Call("is_null", (inner,)))
        if isinstance(e.expression, exp.Boolean):
            return self._negated(e, Call("<=>", (inner, self.key(e.expression))))
        return self.unsupported(e)

    def _negated(self, e: exp.Expr, term: Term) -> Term:
        return Call("not", (term,)) if e.args.get("negate") else term

    def _like(self, e: exp.Like) -> Term:
        return self._negated(e, Call("like", (self.key(e.this), self.key(e.expression))))

    def _ilike(self, e: exp.ILike) -> Term:
        subject, pattern = (Call("lower", (self.key(x),)) for x in (e.this, e.expression))
        match pattern.args[0]:
            case Const(str() as word, _) if word.isascii():  # so that the pattern stays a constant
                return self._negated(e, Call("like", (subject, Const(word.lower(), STRING))))
        return self._negated(e, Call("like", (subject, pattern)))

    def _escape(self, e: exp.Escape) -> Term:
        """LIKE with an escape character of its own, in a literal pattern."""
        inner, escape = e.this, e.expression
        literal = isinstance(inner, exp.Like) and isinstance(inner.expression, exp.Literal)
        if not literal or not isinstance(escape, exp.Literal):
            return self.unsupported(e)
        pattern = Const(with_backslash(inner.expression.this, escape.this), STRING)
        return self._negated(inner, Call("like", (self.key(inner.this), pattern)))

    def _between(self, e: exp.Between) -> Term:
        value, low, high = (self.key(e.args[a]) for a in ("this", "low", "high"))
        both = Call("and", (self.compare(">=", e, value, low), self.compare("<=", e, value, high)))
        return self._negated(e, both)

    def _case(self, e: exp.Case) -> Term:
        conditions, results = [], []
        for branch in e.args["ifs"]:
            if e.this is not None:
                conditions.append(
                    self.compare("=", branch, self.key(e.this), self.key(branch.this))
                )
            else:
                conditions.append(self._condition(branch.this))
            results.append(self.key(branch.args["true"]))
        default = e.args.get("default")
        results.append(self.key(default) if default is not None else NULL_OF)
        return case_of(conditions, list(self._aligned(e, tuple(results))))

    def _if(self, e: exp.If) -> Term:
        otherwise = e.args.get("false")
        results = (
            self.key(e.args["true"]),
            self.key(otherwise) if otherwise is not None else NULL_OF,
        )
        return case_of([self.key(e.this)], list(self._aligned(e, results)))

    def _coalesce(self, e: exp.Coalesce) -> Term:
        match e.expressions:
            case [exp.Array(expressions=[])]:  # an array or the empty one: its elements stay rows
                array = self.key(e.this)
                if isinstance(type_of(array), Boxed):
                    return Call(OR_EMPTY, (array,), type_of(array))
        return Call("coalesce", self._aligned(e, tuple(map(self.key, (e.this, *e.expressions)))))

    def _nvl2(self, e: exp.Nvl2) -> Term:
        results = (self.key(e.args["true"]), self.key(e.args["false"]))
        return case_of([Call("is_not_null", (self.key(e.this),))], list(self._aligned(e, results)))

    def _nullif(self, e: exp.Nullif) -> Term:
        a, b = self.key(e.this), self.key(e.expression)
        return case_of([self.compare("=", e, a, b)], [Const(None, type_of(a)), a])

    def _greatest(self, e: exp.Greatest) -> Term:
        return Call("greatest", self._aligned(e, tuple(map(self.key, (e.this, *e.expressions)))))

    def _least(self, e: exp.Least) -> Term:
        return Call("least", self._aligned(e, tuple(map(self.key, (e.this, *e.expressions)))))

    # --- functions ------------------------------------------------------------------------------------------

    def _cast(self, e: exp.Cast) -> Term:
        target = self._target(e)
        inner = self.key(e.this)
        self._not_zoned(e, (inner,), target)
        if isinstance(e.this, exp.Literal) and e.this.is_string and target != STRING:
            try:
                return Const(SCALARS["cast"].apply(target, (STRING,), e.this.this), target)
            except ScalarError as error:
                raise self.reader.error(TypeMismatch, error.what, e.this) from error
        return self.castable(inner, target, e)

    def _target(self, e: exp.Cast) -> KeyType:
        """The type that a cast names."""
        try:
            return type_of_ddl(e.to)
        except ParseError as error:
            if e.to.this != exp.DataType.Type.DECIMAL:
                raise
            hint = "a decimal has 38 digits at most, those after the point among them"
            raise self.reader.refuse("TYPE", error.what, e, hint) from None

    def castable(self, term: Term, target: KeyType, e: exp.Expr) -> Term:
        source = type_of(term)
        if source == TIMESTAMP and is_integral(target):  # whole seconds
            return cast_to(Call("unix_seconds", (term,)), target)
        if source == TIMESTAMP and target == DOUBLE:
            micros = cast_to(Call("unix_micros", (term,)), DOUBLE)
            return Call("/", (micros, Const(1e6, DOUBLE)))
        if is_integral(source) and target == TIMESTAMP:
            return Call("as_timestamp", (cast_to(term, BIGINT),))
        if not can_cast(type_of(term), target):
            what = f"{sql_name(type_of(term))} cannot be cast to {sql_name(target)}"
            raise self.reader.error(TypeMismatch, what, e)
        return cast_to(term, target)

    def _trycast(self, e: exp.TryCast) -> Term:
        if not e.args.get("safe"):  # CAST of the Spark dialect; TRY_CAST is the safe one
            return self._cast(e)
        target, inner = self._target(e), self.key(e.this)
        if not can_cast(type_of(inner), target):
            return self.unsupported(e)
        return Call("try_cast", (inner,), target)

    def _anonymous(self, e: exp.Anonymous) -> Term:
        name = e.name.lower()
        if name in SCALARS and name[0].isalpha() and name not in units.INTERNAL:
            return Call(name, tuple(map(self.key, e.expressions)))
        if self.grouping is None and self.reader.is_aggregate(e):
            raise self.misplaced(e)
        return self.unsupported(e)

    def _window(self, e: exp.Window) -> Term:
        if self.windows is None:
            raise self.reader.error(
                QueryError,
                f"the window function {self._described(e)} stands where rows are filtered or grouped",
                e,
                hint="use QUALIFY, or filter in a query around this one",
            )
        return self.windows.term_of(self, e)

    # --- subqueries -----------------------------------------------------------------------------------------

    def _subquery(self, e: exp.Subquery) -> Term:
        return subqueries.scalar(self, e)

    def _exists(self, e: exp.Exists) -> Term:
        if not _has_query(e):
            return self.unsupported(e)
        return Call(">", (Box(subqueries.count(self, e)), Const(0, BIGINT)))

    def _in(self, e: exp.In) -> Term:
        return subqueries.is_in(self, e, negated=bool(e.args.get("negate")))


def _has_query(e: exp.Expr) -> bool:
    """Whether EXISTS or IN is over a subquery; `exists(array, x -> ...)` is not."""
    over = e.this if isinstance(e, exp.Exists) else e.args.get("query")
    return isinstance(over, (exp.Query, exp.Subquery))
