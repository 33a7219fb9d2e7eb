"""Headwater keeps the answers to queries up to date as data arrives.

A query is written once, as SQL or as a Python comprehension, and read into a calculus of maps from keys
to ring values. Its delta says how the answer changes when the inputs do:

>>> from headwater import delta, interpret, read_sql, schemas
>>> tables = schemas("orders(id BIGINT, item STRING, price BIGINT)")
>>> q = read_sql("SELECT item FROM orders WHERE price > 10", tables)
>>> delta(q, {"orders"})
for orders1 in Δorders collect [orders1.price > 10:int] · {{item: orders1.item}}
"""

from headwater.calculus.data import from_python, to_python
from headwater.calculus.interpret import interpret
from headwater.database import Database
from headwater.database import open_database as open
from headwater.engine.stage import Delta
from headwater.explain import explain
from headwater.handles import Commit
from headwater.language.comprehension import Query, query
from headwater.language.functions import function
from headwater.language.schema import schemas
from headwater.language.sql import read_sql
from headwater.rules.delta import delta
from headwater.rules.shred import nest, shred

__all__ = [
    "Commit",
    "Database",
    "Delta",
    "Query",
    "delta",
    "explain",
    "from_python",
    "function",
    "interpret",
    "nest",
    "open",
    "query",
    "read_sql",
    "schemas",
    "shred",
    "to_python",
]
