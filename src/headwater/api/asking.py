"""What Spark says of an expression when a view is defined: its type, or what is wrong with it.

The expression is analysed over columns with the types of its arguments, as it is evaluated later, and nothing runs.
It stands inside of an aggregate and in the condition of one, where Spark refuses aggregates, window functions,
generators and all that is not deterministic, so that none of these slips in as a scalar.
"""

from __future__ import annotations

from pyspark.errors import AnalysisException

from headwater.calculus.types import KeyType
from headwater.engine.spark.session import Session, telling
from headwater.interop.spark_text import spark_type
from headwater.interop.spark_types import key_type
from headwater.language.sql.opaque import Told


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
