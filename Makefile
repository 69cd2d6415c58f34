# On a fresh machine with Python >= 3.11 and make: `make demo` runs the main job, `make test` the checks.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find copter solvers problems shims bench -name '*.py')

.PHONY: demo test lint types pytest bench docs clean

# A quarter of a day of job arrivals from the built-in generator; the run folder lands in runs/demo.
demo: $(VENV)/.installed
	$(BIN)/copter run sia --gpus 512 --jobs-per-day 2000 --hours 6 --seed 1 --out runs/demo

test: lint types pytest

lint: $(VENV)/.installed
	$(BIN)/ruff check .

# The folders are one package only once installed, so the type checker reads the built wheel.
types: build/.wheel
	cd build/wheel && ../../$(BIN)/mypy --config-file ../../pyproject.toml

pytest: $(VENV)/.installed
	$(BIN)/pytest -n auto --durations=20

# Small enough for a laptop; larger sizes: see copter bench sia --help.
bench: $(VENV)/.installed
	mkdir -p runs/bench
	$(BIN)/copter bench sia --gpus 1024 --jobs 200 --rounds 5 --solvers copter,copter-cold,highs-hot,highs-simplex \
	    --json runs/bench/sia.json
	$(BIN)/copter bench updates --sizes 100000,1000000 --json runs/bench/updates.json

# The API reference, from docstrings.
docs: $(VENV)/.docs
	$(BIN)/python docs/api/build.py build/docs

clean:
	rm -rf build dist runs *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "copter needs Python >= 3.11; set one with: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.installed: pyproject.toml $(VENV)/.python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

$(VENV)/.docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

build/.wheel: $(SOURCES) pyproject.toml $(VENV)/.installed
	rm -rf build/wheel build/lib build/bdist.*
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --target build/wheel .
	touch $@
