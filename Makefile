# `make demo` and `make test` work from a fresh clone; every target may be run again.

PY := .venv/bin/python
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
# Where this is set, each worker of Spark and each process that a test starts would compile every module again.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help setup java servers demo test test-all sql-report fuzz bench lint format golden docs lock clean

help:  ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.stamp  ## create .venv with the locked dependencies

.venv/.stamp: pyproject.toml constraints.txt tools/setup.sh
	@tools/setup.sh
	@touch $@

java:  ## check for Java 17 or newer; install it where that is possible
	@tools/java.sh

servers:  ## have PostgreSQL and a Kafka broker for the tests, where that is possible
	@tools/postgres.sh
	@tools/kafka.sh || echo "Tests that need a Kafka broker are skipped."

demo: setup java  ## orders arrive day by day and two views stay fresh; about a minute
	@rm -rf build/demo
	@.venv/bin/headwater demo --dir build/demo

test: setup java servers  ## lint, types, and all but the slow tests, side by side
	@tools/test.sh

test-all: setup java servers  ## the same with the slow tests
	@tools/test.sh all

sql-report: setup java  ## what of SQL is maintained, by clause; PART=a family of tests/data/retail
	@PYTHONPATH=src:tests/oracles:tests/data $(PY) tools/sql_report.py $(PART)

fuzz: setup  ## property tests until one fails, or with FUZZ_EXAMPLES=n once; PART=views, nested, dataflow, bounds, streams, edits or loops for those of databases
	@tools/fuzz.sh $(PART)

bench: setup java  ## run the benchmarks; PART=one of them, SCALE=full for the large sizes
	@if [ -f benchmarks/__main__.py ]; then \
	  $(PY) -m benchmarks $(PART) $(if $(SCALE),--scale $(SCALE)); \
	else \
	  echo "No benchmark is part of this version."; \
	fi

lint: setup  ## check the format, the lint rules and the types
	@$(PY) -m ruff format --check --quiet . || { echo "Some files are not formatted: run 'make format'."; exit 1; }
	@$(PY) -m ruff check --quiet .
	@$(PY) -m mypy --no-error-summary

format: setup  ## format the code and sort the imports
	@$(PY) -m ruff check --quiet --fix-only .
	@$(PY) -m ruff format --quiet .

golden: setup  ## rewrite the golden files; read the diff
	@$(PY) -m pytest tests/rules/test_golden.py tests/plan/test_failures.py tests/plan/test_golden_plans.py tests/streams/test_verdicts.py --golden

docs: setup  ## build the API reference from the docstrings into build/docs
	@$(PY) -W "ignore:Error parsing type annotation" -m pdoc --output-directory build/docs headwater
	@echo "build/docs/index.html"

lock: setup  ## resolve the newest allowed dependencies anew and write constraints.txt
	@tools/lock.sh

clean:  ## remove what the other targets made, except .venv
	@rm -rf build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache spark-warehouse metastore_db derby.log
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
