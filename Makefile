# The two commands of the README are `make demo` and `make test`; `make help` lists the rest.
#
# Stamp files inside the environment say what was done, so a second call repeats only what changed:
# .stamp-deps follows pyproject.toml, .stamp-build follows the kernels, headers and setup.py as well.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# A process for each CPU; `make test PYTEST_ARGS="-n 0"` has one in all.
PYTEST = $(BIN)/python -m pytest -n logical --maxprocesses 8 --dist worksteal
FUZZ_COUNT ?= 20000
AGREE_COUNT ?= 20000
APT := sudo apt-get install python3 python3-venv python3-dev g++ make

KERNEL_SOURCES := $(wildcard pymcboost/_kernels/*.pyx pymcboost/_kernels/*.pxd pymcboost/_kernels/*.h pymcboost/include/*.h)

.DEFAULT_GOAL := help
.PHONY: help demo test test-long coverage test-tools test-aarch64 tables docs wheel lint types imports format clean check-system scorer fuzz fuzz-guided agree sanitize sanitize-threads
.DELETE_ON_ERROR:

help:
	@echo "make demo       build in $(VENV), train on data/, predict, show accuracy, confusion matrix, size and speed"
	@echo "make test       the quick test suite in the same environment; a part of it: PYTEST_ARGS=\"-k svmlight -x\""
	@echo "make test-long  everything, with the full counts, long builds and every training of the golden table"
	@echo "make coverage   the quick test suite, and which lines of the package's Python it runs"
	@echo "make test-tools the tests of benchmarks, experiments and data tools, in tools/tests"
	@echo "make test-aarch64  a wheel for aarch64, and a part of the tests under emulation; needs qemu-user-static, gcc-aarch64-linux-gnu"
	@echo "make docs       the documentation as a site, in docs/_build/html; warnings are errors"
	@echo "make wheel      a wheel for Linux, tested, in dist"
	@echo "make lint       ruff, clang-format and cython-lint;  make types: mypy;  make imports: import-linter;  make format: apply the formatters"
	@echo "make tables     write again what follows from registry and parameters: blocks of imports, options, tables and lists of pages"
	@echo "make scorer     put mcb.h together from pymcboost/_kernels/score;  make fuzz: damage models, FUZZ_COUNT=$(FUZZ_COUNT)"
	@echo "make fuzz-guided  the same by libFuzzer, and texts for the reader of LIBSVM files; needs clang"
	@echo "make agree      random trainings, each of them in two ways that must agree, AGREE_COUNT=$(AGREE_COUNT)"
	@echo "make sanitize   kernels under AddressSanitizer and UndefinedBehaviorSanitizer;  make sanitize-threads: ThreadSanitizer; need gcc"
	@echo "make clean      remove what was built (rm -rf $(VENV) removes the environment)"
	@echo "Variables: PYTHON=$(PYTHON) (>= 3.11), VENV=$(VENV), CC, PYTEST_ARGS"

demo: $(VENV)/.stamp-build
	$(BIN)/python tools/demo.py
	@echo
	@echo "pymcboost and its commands are in $(VENV): . $(VENV)/bin/activate"

test: $(VENV)/.stamp-build
	$(PYTEST) $(PYTEST_ARGS)

test-long: $(VENV)/.stamp-build
	$(PYTEST) --long $(PYTEST_ARGS)

coverage: $(VENV)/.stamp-build
	$(BIN)/python tools/requirements.py coverage > $(VENV)/requirements-coverage.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $(VENV)/requirements-coverage.txt
	$(PYTEST) --cov=pymcboost --cov-report=term-missing:skip-covered $(PYTEST_ARGS)

test-tools: $(VENV)/.stamp-build
	$(PYTEST) $(PYTEST_ARGS) tools/tests

test-aarch64: $(VENV)/.stamp-build
	$(BIN)/python tools/aarch64.py

tables: $(VENV)/.stamp-build
	PYTHONPATH=.:tests $(BIN)/python tests/contract/test_public_types.py
	PYTHONPATH=.:tests $(BIN)/python tests/contract/test_sklearn_checks.py
	PYTHONPATH=.:tests $(BIN)/python tests/contract/test_stops.py
	PYTHONPATH=.:tests $(BIN)/python tests/cli/test_docs.py

scorer:
	$(PYTHON) tools/amalgamate.py

fuzz: $(VENV)/.stamp-build
	$(BIN)/python tools/fuzz.py --count $(FUZZ_COUNT)
	$(BIN)/python tools/fuzz.py --count $(FUZZ_COUNT) --repaired
	$(BIN)/python tools/fuzz.py --count $(FUZZ_COUNT) --shapes

fuzz-guided: $(VENV)/.stamp-build
	$(BIN)/python tools/fuzz_guided.py svmlight --runs $(FUZZ_COUNT)
	$(BIN)/python tools/fuzz_guided.py model --runs $(FUZZ_COUNT)

agree: $(VENV)/.stamp-build
	$(BIN)/python tools/agree.py --count $(AGREE_COUNT)

sanitize: $(VENV)/.stamp-build
	$(BIN)/python tools/sanitize.py address -n logical --maxprocesses 8 --dist worksteal $(PYTEST_ARGS)

sanitize-threads: $(VENV)/.stamp-build
	$(BIN)/python tools/sanitize.py thread $(PYTEST_ARGS)

docs: $(VENV)/.stamp-docs $(VENV)/.stamp-build
	rm -rf docs/api  # pages of names that are gone
	$(BIN)/python -m sphinx -W --keep-going -q -b html -d docs/_build/doctrees docs docs/_build/html
	@echo "docs/_build/html/index.html"

wheel: $(VENV)/.stamp-deps
	$(BIN)/python tools/wheel.py

# Our C files, except mcb.h, which tools/amalgamate.py writes.
C_SOURCES = $(shell git ls-files '*.c' '*.h' '*.cpp' '*.hpp' | grep -v include/mcb.h)

lint: $(VENV)/.stamp-lint $(VENV)/.stamp-build
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	@$(BIN)/clang-format --dry-run -Werror $(C_SOURCES)
	PATH="$(abspath $(BIN)):$$PATH" cython-lint pymcboost/_kernels  # it starts pycodestyle by name
	$(BIN)/codespell
	$(BIN)/python tools/docstrings.py

types: $(VENV)/.stamp-lint $(VENV)/.stamp-build
	$(BIN)/mypy
	$(BIN)/mypy --strict --follow-imports=silent tests/typing

imports: $(VENV)/.stamp-lint $(VENV)/.stamp-build
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.stamp-lint
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(C_SOURCES)

clean:
	rm -rf build dist *.egg-info pymcboost/_kernels/*.c pymcboost/_kernels/*.so $(VENV)/.stamp-build
	rm -rf docs/_build docs/auto_gallery docs/api .pytest_cache .ruff_cache .mypy_cache .import_linter_cache
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# Each thing that a bare machine may lack, with what to do about it.
check-system:
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) not found. Debian, Ubuntu: $(APT)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: $$($(PYTHON) --version) is too old, 3.11 or newer is needed; name another with make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "make: $(PYTHON) cannot make virtual environments. Debian, Ubuntu: $(APT)" >&2; exit 1; }
	@$(PYTHON) -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' || { \
	  echo "make: the C headers of $(PYTHON) (Python.h) are missing. Debian, Ubuntu: $(APT)" >&2; exit 1; }
	@command -v $(firstword $(CC)) >/dev/null || { echo "make: no C compiler ($(CC)). Debian, Ubuntu: $(APT)" >&2; exit 1; }
	@command -v $(firstword $(CXX)) >/dev/null || { echo "make: no C++ compiler ($(CXX)). Debian, Ubuntu: $(APT)" >&2; exit 1; }

$(VENV)/.stamp-venv: | check-system
	$(PYTHON) -m venv $(VENV)
	@touch $@

# Build tools and dependencies in one list, read from pyproject.toml.
$(VENV)/.stamp-deps: pyproject.toml tools/requirements.py $(VENV)/.stamp-venv
	$(BIN)/python tools/requirements.py build run test > $(VENV)/requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade -r $(VENV)/requirements.txt
	@touch $@

$(VENV)/.stamp-build: setup.py pymcboost/_version.py $(KERNEL_SOURCES) $(VENV)/.stamp-deps
	@echo "translating the kernels to C, then compiling each, which takes some minutes in all"
	@PYMCBOOST_PROGRESS=/proc/$$$$/fd/1 $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@

$(VENV)/.stamp-lint: $(VENV)/.stamp-deps
	$(BIN)/python tools/requirements.py lint > $(VENV)/requirements-lint.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $(VENV)/requirements-lint.txt
	@touch $@

$(VENV)/.stamp-docs: $(VENV)/.stamp-deps
	$(BIN)/python tools/requirements.py docs > $(VENV)/requirements-docs.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $(VENV)/requirements-docs.txt
	@touch $@
