# Needs git, make and Python 3.11 or newer; everything else goes into .venv by itself.
PYTHON ?= python3
venv := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help quickstart test lint format check setup

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 14

quickstart: ## see a whole training run in a minute, without any key or account
	@$(PYTHON) scripts/bootstrap.py
	@rm -rf .quickstart
	@$(venv)/skillopt-ci quickstart .quickstart

test: setup ## run all tests, unit and end to end
	$(venv)/python -m pytest -n auto

lint: setup ## check style and types
	$(venv)/python -m ruff check
	$(venv)/python -m ruff format --check
	$(venv)/python -m mypy

format: setup ## put the code into the one format
	$(venv)/python -m ruff check --fix-only
	$(venv)/python -m ruff format

check: lint test ## all that must hold for a commit

setup: ## make or renew .venv with what development needs
	@$(PYTHON) scripts/bootstrap.py --dev
