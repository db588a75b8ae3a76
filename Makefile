# Every target sets up what it needs by itself. You need python3 (3.11+) with pip, git and make.
# uv is used where it is installed; otherwise venv and pip do the same.
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$p; break; }; done)

.PHONY: help demo check test test-clients lint format screenshots bench soak proof docs clean
help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "nightlatch needs Python 3.11 or newer; none was found on PATH" >&2; exit 1; }
	@if command -v uv >/dev/null; then \
		uv venv --quiet --allow-existing --python $(PYTHON) $(VENV) && \
		uv pip install --quiet --python $(BIN)/python -e '.[dev,postgres,bench]'; \
	else \
		$(PYTHON) -m venv --without-pip $(VENV) && \
		$(PYTHON) -m pip --python $(BIN)/python install --quiet --disable-pip-version-check 'pip>=25.2' && \
		$(BIN)/python -m pip install --quiet -e '.[dev,postgres,bench]'; \
	fi
	@touch $@

# Runs from the source, so that nothing is installed; on macOS it needs psutil to see processes.
demo: $(if $(filter Darwin,$(shell uname)),$(READY)) ## the whole story in a few seconds, with real processes
	@test -n "$(PYTHON)" || { echo "nightlatch needs Python 3.11 or newer; none was found on PATH" >&2; exit 1; }
	@PYTHONPATH=src $(if $(wildcard $(READY)),$(BIN)/python,$(PYTHON)) -m nightlatch demo

check: lint ## for every edit: lint, unit and conformance tests on SQLite
	@$(BIN)/python -m pytest -n auto --dist worksteal tests/unit tests/conformance -k 'not postgres and not Postgres and not git and not Git'

# The pages are tested in a real Chromium, an example of the docs with jq, completions in zsh and fish. Where they are missing and apt may install
# them, it does; elsewhere those tests say why they are skipped.
.PHONY: programs
programs:
	@{ command -v chromium && command -v jq && command -v zsh && command -v fish; } >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && \
		apt-get install -y -qq --no-install-recommends chromium jq curl zsh fish >/dev/null; } || true

test: $(READY) programs ## all tests, with real processes and signals, two workers for each core
	@$(BIN)/python -m tests

CLIENTS := .clients
$(CLIENTS)/.ready: $(READY) tests/clients/requirements.txt tests/clients/package.json
	@mkdir -p $(CLIENTS) && cp tests/clients/package.json $(CLIENTS)/
	@$(BIN)/python -m venv $(CLIENTS)/venv && \
		$(CLIENTS)/venv/bin/python -m pip install --quiet --disable-pip-version-check -r tests/clients/requirements.txt
	@cd $(CLIENTS) && npm install --silent --no-audit --no-fund --no-package-lock
	@touch $@

test-clients: $(CLIENTS)/.ready ## the large clients (claude, codex, gemini-cli, antigravity) behind the gateway
	@NIGHTLATCH_CLIENTS=1 $(BIN)/python -m pytest -o timeout=600 tests/clients -rA

lint: $(READY) ## ruff check and format, mypy --strict
	@$(BIN)/ruff check -q . && $(BIN)/ruff format --check . && $(BIN)/mypy

format: $(READY) ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

bench: $(READY) ## ratios against the raw limit and the peers, in one run
	@$(BIN)/python -m bench $(ONLY)

soak: $(READY) ## every store with every gate under random faults: SOAK=30m SEED=… ONLY='git/*,runs/*'
	@$(BIN)/python -m tests.soak --for $(or $(SOAK),30m) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only '$(ONLY)')

proof: ## the lease and gate protocol, checked with Spin in all its states
	@proofs/check

screenshots: $(READY) programs ## draw every page from one made-up night into docs/pictures
	@fc-list 2>/dev/null | grep -q Inter || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
		apt-get install -y -qq --no-install-recommends fonts-inter fonts-jetbrains-mono >/dev/null; } || true
	@$(BIN)/python -m tests.browser.screenshots docs/pictures

docs: $(READY) ## write docs/commands.md from the commands' own help
	@$(BIN)/python docs/generate.py

clean: ## remove what the other targets made
	rm -rf $(VENV) $(CLIENTS) .mypy_cache .ruff_cache build dist
