#!/usr/bin/env bash
# Property tests with the `fuzz` profile of tests/conftest.py, which reads FUZZ_EXAMPLES: the number
# of examples for each law. Without it, rounds follow each other until a law fails or ^C.
set -euo pipefail
cd "$(dirname "$0")/.."

round() {
  .venv/bin/python -m pytest -n "${JOBS:-2}" -m "property and not spark" --hypothesis-profile=fuzz
}

if [ -n "${FUZZ_EXAMPLES:-}" ]; then
  round
else
  for ((n = 1; ; n++)); do
    echo "== round $n, $SECONDS s"
    round
  done
fi
