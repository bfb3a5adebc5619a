# SPDX-License-Identifier: GPL-2.0-or-later
# What a user or a developer does with a checkout. Each target installs first what is missing.
.DEFAULT_GOAL := help
.PHONY: help setup kernel reproduce results perf cost docs test lint verdicts conformance mutants
.PHONY: dissector install-dissector captures dissector-benchmark fuzz bisect selftest doctor clean
.PHONY: model model-doc validate state
# the kernel build brings its own parallelism; lab runs are pinned to CPUs
.NOTPARALLEL:

BIN := .venv/bin
READY := .venv/.setup-done
PYTHON_SOURCES := kernel-impl spec conformance dissector model docs

help: ## list the targets
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/\1|\2/p' Makefile | while IFS='|' read -r target what; do \
		printf '  make %-20s %s\n' "$$target" "$$what"; done

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

perf: $(READY) ## measure all scenarios, and renew docs/explanation/performance.md
	@$(BIN)/nvmptcp-lab perf run all $(ARGS)
	@$(BIN)/python -m nvmptcp_conformance.perf.page perf-out

cost: $(READY) ## measure CPU time a GiB, and renew docs/explanation/performance.md
	@$(BIN)/nvmptcp-lab cost --functions 12 --json docs/results/cost.json $(ARGS)
	@$(BIN)/python -m nvmptcp_conformance.perf.page

state: $(READY) ## count what a target holds for each host, and renew docs/explanation/model.md
	@$(BIN)/nvmptcp-lab state --json docs/results/state.json $(ARGS)
	@$(BIN)/python -m nvmptcp_model.page

docs: $(READY) ## the site, and the Technical Proposal as PDF and DOCX, in build/docs/
	@tools/setup docs
	@$(BIN)/python -m nvmptcp_docs.build $(ARGS)

test: lint ## lint, then every test, a file on each CPU at a time
	@tools/setup docs dissector model
	@$(BIN)/pytest --numprocesses auto --dist loadfile $(ARGS)

lint: $(READY) ## ruff and mypy --strict
	@$(BIN)/ruff check $(PYTHON_SOURCES)
	@$(BIN)/mypy $(PYTHON_SOURCES)

verdicts: $(READY) ## run the tests that verify requirements, and renew spec/verdicts.json
	@tools/setup docs
	@rm -f build/verdicts.json
	@$(BIN)/pytest -m requirement --numprocesses auto --dist loadfile \
		--requirement-verdicts build/verdicts.json $(ARGS); \
		code=$$?; $(BIN)/nvmptcp-spec verdicts build/verdicts.json && exit $$code

dissector: $(READY) ## the Wireshark plugin, in build/dissector/plugins/
	@tools/setup dissector
	@mkdir -p build
	@# one build at a time: tests that run side by side each ask for it
	@flock build/dissector.lock sh -c 'cmake -S dissector -B build/dissector >build/dissector.log || \
		{ cat build/dissector.log; exit 1; }; cmake --build build/dissector $(ARGS)'

install-dissector: dissector ## put the plugin and its profile into your personal Wireshark folders
	@dissector/install build/dissector

fuzz: $(READY) ## fuzz the plugin's reassembler for an hour, or ARGS=SECONDS
	@tools/setup dissector
	@dissector/fuzz/run $(or $(ARGS),3600)

captures: $(READY) ## make the dissector's captures in the lab, and what the kernel counted
	@$(BIN)/python -m nvmptcp_captures.record $(ARGS)

dissector-benchmark: dissector ## CPU time and memory of tshark with the plugin, against without
	@$(BIN)/python -m nvmptcp_captures.benchmark $(ARGS)

model: $(READY) ## the ns-3 model, in build/model/
	@tools/setup model
	@mkdir -p build
	@flock build/model.lock sh -c 'cmake -S model -B build/model -G Ninja \
		-DPython3_EXECUTABLE=$(CURDIR)/$(BIN)/python -DNS3_ROOT=$(NS3_ROOT) >build/model.log || \
		{ cat build/model.log; exit 1; }; cmake --build build/model $(ARGS)'

model-doc: model ## renew tables of attributes and pictures in the model's documentation
	@build/model/nvme-mptcp-attributes >build/attributes.rst && \
		mv build/attributes.rst model/doc/attributes.rst
	@$(BIN)/nvmptcp-model examples --output build/model-examples
	@mkdir -p model/doc/figures
	@cp build/model-examples/*.png model/doc/figures/

validate: model ## the model against the kernel; renew docs/explanation/model.md
	@rm -f build/model-out/validate.json
	@# the page shows what is amiss, too
	@code=0; $(BIN)/nvmptcp-model validate --output build/model-out || code=$$?; \
		[ -e build/model-out/validate.json ] && \
		$(BIN)/nvmptcp-model run own --output build/model-out/own && \
		$(BIN)/nvmptcp-model benchmark --output build/model-out && \
		$(BIN)/python -m nvmptcp_model.page build/model-out && exit $$code

conformance: $(READY) ## the conformance suite on the reference kernel, as target and as host
	@$(BIN)/nvmptcp-conformance reference --restart $(ARGS)

mutants: $(READY) ## which tests of the suite catch each faulty target and host
	@$(BIN)/python conformance/tests/mutants.py $(ARGS)

bisect: $(READY) ## each patch of the series: applies, checkpatch, builds, boots
	@$(BIN)/nvmptcp-lab bisect $(ARGS)

selftest: $(READY) ## the kernel's own tests, on the patched and the unpatched kernel
	@$(BIN)/nvmptcp-lab selftest --compare $(ARGS)

doctor: $(READY) ## what is missing on this machine, and how fast it will run
	@$(BIN)/nvmptcp-lab doctor

clean: ## remove .venv and what tests left; the kernel cache stays
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache *.egg-info build dist reproduce-out perf-out \
		model-out nvmptcp-conformance-results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
