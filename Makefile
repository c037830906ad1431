# `make demo` shows it, `make test` proves it, `make quick` the fast part of it, `make lint` keeps it readable.
# Each sets up .venv first, once.
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/ready

# Compiled files save every process that the tests start a second, so they are kept even where the user wants none.
export PYTHONDONTWRITEBYTECODE :=

# Threads that wait give their core away: those of tests, which share two cores, wait more than they compute.
export OMP_WAIT_POLICY := passive

# Two workers of one thread each, or as many as fit two cores. Files in the order that tests/conftest.py puts them in:
# the longest first.
WORKERS := $(shell expr 2 / $${OMP_NUM_THREADS:-1})
PYTEST := -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# Lines and branches of src, counted with little overhead; what forked and started processes do is not counted.
SLIPCOVER := -m slipcover --branch --source src/scissorhands --json --out .coverage.json

.PHONY: demo picture docs test types branches quick lint clean

demo: $(READY)
	$(VENV)/bin/scissorhands demo --overwrite
	$(VENV)/bin/scissorhands demo --random --overwrite

# The pictures of the README and of the tutorials, from the demos and from what the tutorials do.
picture: demo
	$(VENV)/bin/scissorhands demo --diffusion --overwrite
	$(VENV)/bin/python .ci/picture.py

# The site: open site/index.html. The variable hides a notice about the future of a tool.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet

# Types are checked beside the tests, in the time that a worker waits for processes and disks.
test: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(MAKE) --no-print-directory --jobs 2 types branches

types: $(READY)
	$(VENV)/bin/mypy

branches: $(READY)
	$(VENV)/bin/python $(SLIPCOVER) $(PYTEST)
	$(VENV)/bin/python .ci/branches.py .coverage.json 90

quick: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/python $(PYTEST) -q -m "not slow"

lint: $(READY)
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/mypy

clean:
	rm -rf $(VENV)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,dev,docs]'
	touch $@
