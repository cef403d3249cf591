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
CLIENT_STAMP := build/.client
COMPILED := build/.compiled
# Its types are those of the service's interfaces.
CLIENT_SOURCES := $(shell find api core realtime tools/pages -type f ! -name '*.pyc' ! -path 'api/web/client/types/*' ! -name wire.d.ts)
TSC := $(VENV)/bin/node node_modules/typescript-7/bin/tsc
# A lock has all packages or adds them to the locks before it; without their dependencies, none is taken but those.
INSTALL_UV := install --quiet --disable-pip-version-check --no-compile --require-hashes --no-deps -r requirements/build.lock
# uv makes the bytecode on all cores; else each process that starts first would make all of it.
UV_INSTALL := VIRTUAL_ENV=$(VENV) $(UV) pip install --compile-bytecode
UV_COMPILE := $(UV) pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-annotate --no-header

# Without bytecode files, each command in the tests would compile the service again, and each worker all tests.
unexport PYTHONDONTWRITEBYTECODE

# Targets with a dot are parts of others.
.PHONY: .sql .code help install up try demo test test-all check client pages fuzz chaos ha engines package-proof deploy-proof audit-locks docs lock migration release
help:            ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## install the dependencies of requirements/dev.lock into .venv

# To give the venv its own pip takes four seconds, so it gets one only if Python has none.
$(UV_STAMP): requirements/build.lock
	$(PYTHON) -m venv --without-pip $(VENV)
	$(PYTHON) -m pip --python $(VENV)/bin/python $(INSTALL_UV) 2>/dev/null || \
	  { $(VENV)/bin/python -m ensurepip >/dev/null && $(VENV)/bin/python -m pip $(INSTALL_UV); }
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

test: $(COMPILED) ## test every rule of the product over real processes, in some four minutes on two cores; WORKERS=…
	$(VENV)/bin/python -m tests.run quick $(WORKERS:%=-n %)

test-all: client $(COMPILED) ## run these tests and the slow folders: faults, engines, proxies, browsers, upgrades
	$(VENV)/bin/python -m tests.run all $(WORKERS:%=-n %)

# The bytecode of the tests and of the service: each worker of a first run would make all of it.
$(COMPILED): $(STAMP)
	$(VENV)/bin/python -m pytest --tier quick --collect-only -qq >/dev/null
	@mkdir -p build
	@touch $(COMPILED)

check: client    ## check format, lint, SQL, spelling, prose, import contracts, types and compatibility of the interfaces
	@$(MAKE) --no-print-directory --jobs 2 .sql .code

.sql:
	$(VENV)/bin/sqlfluff lint --quiet core piccolo_migrations

.code:
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	@if [ "$$(uname -sm)" = "Linux x86_64" ]; then set -x; $(VENV)/bin/biome ci --error-on-warnings; \
	  else echo "biome has no wheel for this machine; CI runs it"; fi
	$(VENV)/bin/codespell
	$(VENV)/bin/lint-imports
	$(VENV)/bin/pyright
	$(TSC) -p tsconfig.json
	$(TSC) -p tests/client
	$(TSC) -p tsconfig.apps.json
	$(VENV)/bin/python -m tools.compatibility
	$(VENV)/bin/python -m tools.checks.prose

fuzz: install $(TOOLS_STAMP) ## send generated requests to a temporary service, and sign in with a generated client; 4 minutes
	$(VENV)/bin/python -m tests.fuzz.run

package-proof: install ## install the wheel with requirements/runtime.lock alone, and play a paid session on it; 3 minutes
	$(VENV)/bin/python -m tools.checks.package_proof

deploy-proof: install ## follow docs/deploying.md line by line in a container with systemd (root, on Debian 12); 10 minutes
	tests/debian.sh debootstrap systemd-container
	$(VENV)/bin/python -m tests.deploy.proof

audit-locks: install $(TOOLS_STAMP) ## look for known vulnerabilities of the locks' packages; OSV_ARCHIVE=… or OSV_URL=… names the data
	$(VENV)/bin/python -m tools.checks.audit_locks $(if $(OSV_URL),--osv-url $(OSV_URL)) $(if $(OSV_ARCHIVE),--osv-archive $(OSV_ARCHIVE))

ha: engines       ## break each engine of a deployment on several machines under load, and write docs/ha-results.md
	$(VENV)/bin/python -m tests.ha

engines: $(TOOLS_STAMP) $(HA_STAMP) $(PEERS_STAMP) ## install the engines, proxies and checkers of slow tests (on Debian), and the peers of `sesi bench`
	tests/engines.sh

$(HA_STAMP): requirements/ha.lock $(STAMP)
	$(HA_PYTHON) -m venv --without-pip $(HA)
	$(UV_INSTALL) --quiet --python $(HA) --require-hashes --no-deps -r requirements/ha.lock
	@touch $(HA_STAMP)

$(PEERS_STAMP): tools/bench/peers/package-lock.json $(STAMP)
	mkdir -p $(PEERS)
	cp .npmrc tools/bench/peers/package.json tools/bench/peers/package-lock.json $(PEERS)
	$(VENV)/bin/npm ci --prefix $(PEERS) --ignore-scripts --silent
	@touch $(PEERS_STAMP)

docs: $(TOOLS_STAMP) client ## build the documentation site into site; open site/index.html
	$(VENV)/bin/python -m tools.pages.docs_site
	$(VENV)/bin/node node_modules/typedoc/bin/typedoc --tsconfig tools/pages/typedoc.json
	$(VENV)/bin/zensical build --strict --clean
	$(VENV)/bin/python -m tools.pages.docs_site check

# The types of the client library, and its package build/sesi-client-….tgz.
client: $(CLIENT_STAMP)

$(CLIENT_STAMP): $(STAMP) $(NODE_STAMP) $(CLIENT_SOURCES)
	$(VENV)/bin/python -m tools.pages.client_package
	@mkdir -p build
	$(VENV)/bin/npm pack ./api/web/client --silent --pack-destination build
	@touch $(CLIENT_STAMP)

pages: install   ## write the generated pages in docs and the words of the control center; PICTURES=1 with pictures, by Chromium
	$(VENV)/bin/python -m tools.pages
	$(VENV)/bin/python -m tests.faults.table
	$(VENV)/bin/python -m tests.access.asvs
	$(if $(PICTURES),$(VENV)/bin/python -m tests.pages.pictures)
	$(if $(PICTURES),$(VENV)/bin/python -m tests.apps.pictures)

migration: install ## with NAME=… write the next migration, with what the code declares and the database lacks; without, seal new ones
	$(VENV)/bin/python -m tools.checks.new_migration $(NAME)
	$(if $(NAME),$(VENV)/bin/sqlfluff fix --quiet piccolo_migrations/[0-9]*_$(NAME).sql)

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

release: $(TOOLS_STAMP) client ## build a release of the present commit into dist; VERSION=… first writes that version, to be committed
	$(VENV)/bin/python -m tools.checks.release $(VERSION)
