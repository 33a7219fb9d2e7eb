#!/usr/bin/env bash
# Writes constraints.txt: what a fresh environment resolves to under the ranges of pyproject.toml.
set -euo pipefail
cd "$(dirname "$0")/.."

fresh=build/lock
rm -rf "$fresh"
.venv/bin/python -m venv "$fresh"
"$fresh/bin/python" -m pip install --quiet --disable-pip-version-check -e '.[dev]'
{
  echo "# The versions that the tests run with; written by 'make lock', used by 'make setup'."
  "$fresh/bin/python" -m pip freeze --disable-pip-version-check --exclude-editable
} > build/constraints.txt
mv build/constraints.txt constraints.txt
rm -rf "$fresh"
echo "constraints.txt written; 'make test' installs and tries it"
