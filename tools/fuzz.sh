#!/usr/bin/env bash
# Property tests with the `fuzz` profile of tests/conftest.py, which reads FUZZ_EXAMPLES: the number
# of examples for each law. Without it, rounds follow each other until a law fails or ^C.
# Usage: tools/fuzz.sh [views|nested|dataflow|bounds|streams|edits|loops]    (only random views on a database, flat, which needs Spark, or nested; or
# graphs; or stories of what is over; of streams; of views that get other queries; or of loops)
set -euo pipefail
cd "$(dirname "$0")/.."
part=${1:-}

round() {
  if [ -n "$part" ]; then
    .venv/bin/python -m pytest tests/*/"test_${part}_fuzz.py" --hypothesis-profile=fuzz
  else
    .venv/bin/python -m pytest -n "${JOBS:-2}" -m "property and not spark" --hypothesis-profile=fuzz
  fi
}

if [ -n "${FUZZ_EXAMPLES:-}" ]; then
  round
else
  for ((n = 1; ; n++)); do
    echo "== round $n, $SECONDS s"
    round
  done
fi
