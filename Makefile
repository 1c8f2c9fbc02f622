# Every target works on a fresh clone: it first makes .venv with what uv.lock names.
PYTHON = .venv/bin/python
READY = .venv/.ready

# PORT and DATA are short for the settings of the same meaning.
ifdef PORT
export OMNIWEB_PORT = $(PORT)
endif
ifdef DATA
export OMNIWEB_DATA = $(DATA)
endif

.DEFAULT_GOAL = help
# Compiled modules start a good deal faster; a shell that forbids them slows every command.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help serve test lint fmt bench

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

serve: $(READY) ## Start OmniWeb and print a link that signs in (PORT=8000 DATA=.data)
	@$(PYTHON) manage.py serve

test: $(READY) ## Run the suite on SQLite, then on PostgreSQL where there is one (T=tests/one_file.py)
	@bash .ci/test $(T)

lint: $(READY) ## Check style, types, templates, imports, migrations and deployment settings
	@bash .ci/lint

fmt: $(READY) ## Format the Python code and repair what ruff can
	@.venv/bin/ruff check --quiet --fix-only .
	@.venv/bin/ruff format .

bench: $(READY) ## Measure, beside references; never part of the tests
	@$(PYTHON) -m tests.bench

$(READY): uv.lock pyproject.toml
	@sh .ci/venv
	@touch $@
