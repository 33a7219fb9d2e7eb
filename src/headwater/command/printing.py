"""Rows as lines of JSON, for programs; what JSON has no word for is text, as Spark's `to_json` would write it."""

from __future__ import annotations

import base64
import json
import math
import sys
from collections.abc import Mapping
from typing import Any

import pyarrow as pa


def print_rows(table: pa.Table) -> None:
    """Prints a table, a line of JSON for each row."""
    for row in table.to_pylist():
        print_json(row)


def print_json(value: Any) -> None:
    """Prints a value as one line of JSON, at once."""
    sys.stdout.write(json.dumps(plain(value), ensure_ascii=False) + "\n")
    sys.stdout.flush()


def plain(value: Any) -> Any:
    """A value in the words of JSON."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Mapping():
            return {str(k): plain(v) for k, v in value.items()}
        case list() | tuple():
            return [plain(v) for v in value]
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case _:
            return str(value)
