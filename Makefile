# Every target sets up what it needs by itself, once. `make` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest --durations=15
PYTEST_ARGS ?=
PROFILE ?= quick
KILLS ?= 30
NATIVE := $(wildcard build_backend/*.py src/penstock/*/*.pyx src/penstock/*/*.pxd src/penstock/*/native/*.c src/penstock/*/native/*.h)
# A broker and the state wait for the disk with each file that they write. Files in memory have no such wait.
# The tests of the wheel load its compiled code from there, which the mount option noexec forbids.
IN_MEMORY := $(shell [ -w /dev/shm ] && ! grep -qs ' /dev/shm .*noexec' /proc/mounts && df -Pk /dev/shm | awk 'NR == 2 && $$4 > 8000000 {print "/dev/shm"}')
PYTEST_IN_MEMORY := $(if $(IN_MEMORY),TMPDIR=$(IN_MEMORY) )$(PYTEST)
# Tests that share a fixture go to one worker. They keep the order of tests/conftest.py: the long ones first.
SHARED := --dist loadgroup --no-loadscope-reorder
SETUP := $(VENV)/.setup-done
JARS := $(VENV)/.jars-done
SITE := $(VENV)/.site-done

# Python keeps what it compiled. Without that, each of Spark's many Python processes compiles all of penstock,
# and each process of pytest compiles all tests.
unexport PYTHONDONTWRITEBYTECODE

##@ Start here
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(SETUP) $(JARS) ## Make .venv, build the codec, fetch Kafka's jars

demo: $(SETUP) $(JARS) ## Run a real streaming job from Kafka through Spark to Kafka
	$(BIN)/penstock demo

demo-cdc: $(SETUP) $(JARS) ## Keep tables equal to a database's, from its changes in Kafka
	$(BIN)/penstock demo cdc

test: $(SETUP) $(JARS) ## Prove each promise once, on a real Kafka and a real Spark (10 minutes)
	@$(BIN)/python -m tests.suites unit promises

##@ Tests
unit: $(SETUP) ## No JVM, no broker, under 60 s (PROFILE=usual or thorough: more examples)
	HYPOTHESIS_PROFILE=$(PROFILE) $(PYTEST_IN_MEMORY) -n 3 --dist worksteal tests/unit tests/contract $(PYTEST_ARGS)

models: PROFILE = usual
models: $(SETUP) ## Hypothesis alone, with ten times as many examples (PROFILE=thorough: 400 times)
	HYPOTHESIS_PROFILE=$(PROFILE) $(PYTEST_IN_MEMORY) -n 2 --dist worksteal -m hypothesis tests/unit tests/contract $(PYTEST_ARGS)

promises: $(SETUP) $(JARS) ## The tests of `make test` on real parts: docs/own-tests.md lists them
	$(PYTEST_IN_MEMORY) -n 2 $(SHARED) -m promise tests/kafka tests/spark tests/compat tests/chaos tests/package $(PYTEST_ARGS)

kafka: $(SETUP) $(JARS) ## Against the real broker
	$(PYTEST_IN_MEMORY) -n 4 $(SHARED) tests/kafka $(PYTEST_ARGS)

spark: $(SETUP) $(JARS) ## Real Spark on the real broker
	$(PYTEST_IN_MEMORY) -n 2 $(SHARED) tests/spark tests/compat $(PYTEST_ARGS)

chaos: $(SETUP) $(JARS) ## Kills and faults
	$(PYTEST_IN_MEMORY) -n 2 $(SHARED) tests/chaos $(PYTEST_ARGS)

cluster: $(SETUP) $(JARS) ## A client of Spark Connect on a standalone cluster and three brokers, all killed (KILLS=30)
	$(if $(IN_MEMORY),TMPDIR=$(IN_MEMORY) )$(BIN)/python -m tests.chaos.chain_hunt --cluster --connect --brokers 3 --rolling 10 --kills $(KILLS) --strikes 8 --driver-every 15

parity: $(SETUP) $(JARS) ## The codec against its reference and other clients, fuzzed, under sanitizers
	$(PYTEST) -n 2 tests/parity $(PYTEST_ARGS)

page: $(SETUP) $(SITE) npm ## The site and the metrics page in a headless Chromium; checks accessibility if npm is there
	$(PYTEST) tests/page $(PYTEST_ARGS)

package: $(SETUP) $(JARS) ## The wheel in an empty environment, and README's quick start in it
	$(PYTEST) tests/package $(PYTEST_ARGS)

rest: $(SETUP) $(JARS) $(SITE) npm ## kafka, parity, page and package at the same time
	$(PYTEST_IN_MEMORY) -n 3 $(SHARED) tests/kafka tests/parity tests/page tests/package $(PYTEST_ARGS)

npm: $(SETUP)
	-command -v npm >/dev/null && npm install --prefix tests/page --no-package-lock --no-audit --no-fund --silent

versions: $(SETUP) $(JARS) ## The wheel on each PySpark from 4.0.1 to 4.3.0 (VERSIONS="4.0.1 4.1.4": some)
	$(if $(IN_MEMORY),TMPDIR=$(IN_MEMORY) )$(BIN)/python -m tests.versions $(VERSIONS)

older: $(SETUP) $(JARS) ## A few cases on Spark 4.0 and 4.1. Skipped if no index of packages can be reached
	$(if $(IN_MEMORY),TMPDIR=$(IN_MEMORY) )$(BIN)/python -m tests.versions --quick

stores: $(SETUP) ## The state on S3, Azure, GCS and (with CLASSPATH and HADOOP_HOME) HDFS, and kills of its drivers
	-command -v npm >/dev/null && npm install --prefix tests/stores --no-package-lock --no-audit --no-fund --silent
	STORES=all $(PYTEST_IN_MEMORY) tests/unit/state/test_stores.py $(PYTEST_ARGS)
	$(BIN)/python -m tests.stores

##@ Checks
lint: $(SETUP) ## ruff (check and format) and codespell
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell src docs benchmarks *.md

types: $(SETUP) ## mypy, strict, over src and tests
	$(BIN)/mypy

arch: $(SETUP) ## The layers between the rooms
	$(BIN)/lint-imports

docs: $(SETUP) ## Write the generated pages
	$(BIN)/python -m tests.options_page
	$(BIN)/python -m tests.older_api_page
	$(BIN)/python -m tests.api_pages
	$(BIN)/python -m tests.errors_page
	$(BIN)/python -m tests.examples_page
	$(BIN)/python -m tests.metrics_page
	$(BIN)/python -m tests.functions_page
	$(BIN)/python -m tests.site.llms

site: $(SITE) ## The site of the docs in build/site/html. A warning, a broken link or a page in no menu is an error
	$(BIN)/python -m tests.site

ci: export PROFILE = usual
ci: lint types arch $(JARS) ## The checks above, and all tests (an hour). .ci/run runs it
	@$(BIN)/python -m tests.suites unit rest spark older chaos

kafka-python: $(SETUP) $(JARS) ## tests/contract on both ends of the range of kafka-python (ARGS=--kafka: and on real brokers)
	$(BIN)/python -m tests.contract.both_ends $(ARGS)

wheels: $(SETUP) ## What a release has for this machine, built, audited and tried (PYTHONS="python3.11 python3.13")
	$(BIN)/python -m tests.package.release $(PYTHONS)

installed: $(SETUP) $(JARS) ## The unit tests against the installed wheel (ARGS=--promises: and those on real parts)
	$(if $(IN_MEMORY),TMPDIR=$(IN_MEMORY) )$(BIN)/python -m tests.package.installed $(ARGS)

##@ More
bench: $(SETUP) $(JARS) ## Compare with Spark's own connector (FLINK=1: and Flink) on this machine
	$(BIN)/python -m benchmarks

bench-check: $(SETUP) $(JARS) ## The same, held to benchmarks/bounds.json
	$(BIN)/python -m benchmarks --check

clean: ## Remove what the targets made (not the jars in the user's cache)
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache spark-warehouse
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -f src/penstock/codec/*.so src/penstock/formats/*.so src/penstock/state/*.so
	rm -rf src/*.egg-info

$(SETUP): requirements-dev.lock pyproject.toml setup.py $(NATIVE)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "penstock needs Python 3.11 or newer; run make PYTHON=python3.x"; exit 1; }
	@command -v "$${JAVA_HOME:+$$JAVA_HOME/bin/}java" >/dev/null || { echo "penstock needs Java 17 or newer (PySpark and the development broker run on it)"; exit 1; }
	@echo "==> virtual environment in $(VENV)"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@echo "==> packages (PySpark is 450 MB; the first time takes a minute or two)"
	$(BIN)/python -m pip install --disable-pip-version-check --requirement requirements-dev.lock
	@echo "==> penstock itself, with its compiled codec"
	@$(BIN)/python -m pip uninstall --disable-pip-version-check --quiet --yes penstock 2>/dev/null # its name before
	$(BIN)/python -m pip install --disable-pip-version-check --no-deps --editable .
	@touch $@

# An environment of its own: the packages of MkDocs change often, and penstock's tests need none of them.
$(SITE): $(SETUP) requirements-site.lock
	@echo "==> MkDocs in $(VENV)/site"
	@$(PYTHON) -m venv $(VENV)/site
	$(VENV)/site/bin/python -m pip install --disable-pip-version-check --quiet --requirement requirements-site.lock
	@touch $@

$(JARS): $(SETUP)
	@echo "==> Kafka's jars"
	@$(BIN)/python -m tests.jars
	@echo "==> archives of Java's classes, for quicker tests"
	@$(BIN)/python -m tests.quick_jvm
	@touch $@

.PHONY: help setup demo demo-cdc test unit models promises kafka spark chaos cluster parity page package rest npm versions older stores lint types arch docs site ci kafka-python wheels installed bench bench-check clean
