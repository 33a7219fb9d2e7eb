#!/usr/bin/env bash
# Lint and types, then the tests without Spark in two processes, then those with Spark in one that
# shares its session. All parts run even if one fails; the last line sums up.
# Usage: tools/test.sh [all]    (all: the slow tests too)
set -uo pipefail
cd "$(dirname "$0")/.."

python=.venv/bin/python
fast=" and not slow"
[ "${1:-}" = all ] && fast=
summary=
failed=0

# Runs a part and notes how it went. pytest's code 5 says that nothing was selected.
part() {
  local name=$1 code=0
  shift
  echo "== $name"
  "$@" || code=$?
  case $code in
    0) summary+="$name ok, " ;;
    5) summary+="$name: none, " ;;
    *) summary+="$name FAILED, " failed=1 ;;
  esac
}

# make's own code for a failure is 2, so a lint that fails is never taken for an empty selection.
part "lint" make --no-print-directory lint
part "tests" "$python" -m pytest -n "${JOBS:-2}" -m "not spark$fast"
part "Spark tests" "$python" -m pytest -m "spark$fast"

echo "== $summary$SECONDS s"
exit "$failed"
