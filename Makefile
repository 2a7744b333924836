# Each target makes .venv and installs what it needs, with the versions of requirements.lock.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock

.PHONY: demo test test-engines lint docs bench clean

demo: .venv/demo.done
	rm -rf build/demo
	$(BIN)/dpbayes demo -o build/demo

test: .venv/test.done
	$(BIN)/python -m pytest -n auto

# PySpark too, which needs Java (Debian's default-jre-headless).
test-engines: .venv/engines.done
	$(BIN)/python -m pytest -m engines tests/test_spark.py

lint: .venv/lint.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv/docs.done
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: .venv/bench.done
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv site build dist

.venv/bin/python:
	$(PYTHON) -c "import sys; sys.exit('dpbayes needs Python 3.11 or later') if sys.version_info < (3, 11) else None"
	$(PYTHON) -m venv .venv

.venv/demo.done: .venv/bin/python pyproject.toml requirements.lock
	$(PIP) --editable .
	@touch $@

.venv/test.done .venv/engines.done .venv/lint.done .venv/docs.done .venv/bench.done: .venv/%.done: .venv/bin/python pyproject.toml requirements.lock
	$(PIP) --editable ".[$*]"
	@touch $@
