# Commands for people and for CI; `make` alone lists them. Each target checks what it needs and says what is missing.

SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# One target folder for all working copies, outside of them: dependencies are built once.
export CARGO_TARGET_DIR ?= $(HOME)/.cache/anabranch/target

# For the demos: events per second, tasks per stage, how long to run (`30s`; until Ctrl-C if empty).
RATE ?= 100000
PARALLELISM ?=
DURATION ?=
# For chaos and simulation: the (first) seed.
SEED ?= $(shell date +%s)000
# Time limit of the tests, after they are built. Each test has its own, in .config/nextest.toml.
TEST_TIME_LIMIT ?= 50m
# For the wheel: `dev` builds faster and runs slower.
WHEEL_PROFILE ?= release
# For bench-nexmark: events of each query.
EVENTS ?= 4000000
# For bench-page: how long a page stays open.
MINUTES ?= 0
# For chaos: how often the job is killed.
KILLS ?= 20

# Where the tools of the Python package are: only for recipes, after need-python.
PYTHON = $(shell python/environment.sh)
# Runs each test as a process. It finds the programs that `cargo test --no-run` has built.
NEXTEST = $(PYTHON)/bin/cargo-nextest nextest run --locked --workspace
ANABRANCH := $(CARGO_TARGET_DIR)/release/anabranch
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# A download that nobody thinks about twice: 80 MB.
DIST_BYTES_MAX := 80000000
DIST := anabranch-$(VERSION)-$(shell uname -s | tr A-Z a-z)-$(shell uname -m)
# Builds one program in release mode. With `--workspace` all programs share one build of the dependencies; with a single
# package cargo would unify features differently and build the dependencies again.
#
# A program that users get contains OpenSSL: without pkg-config, openssl-sys links the archives of Debian's libssl-dev. Tests link the system's library.
MULTIARCH = $(shell cc -print-multiarch 2>/dev/null)
STATIC_OPENSSL = $(if $(wildcard /usr/lib/$(MULTIARCH)/libssl.a),OPENSSL_STATIC=1 OPENSSL_NO_PKG_CONFIG=1 \
  OPENSSL_LIB_DIR=/usr/lib/$(MULTIARCH) OPENSSL_INCLUDE_DIR=/usr/include)
BUILD = $(STATIC_OPENSSL) cargo build --locked --release --workspace --bin
RUN_FLAGS := $(if $(PARALLELISM),--parallelism $(PARALLELISM)) $(if $(DURATION),--duration $(DURATION))

.PHONY: help page page-check page-pictures demo demo-kafka sql test quick test-python chaos sim fuzz oracle bench bench-flight bench-nexmark bench-page bench-finite bench-osched osched-vm lint clean release dist wheel need-build need-kafka need-s3 need-postgres need-python need-jdk need-page need-browser

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\n  Variables of the demos: RATE=100000 (events/s)  PARALLELISM=2  DURATION=30s\n'

demo: release ## build, then count ad views per campaign in 10 s windows, live
	@echo 'The program is $(ANABRANCH)'
	@command -v anabranch >/dev/null || echo 'To call it as anabranch: export PATH="$(patsubst %/,%,$(dir $(ANABRANCH))):$$PATH"'
	$(ANABRANCH) demo --rate $(RATE) $(RUN_FLAGS)

demo-kafka: release need-kafka ## the same through a real Kafka broker, which the demo starts and stops
	ANABRANCH=$(ANABRANCH) RATE=$(RATE) examples/demo-kafka.sh $(RUN_FLAGS)

sql: release ## an interactive SQL shell
	$(ANABRANCH) sql $(if $(PARALLELISM),--parallelism $(PARALLELISM))

test: need-build need-kafka need-s3 need-postgres need-python need-browser ## every test, some with a real Kafka broker, S3 server, PostgreSQL or Ray
	cargo test --locked --workspace --no-run
	timeout --kill-after=10s $(TEST_TIME_LIMIT) $(NEXTEST)
	@$(MAKE) test-python

quick: need-build need-python ## the tests that need no server: no Kafka, S3, PostgreSQL or Ray, and a hundred simulated seeds
	cargo test --locked --workspace --no-run
	timeout --kill-after=10s $(TEST_TIME_LIMIT) $(NEXTEST) --profile quick

test-python: need-build need-python need-browser ## the tests of the Python package, which start Ray clusters of several nodes on this machine, and of what bench/osched computes
	cargo build --locked --workspace --bin anabranch
	cd python && ANABRANCH_PROGRAM=$(CARGO_TARGET_DIR)/debug/anabranch PYTHONPATH=src \
	  timeout --kill-after=10s 10m $(PYTHON)/bin/python -m pytest --numprocesses 2 --dist loadfile --ignore tests/page
	cd python && ANABRANCH_PROGRAM=$(CARGO_TARGET_DIR)/debug/anabranch PYTHONPATH=src \
	  sh -c 'timeout --kill-after=10s 10m $(PYTHON)/bin/python -m pytest tests/page || \
	    timeout --kill-after=10s 5m $(PYTHON)/bin/python -m pytest tests/page --last-failed'

chaos: need-build need-s3 ## kill jobs 20 times (KILLS=20 SEED=7); hang a broker for 40 s; restart a worker with 1 GB of state
	ANABRANCH_KILLS=$(KILLS) ANABRANCH_SEED=$(SEED) cargo test --locked --package anabranch-cli --test all -- chaos:: --nocapture --include-ignored
	ANABRANCH_SEEDS=6 cargo test --locked --package anabranch-server --test all -- recovery::golden --nocapture
	cargo test --locked --package anabranch-cli --test all -- kafka:: --nocapture --ignored
	cargo test --locked --package anabranch-cli --test all -- cluster:: --nocapture --ignored

