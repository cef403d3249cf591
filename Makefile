# `make up` runs the service, `make test` tests it. Both first install their dependencies into .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
SESI := $(VENV)/bin/sesi
UV := $(VENV)/bin/uv
UV_STAMP := $(VENV)/.uv
RUNTIME_STAMP := $(VENV)/.runtime
STAMP := $(VENV)/.installed
FUZZ := .venv-fuzz
FUZZ_STAMP := $(FUZZ)/.installed
BENCH := .venv-bench
BENCH_STAMP := $(BENCH)/.installed
HA := .venv-ha
HA_STAMP := $(HA)/.installed
# Under root, Patroni runs as another user, who must be able to read its Python.
HA_PYTHON ?= $(firstword $(wildcard /usr/bin/python3) $(PYTHON))
DOCS := .venv-docs
DOCS_STAMP := $(DOCS)/.installed
DEPLOY := .venv-deploy
DEPLOY_STAMP := $(DEPLOY)/.installed
NODE_STAMP := node_modules/.installed
TSC := $(VENV)/bin/node node_modules/typescript/bin/tsc
UV_INSTALL := VIRTUAL_ENV=$(VENV) $(UV) pip install
UV_COMPILE := $(UV) pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-annotate --no-header

# Without bytecode files, each command in the tests would compile the service again, and each worker all tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install up try demo test test-all quick check pages release-interfaces migration migrations pictures fuzz client-proof chaos ha ha-install backup-install bench-install package-proof deploy-check deploy-install sbom audit-locks docs lock clean
help:            ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## install the dependencies of requirements-dev.lock into .venv

# A lock file is given to pip as a constraint too: pip 23 looks for `package[extra]` among all versions of the package,
# whatever version of `package` the file pins.
$(UV_STAMP): requirements-uv.lock
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.lock -c requirements-uv.lock
	@touch $(UV_STAMP)

# The service and the embedded servers, without the tools of development.
$(RUNTIME_STAMP): requirements-laptop.lock pyproject.toml $(UV_STAMP)
	$(UV_INSTALL) --require-hashes -r requirements-laptop.lock
	$(UV_INSTALL) --quiet --no-deps --no-build-isolation -e .
	@touch $(RUNTIME_STAMP)

$(STAMP): requirements-dev.lock $(RUNTIME_STAMP)
	$(UV_INSTALL) --require-hashes -r requirements-dev.lock
	@touch $(STAMP)

$(NODE_STAMP): package-lock.json $(STAMP)
	$(VENV)/bin/npm ci --ignore-scripts --silent
	@touch $(NODE_STAMP)

up: $(RUNTIME_STAMP) ## run the whole service on this machine, with embedded PostgreSQL and Valkey
	@DEVELOPMENT_IDENTITIES="$${DEVELOPMENT_IDENTITIES-true}" $(SESI) up

SCALE ?= 10
try: $(RUNTIME_STAMP) ## try it out in a browser, in a temporary service; SCALE=1 to 60 (default 10) is its speed
	@$(SESI) try --scale $(SCALE)

demo: $(RUNTIME_STAMP) ## play a paid session from payment to goodbye, in a temporary service
	@$(SESI) demo

WORKERS ?= 4
test: install $(NODE_STAMP) ## test every rule of the product over real processes, in four minutes on two cores; WORKERS=… (default 4)
	$(VENV)/bin/python -m tests.run quick -n $(WORKERS)

test-all: install $(NODE_STAMP) ## run these tests and the slow folders: faults, engines, proxies, browsers, upgrades
	$(VENV)/bin/python -m tests.run all -n $(WORKERS)

quick: install    ## run the unit tests, those of the layout and a whole paid session, in 40 seconds on two cores
	$(VENV)/bin/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --services-first tests/layout tests/unit tests/journeys/test_paid_session.py

