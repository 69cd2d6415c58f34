# On a fresh machine with Python >= 3.11 and make: `make demo` runs the main job, `make test` the checks.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := -m pip install --quiet --disable-pip-version-check
# Tests start hundreds of short processes: each would parse all that it imports if no bytecode were kept.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-long test-cluster lint types kernels pytest slow-tests light dist bench suite measure benchmarks gallery docs clean

# A quarter of a day of job arrivals from the built-in generator; the run folder lands in runs/demo.
demo: $(VENV)/.cli
	$(BIN)/copter run sia --gpus 512 --jobs-per-day 2000 --hours 6 --seed 1 --out runs/demo --force

# The same examples every time, and no test looks at a clock. Tests that take long are left to `make test-long`.
# The solvers' kernels are compiled, once for all of pytest's processes, while the types are checked.
# Options of pytest: make test PYTEST_ARGS='-p randomly'
test: $(VENV)/.installed
	$(MAKE) --no-print-directory -j2 lint types kernels
	$(MAKE) --no-print-directory pytest

# All tests but those of services. Every kernel is compiled at its first call, whereas `make test` runs it in Python
# until compiling it pays off. Examples are drawn at random, from the seed that the command line shows.
SEED ?= $(shell date +%s)
test-long: $(VENV)/.installed kernels
	$(BIN)/pytest -n auto --durations=20 -m "not cluster" \
	    --hypothesis-profile=random --hypothesis-seed=$(SEED) $(PYTEST_ARGS)

# What starts Ray, a service and its jobs, Slurm or a browser.
test-cluster: $(VENV)/.installed kernels
	$(BIN)/pytest -n auto --durations=20 -m "cluster and not alone" $(PYTEST_ARGS)
	$(BIN)/pytest -m "cluster and alone" $(PYTEST_ARGS)

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/python tests/size.py
	$(BIN)/lint-imports --no-cache

types: $(VENV)/.installed
	$(BIN)/mypy --cache-dir build/mypy

kernels: kernels-solvers kernels-domains

kernels-%: $(VENV)/.installed
	$(BIN)/python tests/compile_kernels.py $*

pytest: $(VENV)/.installed
	$(BIN)/pytest -n auto --durations=20 $(PYTEST_ARGS)

# The list of tests that take long by their processor time: run it twice, because the first run also compiles.
slow-tests: $(VENV)/.installed kernels
	$(BIN)/pytest -n auto --measure

# The core in an environment without any extra, from the wheel.
light:
	rm -rf build/light
	$(PYTHON) -m venv build/light
	build/light/bin/python $(INSTALL) .
	cd build && light/bin/python ../tests/light_core.py
	du -sm --exclude=__pycache__ --exclude=pip --exclude=setuptools build/light/lib/python3*/site-packages

# Wheel and source distribution.
dist:
	rm -rf build/dist dist
	$(PYTHON) -m venv build/dist
	build/dist/bin/python $(INSTALL) build
	build/dist/bin/python -m build

# Small enough for a laptop; larger sizes: see copter bench sia --help.
bench: $(VENV)/.installed
	mkdir -p runs/bench
	$(BIN)/copter bench sia --gpus 1024 --jobs 200 --rounds 5 --solvers copter,copter-cold,highs-hot,highs-simplex \
	    --json runs/bench/sia.json

# Whether every solver's answers are what they claim to be, on tiny lines of every family; nothing about speed.
suite: $(VENV)/.installed
	rm -rf runs/quick
	$(BIN)/copter bench all --profile quick --check --out runs/quick

# All measured figures of the docs, in about two hours, on a machine that does nothing else. What is in the folder
# of the suite is kept: remove bench/results/full/suite.json and lines/ to measure everything again.
measure: $(VENV)/.installed
	$(BIN)/copter bench all --profile full --out bench/results/full

# The pages, the README's table and all pictures, from what was measured.
benchmarks: $(VENV)/.installed
	$(BIN)/python docs/site/build.py

# The pictures of the gallery: the same files every time, but for rounds that miss their deadline.
gallery: $(VENV)/.installed
	for file in $$(grep -l -e --picture docs/examples/*.py); do \
	    MATPLOTLIBRC=docs/examples/pictures SOURCE_DATE_EPOCH=0 $(BIN)/python $$file \
	        --picture docs/examples/pictures/$$(basename $$file .py).svg || exit 1; \
	done

# The site, with the API reference from docstrings; a warning is an error.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir build/site

clean:
	rm -rf build dist runs *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "copter needs Python >= 3.11; set one with: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.cli: pyproject.toml $(VENV)/.python
	$(BIN)/python $(INSTALL) --no-compile --editable '.[cli]'
	touch $@

$(VENV)/.installed: pyproject.toml $(VENV)/.python
	$(BIN)/python $(INSTALL) --no-compile --editable '.[dev]'
	touch $@ $(VENV)/.cli

$(VENV)/.docs: $(VENV)/.installed
	$(BIN)/python $(INSTALL) --editable '.[docs]'
	touch $@
