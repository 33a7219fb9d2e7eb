#!/usr/bin/env bash
# Lint and types, the tests without Spark in two processes, and those with Spark in one that shares its session: all side
# by side, for no part keeps two cores busy alone. The one with Spark takes longest and goes first where they compete.
# What a part says is kept in build/test and printed when it and those before it are done; the last line sums up.
# Usage: tools/test.sh [all]    (all: the slow tests too, and laws with 200 examples in place of 45)
set -uo pipefail
cd "$(dirname "$0")/.."

python=.venv/bin/python
fast=" and not slow"
if [ "${1:-}" = all ]; then
  fast=
  export EXAMPLES="${EXAMPLES:-200}"
fi
logs=build/test
summary=
failed=0

mkdir -p "$logs"
# Without this, what runs in the background would outlive a ^C.
trap 'kill $(jobs -p) 2>/dev/null; exit 130' INT TERM

nice -n 5 make --no-print-directory lint >"$logs/lint" 2>&1 &
lint=$!
nice -n 5 "$python" -m pytest -n "${JOBS:-2}" --dist worksteal -m "not spark$fast" >"$logs/tests" 2>&1 &
tests=$!
"$python" -m pytest -m "spark$fast" >"$logs/spark" 2>&1 &
spark=$!

# Waits for a part, prints what it said and notes how it went. pytest's code 5 says that nothing was selected; make's own
# code for a failure is 2, so a lint that fails is never taken for that.
part() {
  local name=$1 process=$2 log=$3 code=0
  echo "== $name"
  wait "$process" || code=$?
  cat "$logs/$log"
  case $code in
    0) summary+="$name ok, " ;;
    5) summary+="$name: none, " ;;
    *) summary+="$name FAILED, " failed=1 ;;
  esac
}

part "lint" "$lint" lint
part "tests" "$tests" tests
part "Spark tests" "$spark" spark

echo "== $summary$SECONDS s"
exit "$failed"