check: install $(NODE_STAMP) ## check format, lint, SQL, spelling, prose, import contracts, types and compatibility of the interfaces
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	@if [ "$$(uname -sm)" = "Linux x86_64" ]; then set -x; $(VENV)/bin/biome ci --error-on-warnings; \
	  else echo "biome has no wheel for this machine; CI runs it"; fi
	$(VENV)/bin/codespell
	$(VENV)/bin/sqlfluff lint --quiet core piccolo_migrations
	$(VENV)/bin/lint-imports
	$(VENV)/bin/pyright
	$(TSC) -p tsconfig.json
	$(TSC) -p tests/client
	$(TSC) -p tsconfig.apps.json
	$(VENV)/bin/python -m tools.compatibility
	$(VENV)/bin/python -m tools.checks.prose

fuzz: install $(FUZZ_STAMP) ## send generated requests to a temporary service for about 4 minutes; includes client-proof
	$(VENV)/bin/python -m tests.fuzz.run

client-proof: install $(FUZZ_STAMP) ## generate a client from the public OpenAPI document and sign in with it
	$(VENV)/bin/python -m tests.fuzz.run --client-only

$(FUZZ_STAMP): requirements-fuzz.lock
	$(PYTHON) -m venv $(FUZZ)
	$(FUZZ)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-fuzz.lock -c requirements-fuzz.lock
	@touch $(FUZZ_STAMP)

package-proof: install ## install the wheel with requirements.lock alone, and play a paid session on it; 3 minutes
	$(VENV)/bin/python -m tools.checks.package_proof

deploy-check: deploy-install ## check the files of deploy, each by the tool of its kind
	$(VENV)/bin/python -m tests.deploy

deploy-install: install $(DEPLOY_STAMP) ## install nginx, HAProxy, Caddy, systemd-analyze, promtool and amtool (on Debian), and checkers into .venv-deploy
	tests/deploy/install.sh

$(DEPLOY_STAMP): requirements-deploy.lock
	$(PYTHON) -m venv $(DEPLOY)
	$(DEPLOY)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-deploy.lock -c requirements-deploy.lock
	@touch $(DEPLOY_STAMP)

sbom: install $(DEPLOY_STAMP) ## write the packages of the runtime lock as a CycloneDX file, build/sesi.cdx.json
	$(VENV)/bin/python -m tools.checks.sbom

audit-locks: install $(DEPLOY_STAMP) ## look for known vulnerabilities of the locks' packages; OSV_ARCHIVE=… or OSV_URL=… names the data
	$(VENV)/bin/python -m tools.checks.audit_locks $(if $(OSV_URL),--osv-url $(OSV_URL)) $(if $(OSV_ARCHIVE),--osv-archive $(OSV_ARCHIVE))

ha: ha-install    ## break each engine of a deployment on several machines under load, and write docs/ha-results.md
	$(VENV)/bin/python -m tests.ha

ha-install: install $(HA_STAMP) ## install etcd, HAProxy and PgBouncer (on Debian), and Patroni into .venv-ha
	tests/ha/install.sh

$(HA_STAMP): requirements-ha.lock $(STAMP)
	$(HA_PYTHON) -m venv --without-pip $(HA)
	$(VENV)/bin/python -m pip --python $(HA)/bin/python install --quiet --disable-pip-version-check --require-hashes -r requirements-ha.lock -c requirements-ha.lock
	@touch $(HA_STAMP)

backup-install: install ## install PostgreSQL and pgBackRest (on Debian), for tests/backup
	tests/backup/install.sh

bench-install: install $(BENCH_STAMP) ## install the peers and the profiler of `sesi bench` into .venv-bench

$(BENCH_STAMP): requirements-bench.lock tools/bench/peers/package-lock.json $(STAMP)
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-bench.lock -c requirements-bench.lock
	cp .npmrc tools/bench/peers/package.json tools/bench/peers/package-lock.json $(BENCH)
	$(VENV)/bin/npm ci --prefix $(BENCH) --ignore-scripts --silent
	@touch $(BENCH_STAMP)

docs: $(DOCS_STAMP) ## build the documentation site into site; open site/index.html
	$(DOCS)/bin/python -m tools.pages.docs_site
	$(DOCS)/bin/zensical build --strict --clean
	$(DOCS)/bin/python -m tools.pages.docs_site check

