# Everything runs in a local environment (.venv) that is made on first use and re-used while
# pyproject.toml and constraints.txt stay the same.  Needs: git, make, Python >= 3.11.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: help env demo demo-federated demo-live test test-all test-other-blas test-ray check format docs site bench soak dist audit image check-deploy clean
help:  ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

env: $(READY)  ## install PV4FAD and its tools into .venv (about a minute, once)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "PV4FAD needs Python >= 3.11; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "'$(PYTHON) -m venv' does not work here. On Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "Installing PV4FAD into $(VENV) (about a minute, once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(READY)  ## the main job end to end on generated data
	@$(BIN)/pv4fad demo

demo-federated: $(READY)  ## the same with the parties as separate processes, through a hub
	@$(BIN)/pv4fad demo-federated

demo-live: $(READY)  ## payments judged while they are on their way, with an alert desk to look at
	@$(BIN)/pv4fad demo-live

test: $(READY)  ## the whole test suite with real cryptography (about 10 minutes on 2 cores)
	@echo "Running the test suite (about 10 minutes on 2 cores) ..."
	@$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

test-all: $(READY)  ## the test suite and the slow evidence
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,bench,ray]'
	@$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder -m '' -o faulthandler_timeout=1800

test-other-blas: $(READY)  ## the tests with floating point, on the kernels of another processor
	@$(BIN)/python .ci/other_blas.py

test-ray:  ## the tests with a Ray cluster, in an environment with Ray of its own (.venv-ray)
	@$(MAKE) --silent VENV=$(VENV)-ray $(VENV)-ray/.ray
	@$(VENV)-ray/bin/python -m pytest -m "" tests/workers/test_ray.py

check: $(READY)  ## format, lint, types, import direction
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: $(READY)  ## format the code and fix what the linter can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: $(READY)  ## write the pages and the picture that are made from the code
	@$(BIN)/python tools/configuration.py > docs/operate/configuration.md
	@$(BIN)/python tools/reference.py > docs/use/reference.md
	@$(BIN)/python tools/architecture.py > docs/figures/architecture.svg

site: $(VENV)/.site  ## build the docs as a site that works offline, into site/
	@$(BIN)/python tools/site/build.py

bench: $(READY)  ## measure the speed on this machine
	@$(BIN)/pv4fad bench match

soak: $(READY)  ## an hour of live payments with kill -9 every minute; fails if anything is lost or wrong
	@$(BIN)/pv4fad bench soak

dist: $(VENV)/.dist  ## build the wheel and its companions into dist/, and try them
	@$(BIN)/python tools/dist.py

audit: $(VENV)/.audit  ## look the pinned versions up in a list of known vulnerabilities (needs PyPI itself)
	@$(BIN)/pip-audit --strict --no-deps --disable-pip -r constraints.txt || \
	  { echo "make audit: NOT passed. Either a version is vulnerable, or PyPI's own service could not be asked: the lines above say which."; exit 1; }

CONTAINERS ?= docker
VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' src/pv4fad/__init__.py)
image:  ## build the image of a party from dist/ (CONTAINERS=podman: with podman)
	@test -e dist/SHA256SUMS || { echo "make image needs the files of a release in dist/: make dist"; exit 1; }
	$(CONTAINERS) build $(if $(BASE),--build-arg BASE=$(BASE)) --tag pv4fad:$(VERSION) --file Containerfile .

check-deploy: $(VENV)/.deploy  ## check Containerfile, compose file, Kubernetes manifest and alert rules
	@$(BIN)/hadolint Containerfile
	@$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec deploy/compose.yaml
	@$(BIN)/kubernetes-validate --strict deploy/kubernetes-bank.yaml
	@if command -v promtool > /dev/null; then promtool check rules deploy/prometheus-alerts.yaml; \
	  else echo "No promtool here (Prometheus has it): the alert rules were not checked by it."; fi

$(VENV)/.%: $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$*]'
	@touch $@

clean:  ## remove the environment and caches
	rm -rf $(VENV) $(VENV)-ray dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
