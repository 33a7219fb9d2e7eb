"""Python comprehensions into terms of the calculus; `@query` is the way in."""

from headwater.language.comprehension.on_lists import mode, repeat, within
from headwater.language.comprehension.query import Query, query

__all__ = ["Query", "mode", "query", "repeat", "within"]
