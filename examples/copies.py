"""Copies of a nested view outside: Parquet files, and documents in a store, that follow it by what changed inside.

The store is a dictionary; an adapter for MongoDB or Elasticsearch has the same methods. `python examples/copies.py`
"""

from __future__ import annotations

import tempfile

import headwater as hw
from headwater.api.copies import updated


@hw.query
def baskets(customers, lines):
    return [{"id": c.id, "items": [x.item for x in lines if x.of == c.id]} for c in customers]


class Store:
    """Documents by key, each with the version of its last change: a call that comes again does nothing."""

    def __init__(self):
        self.last, self.documents = None, {}

    def version(self):
        return self.last

    def put(self, key, document, version):
        print(f"  put {key}: {document}")
        self.documents[key] = (version, document)

    def delete(self, key, version):
        print(f"  delete {key}")
        self.documents.pop(key, None)

    def update(self, key, changes, version):
        print(f"  update {key}: {[(c.path, c.row, c.weight) for c in changes]}")
        at, document = self.documents[key]
        if at < version:
            self.documents[key] = (version, updated(document, changes))

    def done(self, version, whole):
        self.last = version
        if whole:  # what was not put is gone
            self.documents = {k: d for k, d in self.documents.items() if d[0] == version}


with tempfile.TemporaryDirectory() as folder, hw.open(f"{folder}/db") as db:
    db.source("customers", "id BIGINT")
    db.source("lines", "of BIGINT, item STRING")
    view, store = db.view("baskets", baskets), Store()
    for change in (
        {"customers": [(1,), (2,)], "lines": [(1, "pen")]},
        {"lines": [(1, "ink")]},
        {"lines": hw.Delta(deletes=[(1, "pen")]), "customers": hw.Delta(deletes=[(2,)])},
    ):
        print("version", db.apply(change).version)
        hw.DocumentCopy(store).sync(view)
        hw.ParquetCopy(f"{folder}/copy").sync(view)
    print("the files:", hw.ParquetCopy(f"{folder}/copy").rows().to_pylist())
