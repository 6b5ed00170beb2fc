# Everything works on a fresh machine with Python 3.11 or newer: the first target makes .venv from locked lists.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.run
DEV := $(VENV)/.dev

.PHONY: help run test test-fast check bench journeys protocols scale corpus corpus-slice environments interop fuzz fuzz-slice faults faults-slice soak \
	lock contract configuration changelog clean

help: ## Say what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 24

# A third of the time of a test is spent waiting, so two cores serve four workers. A file stays with one of them, because
# servers and databases are shared by its tests.
WORKERS = -n 4 --dist loadfile --no-loadscope-reorder

run: $(RUN) ## Start the gateway with its embedded servers on 127.0.0.1:8000
	@exec $(BIN)/utcp-gateway serve

test: $(DEV) ## Run the tests (TEST_DATABASE_URL and TEST_REDIS_URL choose other servers; ARGS for pytest)
	$(BIN)/python -m pytest $(WORKERS) $(ARGS)

test-fast: $(DEV) ## Run the unit tests that start no server or program of their own
	$(BIN)/python -m pytest $(WORKERS) -m "not slow" tests/unit $(ARGS)

check: $(DEV) ## Check style, types, layers and the files for deployment
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/yamllint --strict docker-compose.yml .pre-commit-config.yaml .yamllint deploy/prometheus
	if [ -x $(BIN)/hadolint ]; then $(BIN)/hadolint Dockerfile; fi
	bash -n .ci/run requirements/lock.sh
	@$(BIN)/python -m tests.harness.sizes
	$(BIN)/python -m pytest -m "not slow" tests/unit/house tests/unit/deployment

bench: $(DEV) ## Measure what a call costs, beside other proxies (ARGS: --only ROW..., --rounds)
	$(BIN)/python -m benchmarks $(ARGS)

journeys: $(DEV) ## Count what a reader meets on two journeys through the code, and its shapes (ARGS: --names)
	$(BIN)/python -m benchmarks.journeys $(ARGS)

protocols: $(DEV) ## Measure what a call costs by each protocol, beside the plain library (ARGS: --only PROTOCOL..., --rounds)
	$(BIN)/python -m benchmarks.protocols $(ARGS)

scale: $(DEV) ## Measure what 100,000 tools cost in memory, at the start, in search and in manuals
	$(BIN)/python -m benchmarks.scale $(ARGS)

corpus: $(DEV) ## Judge the OpenAPI conversion on every public API (ARGS: --sample, --only, --spec, --jobs, --swagger-client)
	$(BIN)/python -m benchmarks.corpus $(ARGS)

corpus-slice: $(DEV) ## Judge it on a sample of them, and its metrics on planted defects
	$(BIN)/python -m pytest tests/corpus $(ARGS)

environments: $(DEV) ## Download what corpus, interop and their slices need, and is not there
	$(BIN)/python -m tests.interop.environments
	$(BIN)/python -m benchmarks.corpus.download

interop: $(DEV) ## Let released UTCP clients and plugins call what the gateway calls and serves
	$(BIN)/python -m pytest tests/interop $(ARGS)

fuzz: $(DEV) ## Run schemathesis against the gateway, and all tests of made-up values, at length
	FUZZ_LONG=1 $(BIN)/python -m pytest -o faulthandler_timeout=0 tests/fuzz tests/api/test_egress.py tests/unit/openapi/test_fuzz.py $(ARGS)

fuzz-slice: $(DEV) ## Run schemathesis with a few examples of each operation
	$(BIN)/python -m pytest -n 2 tests/fuzz $(ARGS)

faults: $(DEV) ## Break servers, links and processes under load, and say what was lost (ARGS: --only E,F, --redis PROGRAM)
	@$(BIN)/python -m tests.faults $(ARGS)

faults-slice: $(DEV) ## Break them for a short while each
	@$(BIN)/python -m tests.faults --slice $(ARGS)

soak: $(DEV) ## Half load for MINUTES (30): memory and file descriptors must stay level
	@MINUTES=$(MINUTES) $(BIN)/python -m tests.faults.soak

lock: $(VENV)/pyvenv.cfg ## Write requirements/*.txt anew
	$(BIN)/python -m venv .venvs/lock
	.venvs/lock/bin/python -m pip install --quiet --upgrade uv
	requirements/lock.sh .venvs/lock/bin/uv

clean: ## Remove the virtual environments (not the data)
	rm -rf $(VENV) .venvs

$(VENV)/pyvenv.cfg:
	@requirements/venv.sh $(VENV)

# $(call install,LIST): exactly the versions and files of the list, then ourselves from this folder.
define install
	@echo "Installing requirements/$(1).txt into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/$(1).txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
endef

# The larger list holds the smaller one, so after `make test` there is nothing to install for `make run`.
$(DEV): $(VENV)/pyvenv.cfg requirements/dev.txt pyproject.toml
	$(call install,dev)
	@touch $(DEV) $(RUN)

$(RUN): $(VENV)/pyvenv.cfg requirements/run.txt pyproject.toml
	$(call install,run)
	@touch $(RUN)

configuration: $(DEV) ## Write docs/configuration.md and .env.example anew, from app/settings
	$(BIN)/python -m scripts.configuration

changelog: $(DEV) ## Show the text that the fragments in changelog.d make
	$(BIN)/towncrier build --draft --version "$$($(BIN)/python -c 'import tomllib; print(tomllib.load(open("pyproject.toml", "rb"))["project"]["version"])')"

contract: $(DEV) ## Write openapi/gateway.json anew
	$(BIN)/python -c 'import pathlib, orjson; from app.main import create_app; from app.settings import Settings; pathlib.Path("openapi/gateway.json").write_bytes(orjson.dumps(create_app(Settings(_env_file=None)).openapi(), option=orjson.OPT_INDENT_2) + b"\n")'
