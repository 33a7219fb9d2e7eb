"""What a schema says beside names and types: what is never NULL, how long text may be, and which columns are the key.

Each of these is kept with the source and enforced, or refused by name; none is dropped. A limit stands at a path: a
column, fields inside of it, and `[]` for the elements of an array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from headwater.calculus.types import Boxed, ListType, MapType, RecordType, Type
from headwater.errors import ParseError
from headwater.interop.spark_text import column_name
from headwater.language.schema import columns, schema_tree, sql_name

ELEMENT = "[]"
Path = tuple[str, ...]
_TEXTS = (exp.DataType.Type.VARCHAR, exp.DataType.Type.NVARCHAR)
_PADDED = (exp.DataType.Type.CHAR, exp.DataType.Type.NCHAR)


@dataclass(frozen=True)
class Limit:
    """What holds of the values at a path: whether they may be NULL, and how many characters they have at most."""

    path: Path
    never_null: bool = False
    most: int | None = None


@dataclass(frozen=True)
class Declared:
    """A schema: the columns, what holds of them, and the key that it names."""

    row: RecordType
    limits: tuple[Limit, ...] = ()
    key: tuple[str, ...] = ()

    @property
    def ddl(self) -> str:
        """The columns and limits as DDL; the key is kept beside it."""
        return ddl_of(self.row, self.limits)


def declared(ddl: str) -> Declared:
    """A schema from DDL text: `id BIGINT NOT NULL, item VARCHAR(20), PRIMARY KEY (id)`."""
    row = columns(ddl)
    keys: list[tuple[str, ...]] = []
    limits: list[Limit] = []
    for item in schema_tree(ddl):
        if isinstance(item, exp.ColumnDef):
            _column(item, (), limits, keys)
        else:
            keys += [_key(k) for k in _keys(item)]
    if len(keys) > 1:
        raise ParseError(f"the schema `{ddl}` has two primary keys", hint="name all columns in one")
    return Declared(row, tuple(limits), keys[0] if keys else ())


def _keys(item: exp.Expression) -> Iterator[exp.PrimaryKey]:
    """The primary keys that a constraint of a table is."""
    if isinstance(item, exp.Constraint):
        for inner in item.expressions:
            yield from _keys(inner)
    elif isinstance(item, exp.PrimaryKey):
        yield item
    else:
        raise _refused(item)


def _key(item: exp.PrimaryKey) -> tuple[str, ...]:
    return tuple(e.name for e in item.expressions)


def _column(
    item: exp.ColumnDef, above: Path, limits: list[Limit], keys: list[tuple[str, ...]]
) -> None:
    path, never_null = (*above, item.name), False
    for constraint in item.args.get("constraints") or ():
        match constraint.kind:
            case exp.NotNullColumnConstraint(args=args):
                never_null = not args.get("allow_null")
            case exp.PrimaryKeyColumnConstraint() if not above:
                keys.append((item.name,))
            case exp.CommentColumnConstraint():
                pass  # it says nothing of the values
            case _:
                raise _refused(constraint.kind)
    _type(item.args["kind"], path, never_null, limits, keys)


def _type(
    kind: exp.DataType,
    path: Path,
    never_null: bool,
    limits: list[Limit],
    keys: list[tuple[str, ...]],
) -> None:
    most = None
    if kind.this in _TEXTS and kind.expressions:
        most = int(kind.expressions[0].name)
    if kind.this in _PADDED:
        raise ParseError(
            f"{kind.sql(dialect='spark')} pads text with blanks, which is not kept here",
            hint="declare the column VARCHAR(n) or STRING",
        )
    if never_null or most is not None:
        limits.append(Limit(path, never_null, most))
    for inner in kind.expressions:
        if isinstance(inner, exp.ColumnDef):
            _column(inner, path, limits, keys)
        elif isinstance(inner, exp.DataType):
            _type(inner, (*path, ELEMENT), False, limits, keys)


def _refused(item: exp.Expression) -> ParseError:
    what = item.sql(dialect="spark")
    hints = {
        exp.DefaultColumnConstraint: "give every row all of its columns, and leave DEFAULT out",
        exp.ComputedColumnConstraint: "compute the column in a view",
    }
    hint = hints.get(type(item), "leave it out; NOT NULL, PRIMARY KEY and VARCHAR(n) are enforced")
    return ParseError(f"`{what}` in a schema is not enforced here", hint=hint)


def ddl_of(row: RecordType, limits: Sequence[Limit] = ()) -> str:
    """A row type as DDL, with what holds of its columns."""
    known = {m.path: m for m in limits}
    return ", ".join(
        f"{column_name(n)} {_written(t, (n,), known)}{_suffix((n,), known)}" for n, t in row.fields
    )


def _suffix(path: Path, known: dict[Path, Limit]) -> str:
    return " NOT NULL" if path in known and known[path].never_null else ""


def _written(t: Type, path: Path, known: dict[Path, Limit]) -> str:
    if path in known and known[path].most is not None:
        return f"varchar({known[path].most})"
    if not any(p[: len(path)] == path for p in known):
        return sql_name(t)
    match t:
        case Boxed(MapType(element, _)) | ListType(element):
            return f"array<{_written(element, (*path, ELEMENT), known)}>"
        case RecordType(fields):
            cells = [
                f"{n}: {_written(f, (*path, n), known)}{_suffix((*path, n), known)}"
                for n, f in fields
            ]
            return f"struct<{', '.join(cells)}>"
        case _:
            return sql_name(t)


def ddl_of_struct(schema: Any) -> str:
    """A StructType of Spark as DDL, with what it says of NULL and of lengths."""
    return ", ".join(_field(f, " ") for f in schema.fields)


def _field(field: Any, between: str) -> str:
    if "CURRENT_DEFAULT" in field.metadata:
        default = exp.DefaultColumnConstraint(this=exp.var(field.metadata["CURRENT_DEFAULT"]))
        raise _refused(default)
    kept = field.metadata.get("__CHAR_VARCHAR_TYPE_STRING")
    t = kept if kept is not None else _struct_type(field.dataType)
    return f"{column_name(field.name)}{between}{t}{'' if field.nullable else ' NOT NULL'}"


def _struct_type(t: Any) -> str:
    if t.typeName() == "array":
        if not t.containsNull:
            raise ParseError(
                "an array whose elements are never NULL cannot be declared",
                hint="make its ArrayType with containsNull=True",
            )
        return f"array<{_struct_type(t.elementType)}>"
    if t.typeName() == "struct":
        return f"struct<{', '.join(_field(f, ': ') for f in t.fields)}>"
    return str(t.simpleString())


def limits_below(limits: Sequence[Limit], path: str) -> tuple[Limit, ...]:
    """What holds of the rows of an array, or of all rows for the path "", by paths in such a row."""
    above: Path = tuple(s for n in path.split(".") if n for s in (n, ELEMENT))
    low = tuple(s.lower() for s in above)
    return tuple(
        Limit(m.path[len(above) :] or ("value",), m.never_null, m.most)
        for m in limits
        if tuple(s.lower() for s in m.path[: len(above)]) == low
    )
