# Two commands on a fresh machine: `make train` and `make test`. Both set everything up first. `make check` while working.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help setup train check test lint types learn clean
.DEFAULT_GOAL := help

help:
	@echo "make train   set up, then train CartPole-v1 until it is solved"
	@echo "make check   lint, types and the quick tests: a minute, while working"
	@echo "make test    set up, then lint, check types and run every test that is not slow"
	@echo "make setup   install into $(VENV) and nothing else"
	@echo "make learn   learning over several seeds (slow)"
	@echo "make clean   remove $(VENV) and caches"

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

train: setup
	$(BIN)/gymnast train CartPole-v1

check: lint types
	$(BIN)/pytest -n 2 tests/unit tests/contract/test_every_engine.py

# Three at once on two cores: many tests wait for a process or a page. Neighbours stay together and share what they set up.
test: lint types
	$(BIN)/pytest -n 3 --dist worksteal

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

learn: setup
	$(BIN)/pytest -m slow -n 2

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache
