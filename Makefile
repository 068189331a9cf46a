# make demo   an agent that remembers across two processes    (STORE=postgres, MODEL=…, EMBEDDING=…)
# make test   all tests, on libSQL and PostgreSQL, two processes a core   (make test-slow: what it tries briefly, at length)
# make coverage   which branches of each module the tests take
# make site   the documentation as a web site, in site/; a broken link fails
# make check  format, lint, types, architecture, wheel, tests: what CI runs
PYTHON ?= python3
VENV   ?= .venv
STORE  ?= libsql
MODEL  ?=
EMBEDDING ?=
BIN    := $(VENV)/bin
COMMA  := ,
EXTRAS := $(strip $(if $(filter-out gemini%,$(MODEL) $(EMBEDDING)),litellm) $(if $(filter postgres,$(STORE)),pgserver))
EXTRAS := $(subst $() ,$(COMMA),$(EXTRAS))
APT    := chromium fonts-noto-cjk fonts-noto-color-emoji pgbouncer

.PHONY: demo test coverage test-slow check lint types architecture format docs site wheel matrix sqld programs bench clean

$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.demo-$(EXTRAS): $(VENV)/.made pyproject.toml
	@test $(VENV)/.dev -nt pyproject.toml || echo "Installing into $(VENV): this takes minutes the first time." >&2
	@test $(VENV)/.dev -nt pyproject.toml || $(BIN)/pip install --quiet --editable ".$(if $(EXTRAS),[$(EXTRAS)])"
	@touch $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml
	$(BIN)/pip install --quiet --editable ".[dev]"
	@touch $@

demo: $(VENV)/.demo-$(EXTRAS)
	$(BIN)/kagent-memory demo --store "$(STORE)" --model "$(MODEL)" --embedding "$(EMBEDDING)"

programs:
	@{ command -v chromium && PATH=$$PATH:/usr/sbin command -v pgbouncer; } >/dev/null || { apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(APT) >/dev/null; } || \
	  { echo "The tests need Chromium as 'chromium' and PgBouncer: install $(APT) as root." >&2; exit 1; }

test: $(VENV)/.dev programs
	$(BIN)/pytest -n auto --dist worksteal

# A run of its own that fails for no test: measuring doubles the processor time of the package's code (before Python
# 3.14), more than the limits of some tests allow. Whether the tests pass, `make test` says.
coverage: $(VENV)/.dev programs
	$(BIN)/coverage erase
	-$(BIN)/coverage run -m pytest -n auto --dist worksteal
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

# What `make test` tries briefly, at length: a hundred kills instead of fifteen, a day of outage instead of hours, 200
# requests of each kind instead of 40, 500 jobs to race for, the whole contract behind a pooler (with row security and
# without) and encrypted on PostgreSQL: there `make test` runs the parts that these could change.
test-slow: $(VENV)/.dev
	$(BIN)/pytest -m slow

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.dev
	$(BIN)/basedpyright --pythonpath $(BIN)/python

architecture: $(VENV)/.dev
	$(BIN)/lint-imports

# What is written from the code and kept: the page of the settings, and what commands say.
docs: $(VENV)/.dev
	$(BIN)/python docs/reference_pages.py
	GOLDEN=write $(BIN)/pytest tests/cli/test_golden.py

# The README, docs/ and the pages written from the code as a web site, with all its links checked.
site: $(VENV)/.dev
	$(BIN)/mkdocs build --strict

wheel: $(VENV)/.dev
	$(BIN)/python -m hatchling build --target wheel --directory dist

check: lint types architecture test

# The ADK-facing tests on other versions of google-adk and Python; prints one line each.
matrix:
	tests/matrix.sh

# The whole contract, tokens and a death on a real libSQL server: make sqld SQLD=/path/to/sqld
sqld: $(VENV)/.dev
	SQLD="$(SQLD)" $(BIN)/pytest -n auto -m sqld tests/local

clean:
	rm -rf $(VENV) dist build site .coverage*
