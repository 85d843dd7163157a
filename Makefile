# Development from a checkout. Needs Linux, Python 3.11+, Docker and make; all else goes into .venv.
VENV := .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
export ANSIBLE_FORCE_COLOR ?= $(if $(CI),0,1)
PYTEST := $(BIN)/pytest

.PHONY: help check test demo bench clean

help:  ## Show what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/ready: tests/requirements.txt meta/ee-requirements.txt
	python3 -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed")'
	python3 -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r tests/requirements.txt
	touch $@

check: $(VENV)/ready  ## Lint, types and unit tests: under three minutes, no Docker
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/yamllint --strict .
	$(BIN)/ansible-lint -q
	$(BIN)/antsibull-docs lint-collection-docs --plugin-docs --skip-rstcheck .
	$(BIN)/antsibull-changelog lint
	$(PYTEST) -n 2 -q tests/unit

test: check  ## All: also ansible-test sanity, molecule and whole runs on simulated nodes, about an hour
	$(PYTEST) --durations 15 tests/integration

demo: $(VENV)/ready  ## Serve a tiny model with the real vLLM on two simulated nodes, left serving
	tests/demo

bench: $(VENV)/ready  ## Measure bring-up and image sync against hand-written floors
	$(BIN)/python tests/bench/bringup/run.py
	$(BIN)/python tests/bench/image_sync/bench.py

clean: $(VENV)/ready  ## Remove the simulated nodes and all that was made here; their images stay for the next time
	for folder in .sim/*/; do [ -d "$$folder" ] || continue; \
		$(BIN)/ansible-playbook tests/sim/destroy.yml -e sim_name=$$(basename "$$folder") || exit 1; done
	rm -rf .ansible .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache .sim dist runs $(VENV)
