# Two commands on a fresh machine: `make train` and `make test`. Both set everything up first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help setup train test lint types learn clean
.DEFAULT_GOAL := help

help:
	@echo "make train   set up, then train CartPole-v1 until it is solved"
	@echo "make test    set up, then lint, check types and run the fast tests"
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

test: lint types
	$(BIN)/pytest -n 2

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

learn: setup
	$(BIN)/pytest -m slow -n 2

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache
