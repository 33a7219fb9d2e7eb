"""The words of streams, for `import headwater.st as st`: schemas, patterns, steps, pipelines, and the differ."""

from headwater.folds.comparing import differ
from headwater.streams.columns import fields
from headwater.streams.differ import Differ, Difference
from headwater.streams.evaluator import Evaluator
from headwater.streams.pipeline import Query, Steps, on
from headwater.streams.regex import when
from headwater.streams.schema import (
    Bag,
    Event,
    Header,
    Par,
    PartitionBy,
    Seq,
    Sync,
)
from headwater.streams.tables import merged
from headwater.streams.words import (
    aggregate,
    carry,
    collect,
    every,
    filter,
    fold,
    frames,
    hierarchical,
    highest,
    join,
    lift,
    local_maxima,
    map,
    map_reduce,
    mark,
    parallel,
    partitioned,
    peaks,
    relational,
    union,
    window,
)

__all__ = [
    "Bag",
    "Difference",
    "Differ",
    "Evaluator",
    "Event",
    "Header",
    "Par",
    "PartitionBy",
    "Query",
    "Seq",
    "Steps",
    "Sync",
    "aggregate",
    "carry",
    "collect",
    "differ",
    "every",
    "fields",
    "filter",
    "fold",
    "frames",
    "hierarchical",
    "highest",
    "join",
    "lift",
    "local_maxima",
    "map",
    "map_reduce",
    "mark",
    "merged",
    "on",
    "parallel",
    "partitioned",
    "peaks",
    "relational",
    "union",
    "when",
    "window",
]
