# `make demo` shows it, `make test` proves it, `make quick` the fast part of it, `make lint` keeps it readable. Each sets up .venv first, once.
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/ready

.PHONY: demo test quick lint clean

demo: $(READY)
	$(VENV)/bin/scissorhands demo --overwrite

test: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/pytest -n 2 --dist loadfile

quick: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/pytest -n 2 --dist loadfile -q -m "not slow"

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
