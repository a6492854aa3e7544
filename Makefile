# Everything here builds its environment first; nothing has to be installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LATENT ?= knots

.DEFAULT_GOAL := help
.PHONY: help env demo test lint unit calibrate bench experiments clean

help:  ## what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

env: $(VENV)/ready  ## the environment in .venv, with pinned versions

$(VENV)/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "seqgp needs Python 3.11 or later; try: make PYTHON=python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

demo: $(VENV)/ready  ## the regression of the paper at full size: table and figures
	$(BIN)/python -m experiments.regression

test: lint unit  ## all tests, ruff and pyright

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

unit: $(VENV)/ready
	$(BIN)/python -m pytest -n 2 --dist loadfile

clean:  ## remove the environment and everything that was generated
	rm -rf $(VENV) build dist out .pytest_cache .ruff_cache
