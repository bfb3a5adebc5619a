# SPDX-License-Identifier: GPL-2.0-or-later
# What a user or a developer does with a checkout. Each target installs first what is missing.
.DEFAULT_GOAL := help
.PHONY: help verdicts setup kernel reproduce results docs test lint bisect selftest doctor clean
# the kernel build brings its own parallelism; lab runs are pinned to CPUs
.NOTPARALLEL:

BIN := .venv/bin
READY := .venv/.setup-done
PYTHON_SOURCES := kernel-impl spec conformance docs

help: ## list the targets
	@sed -nE 's/^([a-z]+):[^#]*## (.*)/\1|\2/p' Makefile | while IFS='|' read -r target what; do \
		printf '  make %-10s %s\n' "$$target" "$$what"; done

$(READY): pyproject.toml tools/packages.txt tools/setup
	@tools/setup

setup: ## install what is missing: Debian packages, Python packages into .venv/
	@tools/setup

kernel: $(READY) ## fetch, patch and build the reference kernel
	@$(BIN)/nvmptcp-lab build

reproduce: $(READY) ## build, check both variants, measure the published table
	@$(BIN)/nvmptcp-lab reproduce $(ARGS)

results: $(READY) ## reproduce, and renew kernel-impl/RESULTS.md and results.json
	@$(BIN)/nvmptcp-lab reproduce --fit 6,9,12 --markdown kernel-impl/RESULTS.md \
		--summary kernel-impl/results.json $(ARGS)

docs: $(READY) ## the site, and the Technical Proposal as PDF and DOCX, in build/docs/
	@tools/setup docs
	@$(BIN)/python -m nvmptcp_docs.build $(ARGS)

test: lint ## lint, then every test
	@tools/setup docs
	@$(BIN)/pytest $(ARGS)

lint: $(READY) ## ruff and mypy --strict
	@$(BIN)/ruff check $(PYTHON_SOURCES)
	@$(BIN)/mypy $(PYTHON_SOURCES)

verdicts: $(READY) ## run the tests that verify requirements, and renew spec/verdicts.json
	@rm -f build/verdicts.json
	@$(BIN)/pytest -m requirement --requirement-verdicts build/verdicts.json $(ARGS); \
		code=$$?; $(BIN)/nvmptcp-spec verdicts build/verdicts.json && exit $$code

bisect: $(READY) ## each patch of the series: applies, checkpatch, builds, boots
	@$(BIN)/nvmptcp-lab bisect $(ARGS)

selftest: $(READY) ## the kernel's own tests, on the patched and the unpatched kernel
	@$(BIN)/nvmptcp-lab selftest --compare $(ARGS)

doctor: $(READY) ## what is missing on this machine, and how fast it will run
	@$(BIN)/nvmptcp-lab doctor

clean: ## remove .venv and what tests left; the kernel cache stays
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache *.egg-info build dist reproduce-out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
