# Each target works on a fresh clone with nothing installed but Python 3.11 or newer.
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2

.PHONY: setup test lint bench demo docs results clean

setup: .venv/installed

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

bench: setup
	$(BIN)/python -m benchmarks.layer
	$(BIN)/python -m benchmarks.footprint

demo: setup
	$(BIN)/python -m examples.demo

docs: setup
	$(BIN)/python docs/figures.py

results: setup
	$(BIN)/python -m benchmarks.results --train all

clean:
	rm -rf .venv .cache build dist demo .mypy_cache .ruff_cache .pytest_cache
