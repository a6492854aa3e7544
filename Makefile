# Everything here builds its environment first; nothing has to be installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: walk fuzz torture help env demo paper paper-quick test check lint unit browser kill calibrate models accuracy bench peers wheel adapters lowest release-check docs clean

help:  ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

env: $(VENV)/ready  ## the environment in .venv, with pinned versions

$(VENV)/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "seqgp needs Python 3.11 or later; try: make PYTHON=python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

demo: $(VENV)/ready  ## the online sampler beside the paper's algorithm, both against the truth: tables and a figure
	$(BIN)/python -m experiments.demo

paper: $(VENV)/ready  ## everything that the paper shows, at its size, an hour or two: docs/paper.md (PARTS="full" for one part)
	$(BIN)/python -m experiments.paper $(if $(PARTS),--only $(PARTS))

paper-quick: $(VENV)/ready  ## the same in small, about two minutes: out/paper-quick/paper.md
	$(BIN)/python -m experiments.paper --quick

test: lint unit  ## all tests, ruff and pyright

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

# Tests that compile little: what to run after each change.
QUICK := tests/base tests/linalg tests/means tests/contract/test_names.py tests/contract/test_imports.py \
  tests/io/test_configuration.py tests/io/test_specification.py tests/io/test_timestamps.py tests/samplers/test_validation.py \
  tests/samplers/test_keys.py tests/report/test_sentences.py tests/docs/test_site.py

# What the quick tests need beside seqgp[all], no older than in pyproject.toml.
TOOLS := "pytest>=8" "pytest-xdist>=3.6" "hypothesis>=6.100" "blackjax>=1.2" "tinygp>=0.3"
PYTHONS ?=

check: lint  ## ruff, pyright and the quick tests
	MALLOC_ARENA_MAX=1 $(BIN)/python -m pytest -n 2 --dist loadfile $(QUICK)

unit: $(VENV)/ready browser  # one arena of malloc for all threads: several keep a third more than is in use
	MALLOC_ARENA_MAX=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=20

browser:  # for the tests of the report; without it they are skipped
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	    echo "installing chromium and chromium-driver with apt-get: tests open the report in a browser" && \
	    apt-get -qq update >/dev/null 2>&1 && apt-get -qq install -y chromium chromium-driver >/dev/null 2>&1; } || \
	  echo "no Chromium here: the report is not tested in a browser (apt-get install chromium chromium-driver)"

kill: $(VENV)/ready  ## kill a run of each sampler 30 times at random, resume it, and compare the draws bit for bit
	SEQGP_KILLS=30 $(BIN)/python -m pytest -s tests/io/test_kill.py

TORTURE ?= 20
torture: $(VENV)/ready  ## kills, stops, bit flips, a full disk: what was tried and what held (TORTURE=1 for a short form)
	$(BIN)/python -m experiments.torture --size $(TORTURE)

CASES ?= 1000
SEED ?= 0
fuzz: $(VENV)/ready  ## random programs against the oracles: findings as short programs (CASES=1000 SEED=0)
	$(BIN)/python -m tests.fuzz --cases $(CASES) --seed $(SEED)

calibrate: $(VENV)/ready  ## simulation-based calibration at full length, some hours: docs/calibration.md
	$(BIN)/python -m experiments.calibration

models: $(VENV)/ready  ## the same for every likelihood, kernel and mean with every sampler: docs/calibration_models.md
	$(BIN)/python -m experiments.calibration --models

accuracy: $(VENV)/ready  ## each carry against the exact posterior, over simulated data sets
	$(BIN)/python -m experiments.accuracy

walk: $(VENV)/ready  ## the files that an online step and seqgp fit visit, as CONTRIBUTING quotes them
	$(BIN)/python -m experiments.walk

bench: $(VENV)/ready  ## ratios against peers and against the floor, about 35 minutes
	$(BIN)/python -m benchmarks

peers: $(VENV)/ready  ## one stream in seqgp and in other libraries, in an environment of their own: docs/peers.md
	$(PYTHON) -m venv build/peers
	build/peers/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/stream_peers/requirements.txt
	$(BIN)/python -m benchmarks.stream_peers

wheel: $(VENV)/ready  ## build the wheel, install it with pip into an empty environment, and run a demo there
	rm -rf dist build/wheel
	$(BIN)/python -m build --wheel --outdir dist
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "$$(ls dist/*.whl)[all]"
	cd build/wheel && bin/seqgp --version && bin/seqgp demo line --steps 3 --draws 100 -o demo

release-check: $(VENV)/ready  ## build sdist and wheel, check both, the automation files and the spelling, and install into an empty environment
	rm -rf dist build/release
	$(PYTHON) -m venv build/release/tools
	build/release/tools/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	  build hatchling twine check-wheel-contents check-jsonschema codespell 'sp-repo-review[cli]' zizmor
	build/release/tools/bin/python -m build --outdir dist
	build/release/tools/bin/twine check --strict dist/*
	build/release/tools/bin/check-wheel-contents dist/*.whl
	build/release/tools/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	build/release/tools/bin/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	build/release/tools/bin/zizmor --offline .github
	build/release/tools/bin/repo-review .
	build/release/tools/bin/codespell src docs README.md CHANGELOG.md CONTRIBUTING.md .github
	$(PYTHON) -m venv build/release/empty
	build/release/empty/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	cd build/release && empty/bin/python ../../.github/minimal.py

lowest:  ## the quick tests with the lowest dependencies that pyproject.toml allows, and with each Python of PYTHONS="3.12 3.13"
	$(PYTHON) -m venv build/uv
	build/uv/bin/python -m pip install --quiet --disable-pip-version-check uv
	build/uv/bin/uv venv --quiet --clear --python $(PYTHON) build/lowest
	build/uv/bin/uv pip install --quiet --python build/lowest/bin/python --resolution lowest-direct -e ".[all]" $(TOOLS)
	build/lowest/bin/python .github/minimal.py
	build/lowest/bin/python -m pytest -q $(filter-out tests/docs/%,$(QUICK))
	set -e; for version in $(PYTHONS); do \
	  build/uv/bin/uv venv --quiet --clear --python $$version build/python$$version; \
	  build/uv/bin/uv pip install --quiet --python build/python$$version/bin/python -c constraints.txt -e ".[all]" $(TOOLS); \
	  build/python$$version/bin/python .github/minimal.py; \
	  build/python$$version/bin/python -m pytest -q $(filter-out tests/docs/%,$(QUICK)); \
	done

adapters:  ## the adapters in an environment of their own, with the newest sktime and its own checks, about five minutes
	$(PYTHON) -m venv build/adapters
	build/adapters/bin/python -m pip install --quiet --disable-pip-version-check -e ".[sktime]" pytest
	build/adapters/bin/python -m pytest tests/adapters

docs: $(VENV)/ready  ## the documentation as a site with executed notebooks, in build/site; a broken link fails
	$(BIN)/python -m docs.build
	$(BIN)/python -m docs.notebooks
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

clean:  ## remove the environment and everything that was generated
	rm -rf $(VENV) build dist out .pytest_cache .ruff_cache
