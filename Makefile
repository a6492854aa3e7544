# Everything here builds its environment first; nothing has to be installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LATENT ?= knots

.DEFAULT_GOAL := help
.PHONY: torture help env demo paper test lint unit browser kill calibrate models accuracy bench wheel docs clean

help:  ## what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

env: $(VENV)/ready  ## the environment in .venv, with pinned versions

$(VENV)/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "seqgp needs Python 3.11 or later; try: make PYTHON=python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

demo: $(VENV)/ready  ## the online sampler beside the paper's algorithm, both against the truth: tables and a figure
	$(BIN)/python -m experiments.demo

paper: $(VENV)/ready  ## the regression of the paper at full size: table and figures (LATENT=dense for the exact one)
	$(BIN)/python -m experiments.regression --latent $(LATENT)

test: lint unit  ## all tests, ruff and pyright

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

unit: $(VENV)/ready browser  # one arena of malloc for all threads: several keep a third more than is in use
	MALLOC_ARENA_MAX=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

browser:  # for the tests of the report; without it they are skipped
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	    apt-get -qq update >/dev/null 2>&1 && apt-get -qq install -y chromium chromium-driver >/dev/null 2>&1; } || \
	  echo "no Chromium here: the report is not tested in a browser (apt-get install chromium chromium-driver)"

kill: $(VENV)/ready  ## kill a run of each sampler 30 times at random, resume it, and compare the draws bit for bit
	SEQGP_KILLS=30 $(BIN)/python -m pytest -s tests/io/test_kill.py

TORTURE ?= 20
torture: $(VENV)/ready  ## kills, stops, bit flips, a full disk: what was tried and what held (TORTURE=1 for a short form)
	$(BIN)/python -m experiments.torture --size $(TORTURE)

calibrate: $(VENV)/ready  ## simulation-based calibration at full length, some hours: docs/calibration.md
	$(BIN)/python -m experiments.calibration

models: $(VENV)/ready  ## the same for every likelihood, kernel and mean with every sampler: docs/calibration_models.md
	$(BIN)/python -m experiments.calibration --models

accuracy: $(VENV)/ready  ## each carry against the exact posterior, over simulated data sets
	$(BIN)/python -m experiments.accuracy

bench: $(VENV)/ready  ## ratios against peers and against the floor, about 35 minutes
	$(BIN)/python -m benchmarks

wheel: $(VENV)/ready  ## build the wheel, install it with pip into an empty environment, and run a demo there
	rm -rf dist build/wheel
	$(BIN)/python -m build --wheel --outdir dist
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "$$(ls dist/*.whl)[all]"
	cd build/wheel && bin/seqgp --version && bin/seqgp demo line --steps 3 --draws 100 -o demo

docs: $(VENV)/ready  ## the documentation as a site, in build/site; a broken link fails
	$(BIN)/python -m docs.build
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

clean:  ## remove the environment and everything that was generated
	rm -rf $(VENV) build dist out .pytest_cache .ruff_cache
