# `make demo` shows it, `make test` proves it, `make quick` the fast part of it, `make coverage` counts the branches that
# tests take, `make lint` keeps it readable. Each sets up .venv first, once.
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/ready

# Compiled files save every process that the tests start a second, so they are kept even where the user wants none.
export PYTHONDONTWRITEBYTECODE :=

# Files in the order that tests/conftest.py puts them in: the longest first.
PYTEST := $(VENV)/bin/pytest -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: demo test quick coverage lint clean

demo: $(READY)
	$(VENV)/bin/scissorhands demo --overwrite

test: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(PYTEST)

quick: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(PYTEST) -q -m "not slow"

# Apart from `make test`, because tracing branches in Python 3.11 makes the suite a third to a half slower.
coverage: $(READY)
	rm -f .coverage*
	COVERAGE_PROCESS_START=$(CURDIR)/pyproject.toml COVERAGE_FILE=$(CURDIR)/.coverage $(PYTEST) -q
	$(VENV)/bin/python -m coverage combine -q
	$(VENV)/bin/python -m coverage report

lint: $(READY)
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/mypy

clean:
	rm -rf $(VENV)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,diffusion,nudity]'
	touch $@
