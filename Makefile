PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: run test coverage test-slow check setup bench bench-peers eval soak flood lock

$(STAMP): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; try: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing pinned dependencies into $(VENV) ..."
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-compile --require-hashes -r requirements-dev.lock
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

setup: $(STAMP)

run: setup
	@$(BIN)/knowledge serve --demo

test: setup
	@$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadfile

# The same tests, half as long again; fails below 90 % of app/.
coverage: setup
	@$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadfile --cov --cov-report=term

test-slow: setup
	@$(BIN)/python -m pytest -m slow

check: setup
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

eval: setup
	@$(BIN)/python -m benchmarks.quality

bench: setup
	@$(BIN)/python -m benchmarks.speed

# Ten minutes of load: memory, connections and file handles must stay as they are.
soak: setup
	@$(BIN)/python -m benchmarks.soak --minutes 10

# What one tenant's flood costs another.
flood: setup
	@$(BIN)/python -m benchmarks.flood

# Other systems to compare with, and plots: some 500 MB, so only on demand. langchain-postgres asks for an older
# pgvector than the service's, and works with this one.
bench-peers: setup
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[bench]'
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps langchain-postgres==0.0.19

COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--no-header --no-emit-index-url pyproject.toml

lock: setup
	@$(COMPILE) --extra gemini --extra multilingual -o requirements.lock
	@$(COMPILE) --extra gemini --extra multilingual --extra eval --extra dev -c requirements.lock -o requirements-dev.lock
