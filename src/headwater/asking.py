"""What Spark says of an expression when a view is defined: its type, or what is wrong with it.

The expression is analysed over columns with the types of its arguments, as it is evaluated later, and nothing runs.
It stands inside of an aggregate and in the condition of one, where Spark refuses aggregates, window functions,
generators and all that is not deterministic, so that none of these slips in as a scalar.
"""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import types as st

from headwater.calculus import types as ty
from headwater.calculus.types import KeyType, ListType, RecordType
from headwater.compiler.scalar import spark_type
from headwater.engine.session import Session, telling
from headwater.language.sql.opaque import Told

_SCALARS: dict[type[st.DataType], KeyType] = {
    st.BooleanType: ty.BOOLEAN,
    st.ByteType: ty.TINYINT,
    st.ShortType: ty.SMALLINT,
    st.IntegerType: ty.INTEGER,
    st.LongType: ty.BIGINT,
    st.FloatType: ty.FLOAT,
    st.DoubleType: ty.DOUBLE,
    st.CharType: ty.STRING,
    st.VarcharType: ty.STRING,
    st.BinaryType: ty.BINARY,
    st.DateType: ty.DATE,
    st.TimestampType: ty.TIMESTAMP,
    st.TimestampNTZType: ty.TIMESTAMP_NTZ,
    st.NullType: ty.VOID,
}


class Asking:
    """Asks Spark, and remembers what it said."""

    def __init__(self, session: Session):
        self.session = session
        self.told: dict[tuple[str, tuple[KeyType, ...]], Told] = {}

    @property
    def zone(self) -> str:
        """The time zone in which text is read as an instant."""
        return self.session.zone

    def __call__(self, template: str, types: tuple[KeyType, ...]) -> Told:
        """What Spark says of a template over columns of the given types."""
        if (template, types) not in self.told:
            self.told[template, types] = self._ask(template, types)
        return self.told[template, types]

    def _ask(self, template: str, types: tuple[KeyType, ...]) -> Told:
        names = [f"_{i}" for i in range(len(types))]
        text = template.format(*names)
        with telling("reading an expression"):
            columns = [
                f"CAST(NULL AS {spark_type(t)}) AS {n}" for t, n in zip(types, names, strict=True)
            ]
            table = self.session.spark.sql(f"SELECT {', '.join(columns) or '1 AS _0'}")
            tried = f"any_value({text}) FILTER (WHERE ({text}) IS NULL) AS x"
            try:
                found = table.selectExpr(tried).schema["x"].dataType
            except AnalysisException as e:
                return self._refused(e)
        return Told(found.simpleString(), key_type(found))

    def _refused(self, e: AnalysisException) -> Told:
        condition = e.getCondition() or ("PARSE" if "Parse" in type(e).__name__ else "")
        lines = [x.strip() for x in str(e).splitlines() if x.strip()]
        short = lines[0].partition("] ")[2] or lines[0]
        routine = ""
        if "ROUTINE" in condition:
            routine = (e.getMessageParameters() or {}).get("routineName", "").replace("`", "")
            if routine and self.session.user.catalog.functionExists(routine):
                condition = "USER_FUNCTION"
        problem = short.partition(" SQLSTATE")[0].rstrip(". ")
        return Told("", None, condition, problem, routine)


def key_type(t: st.DataType) -> KeyType | None:
    """A type of Spark as a key type; None where there is none."""
    if isinstance(t, st.DecimalType):
        return ty.decimal(t.precision, t.scale)
    if isinstance(t, st.StructType):
        fields = [(f.name, key_type(f.dataType)) for f in t.fields]
        known = tuple((n, f) for n, f in fields if f is not None)
        names = {n.lower() for n, _ in known}
        return RecordType(known) if known and len(names) == len(fields) else None
    if isinstance(t, st.ArrayType):
        element = key_type(t.elementType)
        return None if element is None else ListType(element)
    if type(t) is st.StringType:  # with its own collation, two strings that differ may be equal
        return ty.STRING if t.simpleString() == "string" else None
    return _SCALARS.get(type(t))