$(DOCS_STAMP): requirements-docs.lock
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-docs.lock -c requirements-docs.lock
	@touch $(DOCS_STAMP)

pages: install $(NODE_STAMP) ## write the generated pages in docs, the dashboards, and the types of the client library
	$(VENV)/bin/python -m tools.pages.proofs
	$(VENV)/bin/python -m tools.pages.config_page
	$(VENV)/bin/python -m tools.pages.events_page
	$(VENV)/bin/python -m tools.pages.product_page
	$(VENV)/bin/python -m tools.pages.privacy_page
	$(VENV)/bin/python -m tools.pages.control_center_words
	$(VENV)/bin/python -m tools.pages.errors_page
	$(VENV)/bin/python -m tools.pages.client_types
	$(VENV)/bin/python -m tools.pages.client_package
	$(VENV)/bin/python -m tools.pages.client_api_page
	$(VENV)/bin/python -m tools.pages.invariants_page
	$(VENV)/bin/python -m tools.pages.metrics_page
	$(VENV)/bin/python -m tools.pages.modules_page
	$(VENV)/bin/python -m tools.pages.licences
	$(VENV)/bin/python -m tools.pages.dashboards
	$(VENV)/bin/python -m tests.faults.table
	$(VENV)/bin/python -m tests.access.asvs

release-interfaces: install ## write the interface documents of a release (docs/api/README.md)
	$(VENV)/bin/python -m tools.compatibility --release
	$(VENV)/bin/python -m tools.pages.client_package --release

migration: install ## write the next migration, NAME=…, with what the code declares and the database lacks
	$(VENV)/bin/python -m tools.checks.new_migration $(NAME)
	$(VENV)/bin/sqlfluff fix --quiet piccolo_migrations/[0-9]*_$(NAME).sql

migrations: install ## seal new migrations with their hashes; sealed ones must not change
	$(VENV)/bin/python -m tools.checks.new_migration

pictures: install ## take new pictures of the control center and the apps for the docs; needs Chromium
	$(VENV)/bin/python -m tests.pages.pictures
	$(VENV)/bin/python -m tests.apps.pictures

MINUTES ?= 3
CLIENT ?= python
chaos: install    ## use a service while faults are injected; SEED=… repeats a schedule, MINUTES=… (default 3, at most 10), CLIENT=typescript, FAIR=1
	$(VENV)/bin/python -m tests.faults.chaos.run --minutes $(MINUTES) --client $(CLIENT) $(if $(SEED),--seed $(SEED)) $(if $(FAIR),--fair)

lock: $(UV_STAMP) ## update the lock files to the newest versions that are allowed
	echo uv | $(UV_COMPILE) - -o requirements-uv.lock
	$(UV_COMPILE) --extra dev pyproject.toml -o requirements-dev.lock
	$(UV_COMPILE) -c requirements-dev.lock pyproject.toml -o requirements.lock
	$(UV_COMPILE) -c requirements-dev.lock --extra laptop pyproject.toml requirements-build.in -o requirements-laptop.lock
	$(UV_COMPILE) -c requirements-dev.lock --extra traces pyproject.toml -o requirements-traces.lock
	$(UV_COMPILE) -c requirements-dev.lock requirements-build.in -o requirements-build.lock
	$(UV_COMPILE) requirements-fuzz.in -o requirements-fuzz.lock
	$(UV_COMPILE) requirements-docs.in -o requirements-docs.lock
	$(UV_COMPILE) -c requirements-dev.lock requirements-bench.in -o requirements-bench.lock
	$(UV_COMPILE) requirements-ha.in -o requirements-ha.lock
	$(UV_COMPILE) requirements-deploy.in -o requirements-deploy.lock

clean:            ## delete the environments, the built site and the data
	rm -rf $(VENV) $(FUZZ) $(BENCH) $(HA) $(DOCS) $(DEPLOY) node_modules build site .cache .sesi
