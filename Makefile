# make demo    watch an agent remember across two processes   (STORE=postgres, MODEL=…, EMBEDDING=…)
# make quick   the tests that your change touches, in half a minute
# make test    all tests, on SQLite and PostgreSQL, three processes a core
# make lint    format, lint, types, architecture; prints each room's mass beside its budget
# make check   lint and test: what CI runs
# make format  format the code and mend what ruff can mend
# make docs    write what is made from the code: settings, golden files, diagrams, chart
# make site    the documentation as a web site in site/; a warning or a broken link fails
PYTHON ?= python3
VENV   ?= .venv
STORE  ?= libsql
MODEL  ?=
EMBEDDING ?=
BIN    := $(VENV)/bin
COMMA  := ,
LOCAL  := local/% sentence-transformers/%
EXTRAS := $(strip $(if $(filter-out gemini-%,$(MODEL))$(filter-out $(LOCAL),$(EMBEDDING)),litellm) $(if $(filter $(LOCAL),$(EMBEDDING)),local) $(if $(filter postgres,$(STORE)),pgserver))
EXTRAS := $(subst $() ,$(COMMA),$(EXTRAS))
APT    := chromium fonts-noto-cjk fonts-noto-color-emoji pgbouncer

.PHONY: demo quick test lint check format docs site

demo: $(VENV)/.demo-$(EXTRAS)
	$(if $(EMBEDDING),KAGENT_MEMORY_EMBEDDING="$(EMBEDDING)") $(BIN)/python samples/demo.py --store "$(STORE)" --model "$(MODEL)"

quick: $(VENV)/.test
	$(BIN)/python tools/quick.py

test: $(VENV)/.dev $(VENV)/.programs
	$(BIN)/pytest -n auto --dist worksteal

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/basedpyright --pythonpath $(BIN)/python --project tests/pyrightconfig.json
	$(BIN)/lint-imports
	-$(BIN)/python tools/mass.py

check: lint test

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.dev
	$(BIN)/python docs/reference_pages.py
	$(BIN)/python docs/diagrams.py
	$(BIN)/python deploy/chart.py
	GOLDEN=write $(BIN)/pytest tests/cli/test_golden.py tests/test_import_samples.py

site: $(VENV)/.dev
	$(BIN)/python docs/build_site.py site

$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	@touch $@

# Whatever the whole setup brings need not be installed again.
$(VENV)/.demo-$(EXTRAS): $(VENV)/.made pyproject.toml
	@test $(VENV)/.dev -nt pyproject.toml || echo "Installing into $(VENV): this takes minutes the first time." >&2
	@test $(VENV)/.dev -nt pyproject.toml || $(BIN)/pip install --quiet --editable ".$(if $(EXTRAS),[$(EXTRAS)])"
	@touch $@

$(VENV)/.test: $(VENV)/.made pyproject.toml
	@test $(VENV)/.dev -nt pyproject.toml || $(BIN)/pip install --quiet --editable ".[test]"
	@touch $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml
	$(BIN)/pip install --quiet --editable ".[dev]"
	@touch $@

$(VENV)/.programs:
	@{ command -v chromium && PATH=$$PATH:/usr/sbin command -v pgbouncer; } >/dev/null || { apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(APT) >/dev/null; } || \
	  echo "Without Chromium and PgBouncer their tests are skipped: install $(APT) as root." >&2
	@{ command -v chromium && PATH=$$PATH:/usr/sbin command -v pgbouncer; } >/dev/null && mkdir -p $(VENV) && touch $@ || true
