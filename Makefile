# The verbs, the same by hand and in CI. `make demo` and `make test` need nothing but Python and this folder.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: demo test lint bench golden train-tools clean

$(BIN)/metier: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[all]' --group dev
	@touch $@

demo: $(BIN)/metier  ## the main job on examples/skills, explained step by step
	$(BIN)/metier demo

test: $(VENV)/.dev  ## the whole suite, offline once installed
	$(BIN)/python -m pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

golden: $(VENV)/.dev  ## rewrite the golden files; review the difference
	METIER_GOLDEN=write $(BIN)/python -m pytest -k golden

bench: $(VENV)/.dev  ## every benchmark that needs no outside data; see benchmarks/README.md for the rest
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache
