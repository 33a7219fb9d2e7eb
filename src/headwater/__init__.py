"""Headwater keeps the answers to queries up to date as data arrives.

A query is written once, as SQL; changes of its inputs, insertions and deletions, become changes of its answer:

>>> import tempfile, headwater as hw
>>> folder = tempfile.TemporaryDirectory()
>>> db = hw.open(folder.name)
>>> orders = db.source("orders", "id BIGINT, customer STRING")
>>> lines = db.source("lines", "order_id BIGINT, price BIGINT")
>>> revenue = db.view("revenue", '''SELECT customer, sum(price) AS total
...     FROM orders JOIN lines ON id = order_id GROUP BY customer''')
>>> first = db.apply({"orders": [(1, "Ada")], "lines": [(1, 10), (1, 5)]})
>>> second = db.apply({"lines": hw.Delta(inserts=[(1, 7)], deletes=[(1, 5)])})
>>> db.table("revenue").to_pylist()
[{'customer': 'Ada', 'total': 17, '_w': 1}]
>>> changes = db.changes_table("revenue", since=first.version).to_pylist()
>>> sorted((c["total"], c["_w"]) for c in changes)
[(15, -1), (17, 1)]
>>> db.close()
>>> folder.cleanup()

`db["revenue"].snapshot()` gives the same as a DataFrame. What a query is maintained by is in the calculus:

>>> q = hw.read_sql("SELECT id FROM orders WHERE id > 10", hw.schemas("orders(id BIGINT)"))
>>> hw.delta(q, {"orders"})
for orders1 in Δorders collect [orders1.id > 10:int] · {{id: orders1.id}}

Whatever Headwater raises is a `HeadwaterError`, which says what is wrong and what could be done; its kinds are in
`headwater.errors`:

>>> try:
...     hw.read_sql("SELECT nr FROM orders", hw.schemas("orders(id BIGINT)"))
... except hw.HeadwaterError as e:
...     type(e).__name__
'UnknownName'
"""

from headwater.api.database import Database
from headwater.api.database import open_database as open
from headwater.api.handles import Commit
from headwater.api.running import Progress
from headwater.calculus.data import from_python, to_python
from headwater.calculus.interpret import interpret
from headwater.calculus.patterns import ANYTHING as anything
from headwater.calculus.patterns import above, below, between, since, upto
from headwater.copies import DocumentCopy, ParquetCopy
from headwater.datasource import register
from headwater.engine.nested.documents import DeepChange
from headwater.errors import HeadwaterError
from headwater.io.events import Delta
from headwater.language.auto_cdc import create_auto_cdc_flow
from headwater.language.closes import closed, watermark
from headwater.language.comprehension import Query, mode, query, repeat, within
from headwater.language.functions import function
from headwater.language.schema import schemas
from headwater.language.sql import read_sql
from headwater.language.views import materialized_view
from headwater.plan.nested.shred import nest, shred
from headwater.rules.delta import delta
from headwater.show.explain import explain
from headwater.version import VERSION as __version__

__all__ = [
    "create_auto_cdc_flow",
    "materialized_view",
    "Commit",
    "Database",
    "DeepChange",
    "Delta",
    "DocumentCopy",
    "HeadwaterError",
    "ParquetCopy",
    "Progress",
    "Query",
    "above",
    "anything",
    "below",
    "between",
    "closed",
    "delta",
    "explain",
    "from_python",
    "function",
    "interpret",
    "mode",
    "nest",
    "open",
    "query",
    "read_sql",
    "register",
    "repeat",
    "schemas",
    "shred",
    "since",
    "to_python",
    "upto",
    "watermark",
    "within",
    "__version__",
]