sim: need-build ## simulate one seed after the other, from SEED on, until one fails or Ctrl-C
	$(BUILD) anabranch-sim
	$(CARGO_TARGET_DIR)/release/anabranch-sim $(SEED)

fuzz: need-build ## plan changed statements, one seed after the other, from SEED on, until one fails or Ctrl-C
	ANABRANCH_FIRST_SEED=$(SEED) cargo test --locked --package anabranch-plan --test all -- fuzz:: --ignored --nocapture

lint: need-build need-python ## format, clippy, ruff and mypy without warnings, and the repository's own rules
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo xtask tidy
	cd python && $(PYTHON)/bin/ruff format --check --quiet && $(PYTHON)/bin/ruff check --quiet && $(PYTHON)/bin/mypy

page: need-page ## build the page from page/ into crates/server/page (needs node)
	cd page && npm ci --silent --no-fund --no-audit && node build.mjs

page-check: need-page ## the page's types and unit tests, and whether crates/server/page is what page/ gives
	cd page && npm ci --silent --no-fund --no-audit && npx tsc --noEmit && node test.mjs && node build.mjs --check

page-pictures: need-build need-python need-browser ## pictures of each screen in both themes and widths, in docs/pictures
	cargo build --locked --workspace --bin anabranch
	cd python && ANABRANCH_PROGRAM=$(CARGO_TARGET_DIR)/debug/anabranch $(PYTHON)/bin/python tests/page/pictures.py

oracle: release need-python ## compare queries by chance with DuckDB, and before and after each rule of the optimizer, from SEED on, until one fails or Ctrl-C
	ANABRANCH_FIRST_SEED=$(SEED) ANABRANCH_SEEDS=20000 cargo test --locked --package anabranch-plan --lib -- passes:: --ignored --nocapture
	cd python && ANABRANCH_PROGRAM=$(ANABRANCH) PYTHONPATH=src $(PYTHON)/bin/python tests/oracle_hunt.py $(SEED)

bench: release ## measure against hand-written limits and peers; writes bench/RESULTS.md
	@mkdir -p bench
	$(BUILD) anabranch-bench
	$(CARGO_TARGET_DIR)/release/anabranch-bench all --markdown bench/RESULTS.md

bench-flight: need-build ## Arrow Flight in the place of the exchange, with the rows of `anabranch-bench network` (ROWS=10000000)
	cargo run --quiet --locked --release --manifest-path bench/flight/Cargo.toml -- $(ROWS)

bench-nexmark: release need-jdk ## the queries of Nexmark beside Apache Flink (EVENTS=4000000); writes bench/NEXMARK.md
	bench/nexmark/measure.py $(ANABRANCH) --events $(EVENTS) --markdown bench/NEXMARK.md

bench-osched: release need-jdk ## Flink, Storm and Anabranch with and without osched (ENGINE=storm SHORT=--short); needs root; writes bench/osched/RESULTS.md
	bench/osched/measure.py $(ANABRANCH) $(if $(ENGINE),--engine $(ENGINE)) $(SHORT) --markdown bench/osched/RESULTS.md

osched-vm: need-build ## the tests of osched with real threads in an emulated machine with cgroups of version 2 (Debian; minutes)
	tests/osched-vm/run.sh

bench-page: release need-python need-browser ## what an open page costs the job, the browser and the wire (MINUTES=60: its memory, too); writes bench/page/RESULTS.md
	$(PYTHON)/bin/python bench/page/measure.py $(ANABRANCH) --minutes $(MINUTES) --markdown bench/page/RESULTS.md

bench-finite: release need-python ## queries over files that end, beside DuckDB; writes bench/FINITE.md
	$(PYTHON)/bin/python bench/finite/measure.py $(ANABRANCH) --markdown bench/FINITE.md

wheel: need-build need-python ## the Python package with the binary, as a wheel in dist/
	cd python && $(STATIC_OPENSSL) CARGO="$$PWD/cargo.sh" $(PYTHON)/bin/maturin build --quiet --locked --profile $(WHEEL_PROFILE) --out ../dist
	@ls -l dist/*.whl

clean: ## remove what was built (the target folder, shared by all working copies)
	cargo clean

release: need-build
	$(BUILD) anabranch

dist: release ## the binary, its examples and documents as an archive in dist/
	@rm -rf dist/$(DIST) && mkdir -p dist/$(DIST)
	strip -o dist/$(DIST)/anabranch $(ANABRANCH)
	cp -r LICENSE README.md CHANGELOG.md docs examples dist/$(DIST)
	tar --create --gzip --file dist/$(DIST).tar.gz --directory dist $(DIST)
	@rm -rf dist/$(DIST) && ls -l dist/$(DIST).tar.gz
	@bytes=$$(wc -c < dist/$(DIST).tar.gz); [ $$bytes -le $(DIST_BYTES_MAX) ] || \
	  { echo "error: the archive has $$bytes bytes, more than $(DIST_BYTES_MAX)" >&2; exit 1; }

need-build:
	@.ci/need rust build

need-kafka:
	@.ci/need kafka
	@tests/kafka/fetch.sh

need-python:
	@.ci/need python
	@python/environment.sh

need-jdk:
	@.ci/need jdk

need-s3: need-kafka
	@tests/s3/fetch.sh

need-postgres:
	@.ci/need postgres

need-page:
	@.ci/need page

need-browser:
	@.ci/need browser
