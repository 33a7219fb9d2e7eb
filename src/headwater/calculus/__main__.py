"""`python -m headwater.calculus --schema "r(a BIGINT)" "SELECT ..."`: a query at every stage.

Without arguments it tells the movie example. This is an entry point, and so may import every layer.
"""

from __future__ import annotations

import argparse
import sys

from headwater.command.movies import story
from headwater.errors import HeadwaterError
from headwater.language.schema import schemas
from headwater.language.sql import read_sql
from headwater.show.explain import explain


def main(arguments: list[str] | None = None) -> int:
    """Prints the stages of a query; 1 and a message if it cannot be read."""
    parser = argparse.ArgumentParser(
        prog="python -m headwater.calculus",
        description="Show a query's type, normal form, state and answer, deltas and shredded form.",
    )
    parser.add_argument("query", nargs="?", help="a SELECT; without it, the movie example")
    parser.add_argument(
        "--schema", default="", help='the tables, as "r(a BIGINT, b BIGINT); s(b BIGINT)"'
    )
    options = parser.parse_args(arguments)
    try:
        print(
            explain(read_sql(options.query, schemas(options.schema))) if options.query else story()
        )
    except HeadwaterError as e:
        print(e, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
