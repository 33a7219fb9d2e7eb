"""Python comprehensions into terms of the calculus; `@query` is the way in."""

from headwater.language.comprehension.query import Query, query

__all__ = ["Query", "query"]
