#!/usr/bin/env bash
# Creates .venv with a Python of at least 3.11 and installs Headwater, editable, with the locked
# dependencies. Safe to run again: an environment that fits is kept and brought up to date.
set -euo pipefail
cd "$(dirname "$0")/.."

fits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

if ! fits .venv/bin/python; then
  python=
  for candidate in ${PYTHON:-} python3.11 python3 python3.12 python3.13 python3.14; do
    if fits "$candidate"; then python=$candidate && break; fi
  done
  if [ -z "$python" ]; then
    echo "Headwater needs Python 3.11 or newer, and none was found (python3: $(python3 --version 2>/dev/null || echo missing))." >&2
    echo "Install one, or name it: make setup PYTHON=path/to/python3.11" >&2
    exit 1
  fi
  if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    echo "$python lacks the venv module: install it (on Debian and Ubuntu: the python3-venv package)." >&2
    exit 1
  fi
  "$python" -m venv --clear .venv
fi

echo "Installing the locked dependencies into .venv (a minute or two the first time)" >&2
.venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
