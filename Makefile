PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PIP    := $(BIN)/python -m pip install -qq --disable-pip-version-check

# Dozens of processes import the same modules: compile them once, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test golden coverage test-slow test-citus check setup bench bench-permissions bench-peers eval eval-documents soak flood lock version release docs test-browser test-ocr test-helm test-llamaindex clients typescript test-typescript audit sbom wheels test-wheels

# One file has the versions and hashes of all packages; a list for each environment names those that it has.
LOCKED = awk -f requirements/locked.awk requirements/$(1).txt requirements.lock

$(STAMP): requirements.lock requirements/dev.txt pyproject.toml clients/python/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; try: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing $$(grep -c '==' requirements/dev.txt) pinned packages into $(VENV); a first time takes a minute or more ..."
	@# uv installs them in a tenth of pip's time. Where it cannot, e.g. behind an index that only pip is told of, pip does.
	@sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > $(VENV)/uv.lock
	@$(call LOCKED,dev) > $(VENV)/dev.lock
	@$(PIP) --no-compile --no-deps --require-hashes -r $(VENV)/uv.lock
	@$(BIN)/uv pip install --python $(BIN)/python --no-deps --require-hashes -r $(VENV)/dev.lock \
		|| { echo "uv cannot install them; trying pip ..."; \
			$(BIN)/python -m pip install --disable-pip-version-check --no-compile --no-deps --require-hashes -r $(VENV)/dev.lock; }
	@echo "compiling the modules of the service ..."
	@$(PIP) --no-deps --no-build-isolation -e . -e clients/python
	@# The processes that parse documents cannot write files, so each would compile its modules again.
	@$(BIN)/python -c 'from app.documents import formats; from app.documents.process import child; [f.load() for f in formats.FORMATS]'
	@touch $@

setup: $(STAMP)

run: setup
	@$(BIN)/knowledge serve --demo

# Two processes share the modules, in the order of tests/fixtures/order.py.
SHARED := -n 2 --dist loadfile --no-loadscope-reorder

test: setup
	@$(BIN)/python -m pytest -m "not slow" $(SHARED)

# The same tests with coverage, which takes half as long again; fails below 90 % of app/.
coverage: setup
	@$(BIN)/python -m pytest -m "not slow" $(SHARED) --cov --cov-report=term

# Rewrites the golden files of what callers see; their diff shows what changes for callers.
golden: setup
	@KB_REWRITE_GOLDEN=1 $(BIN)/python -m pytest -q tests/golden

# Also the tests with generated examples, with others than those of `make test`.
test-slow: setup
	@$(BIN)/python -m pytest -m "slow or hypothesis" --hypothesis-profile=others $(SHARED)

# These run on one server in `make test`.
ON_CITUS := $(addprefix tests/api/test_, search_answer.py search_pages.py entries.py assets.py \
	saved_searches.py deleted_tenants.py authorisation.py limits.py administration.py reembedding.py sources.py usage.py \
	keys.py) tests/golden/test_answers.py \
	$(addprefix tests/isolation/, test_canaries.py test_foreign_ids.py test_influence.py test_sequences.py readers) \
	$(addprefix tests/knowledge/, ingestion subscriptions transfer)

# On a Citus cluster of three servers; skipped where the files of Citus are absent (../shared/citus).
test-citus: setup
	@$(BIN)/python -m pytest tests/citus
	@KB_TEST_ON_CITUS=1 $(BIN)/python -m pytest -m "not one_server" $(ON_CITUS)

# The console in a real Chromium: Debian's, so that Playwright downloads nothing. Screenshots go to build/screenshots.
test-browser: setup
	@$(BIN)/python -c 'import axe_playwright_python, playwright' 2>/dev/null \
		|| $(BIN)/python -m pip install -q --disable-pip-version-check --no-build-isolation -e '.[browser]'
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && apt-get install -yq chromium fonts-dejavu-core; } \
		|| { echo 'chromium is needed; try: sudo apt-get install chromium'; exit 1; }
	@$(BIN)/python -m pytest tests/browser

