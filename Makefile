# Everything here works on a clean clone, as any user. Needs python3 (3.10+) with venv, git and a C++ compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TESTS ?= tests/unit tests/contract
# Directories of the demo; delete the first to start afresh.
WORK ?= demo
ARGS ?=
KPACK_ARGS ?=
SDK_ARGS ?=
CHECK_ARGS ?=
SOURCES_ARGS ?=
BUILD_ARGS ?=

.PHONY: help install demo test real check bench bench-kpack bench-sdk bench-check bench-sources bench-build clean

help:  ## show the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/'

install: $(VENV)/.ready  ## create .venv with the rocwright command

demo: $(VENV)/.ready  ## real ROCm in, installed and tested wheels out
	@$(BIN)/rocwright demo --work-dir $(WORK) $(ARGS)

test: $(VENV)/.dev  ## the tests (TESTS=path to choose)
	$(BIN)/python -m pytest -n 2 -m "not slow" $(TESTS)

real: $(VENV)/.dev  ## the slow tests, then those on real ROCm with a real compiler and real installers (minutes)
	$(BIN)/python -m pytest -n 2 -m slow tests/unit tests/contract
	$(BIN)/python -m pytest -m real tests/real

check: $(VENV)/.dev  ## linters, types, architecture, generated files, documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

bench: $(VENV)/.dev demo  ## measure; prints goals, figures and floors as JSON
	$(BIN)/python benchmarks/wheel_write.py $(WORK)/rocm/lib
	$(BIN)/python benchmarks/demo.py --work-dir $(WORK)-bench

bench-kpack: $(VENV)/.dev  ## measure the split of device code on the distribution's rocSPARSE (KPACK_ARGS=...)
	$(BIN)/rocwright sdk fetch $(WORK)-kpack/rocm
	$(BIN)/python benchmarks/kpack.py $(WORK)-kpack/rocm/lib/librocsparse.so.0.1 $(KPACK_ARGS)

bench-sdk: $(VENV)/.dev  ## measure the Python packages of the distribution's ROCm: made, installed, used (SDK_ARGS=...)
	@test -d $(WORK)-sdk/rocm || $(BIN)/rocwright sdk fetch $(WORK)-sdk/rocm
	@$(BIN)/python benchmarks/sdk.py $(WORK)-sdk/rocm $(WORK)-sdk $(SDK_ARGS)

bench-check: $(VENV)/.dev  ## measure the check of a 700 MB wheel against inflating and digesting it (CHECK_ARGS=...)
	@test -d $(WORK)-check/rocm || $(BIN)/rocwright sdk fetch $(WORK)-check/rocm
	@$(BIN)/python benchmarks/check.py $(WORK)-check/rocm $(WORK)-check $(CHECK_ARGS)

bench-sources: $(VENV)/.dev  ## measure checkouts that come back: again, re-pinned, hipified before, from a mirror (SOURCES_ARGS=...)
	@$(BIN)/python benchmarks/sources.py $(WORK)-sources $(SOURCES_ARGS)

bench-build: $(VENV)/.dev demo  ## measure what a build costs beside the compilers: records, resume, a second Python, pins, fat wheels (BUILD_ARGS=...)
	@$(BIN)/python benchmarks/build.py $(WORK) $(WORK)-build $(BUILD_ARGS)

clean:  ## remove what the commands made, but not downloaded packages
	rm -rf $(VENV) $(WORK) $(WORK)-bench $(WORK)-kpack $(WORK)-sdk $(WORK)-check $(WORK)-sources $(WORK)-build docs/_build

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo]'
	touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo,dev]'
	touch $@