# Text recognition needs 250 MB of libraries, and tests elsewhere expect a service without it: so it has an environment
# of its own, which borrows all other packages.
OCR := build/ocr
$(OCR)/.installed: requirements.lock requirements/ocr.txt $(STAMP)
	@test -x $(OCR)/bin/python || $(BIN)/python -m venv $(OCR)
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		> $$($(OCR)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/borrowed.pth
	@$(call LOCKED,ocr) > $(OCR)/locked.txt
	@$(OCR)/bin/python -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r $(OCR)/locked.txt
	@touch $@

test-ocr: $(OCR)/.installed
	@$(OCR)/bin/python -m pytest tests/documents/ocr

clients/typescript/node_modules: clients/typescript/package-lock.json
	@command -v npm >/dev/null || { echo 'npm is needed: install Node 20 or newer'; exit 1; }
	@cd clients/typescript && npm ci --no-audit --no-fund --ignore-scripts --silent && touch node_modules

# Rewrites the types of both clients from the contract; tests compare them.
clients: setup clients/typescript/node_modules
	@$(BIN)/python -m clients.generate
	@cd clients/typescript && npm run --silent generate

# Builds the TypeScript client into build/.
typescript: clients/typescript/node_modules
	@mkdir -p build
	@cd clients/typescript && npm run --silent build && npm pack --silent --pack-destination ../../build

# The TypeScript client against the service; a part of `make test`.
test-typescript: setup
	@$(BIN)/python -m pytest tests/client/test_generated.py

# The chart, rendered by Helm itself and compared with the schemas of Kubernetes. Helm is a library of 75 MB, so it has
# an environment of its own, too. Needs no cluster.
HELM := build/helm
$(HELM)/.installed: requirements.lock requirements/helm.txt $(STAMP)
	@test -x $(HELM)/bin/python || $(BIN)/python -m venv $(HELM)
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		> $$($(HELM)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/borrowed.pth
	@$(call LOCKED,helm) > $(HELM)/locked.txt
	@$(HELM)/bin/python -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r $(HELM)/locked.txt
	@touch $@

test-helm: $(HELM)/.installed
	@$(HELM)/bin/python -m pytest tests/helm

# LlamaIndex brings 20 packages of 90 MB and takes 2 s to load, for two classes of the client.
LLAMAINDEX := build/llamaindex
$(LLAMAINDEX)/.installed: requirements.lock requirements/llamaindex.txt $(STAMP)
	@test -x $(LLAMAINDEX)/bin/python || $(BIN)/python -m venv $(LLAMAINDEX)
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		> $$($(LLAMAINDEX)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/borrowed.pth
	@$(call LOCKED,llamaindex) > $(LLAMAINDEX)/locked.txt
	@$(LLAMAINDEX)/bin/python -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r $(LLAMAINDEX)/locked.txt
	@touch $@

test-llamaindex: $(LLAMAINDEX)/.installed
	@$(LLAMAINDEX)/bin/python -m pytest tests/client/llamaindex tests/client/test_readme.py

check: setup
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m docs.prose
	@$(BIN)/python -m docs.links
	@$(BIN)/python -m docs.version
	@$(BIN)/python -m tests.db.schema.record

# Writes the version of pyproject.toml wherever else it stands.
version: setup
	@$(BIN)/python -m docs.version --write

# Records what callers of this version may depend on: the last step before its tag.
release: setup
	@$(BIN)/python -m tests.compatibility.release

eval: setup
	@$(BIN)/python -m benchmarks.quality
	@$(BIN)/python -m benchmarks.documents

# Questions about real PDF and HTML files: only this part of `eval`. Downloads 30 MB of Debian packages.
eval-documents: setup
	@$(BIN)/python -m benchmarks.documents

bench: setup
	@$(BIN)/python -m benchmarks.speed

# What permissions cost in a tenant of 100,000 entries, and whether its callers find all that they may read.
bench-permissions: setup
	@$(BIN)/python -m benchmarks.permissions

# Ten minutes of load: memory, connections and file handles must not grow.
soak: setup
	@$(BIN)/python -m benchmarks.soak --minutes 10

# How much one tenant's flood slows another.
flood: setup
	@$(BIN)/python -m benchmarks.flood

# Other systems to compare with, and plots: about 500 MB, so only on demand. langchain-postgres requires an older
# pgvector than the service uses, but works with this one.
bench-peers: setup
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[bench]'
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps langchain-postgres==0.0.19

# The service and its client as wheels in build/wheels: `pip install build/wheels/*.whl` in an empty environment is enough.
wheels: setup
	@rm -rf build/wheels
	@$(BIN)/python -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w build/wheels . ./clients/python
	@ls build/wheels/*.whl

# Installs both wheels with all that they depend on in an empty environment outside the repository, and serves, ingests
# and searches there.
test-wheels: setup
	@$(BIN)/python -m pytest tests/docs/test_package.py

# Builds the documentation into site/; any warning is an error. `python -m http.server -d site` serves it.
docs: setup
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

# The tools that audit have an environment of their own: they read the lock files, not what is installed.
AUDIT := build/audit
$(AUDIT)/.installed: requirements.lock requirements/audit.txt
	@test -x $(AUDIT)/bin/python || $(PYTHON) -m venv $(AUDIT)
	@$(call LOCKED,audit) > $(AUDIT)/locked.txt
	@$(AUDIT)/bin/python -m pip install -qq --disable-pip-version-check --no-deps --require-hashes -r $(AUDIT)/locked.txt
	@touch $@

# Needs an advisory database on the network, so it is not part of `check`.
audit: $(AUDIT)/.installed
	@.ci/audit

# A CycloneDX list of the Python packages in the image, with their hashes: those of the lock that its Linux and Python need.
sbom: setup $(AUDIT)/.installed
	@$(call LOCKED,service) > build/service.lock
	@$(BIN)/uv pip compile --quiet --no-deps --generate-hashes --no-annotate --no-header --no-emit-index-url \
		--python-platform linux --python-version $$(sed -nE 's/^ARG PYTHON_IMAGE=python:([0-9.]+).*/\1/p' Dockerfile) \
		build/service.lock -o build/image.lock
	@PYTHONWARNINGS=ignore $(AUDIT)/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible \
		-o build/sbom.json build/image.lock
	@echo build/sbom.json

COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-annotate --no-header --no-emit-index-url \
	--no-emit-package knowledge-client
SERVICE := pyproject.toml --extra gemini --extra multilingual --extra otel
DEV := $(SERVICE) --extra docs --extra eval --extra fastembed --extra dev
GROUPS := audit helm llamaindex

lock: setup
	@$(COMPILE) --generate-hashes $(DEV) --extra ocr $(GROUPS:%=--group %) -o requirements.lock
	@$(COMPILE) -c requirements.lock $(SERVICE) -o requirements/service.txt
	@$(COMPILE) -c requirements.lock $(DEV) -o requirements/dev.txt
	@$(COMPILE) -c requirements.lock pyproject.toml --extra ocr -o requirements/ocr.txt
	@for group in $(GROUPS); do $(COMPILE) -c requirements.lock --group $$group -o requirements/$$group.txt || exit; done
