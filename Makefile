# Builds, checks and shows framejit. Everything happens in a virtual environment inside the project; needed beforehand: Python, g++, make.
#
#   make demo                  real models compiled, checked against eager and timed   (make demo ARGS="--only bert --backend eager")
#   make test                  ruff, mypy and the test suite, in WORKERS processes     (make test ARGS="tests/runtime -k threads")
#   make test-fast             a part of the tests, in a minute or two
#   make test-slow             the tests that take long: memory that must not grow, debugging allocators, Inductor at many sizes
#   make test-aot              the tests with AOTAutograd's forward and backward graphs (make test-aot ARGS="tests/objects")
#   make test-logs             the tests with all logs on, which must change nothing   (make test-logs ARGS="tests/objects")
#   make test-kept             the tests with entries as a later process reads them    (make test-kept ARGS="tests/objects")
#   make fuzz                  thousands of random programs against eager              (make fuzz PROGRAMS=20000)
#   make conformance           CPython's own tests called from compiled functions       (make conformance ARGS="test_int test_dict")
#   make sanitize              tests of the native parts under sanitizers and the debugging allocator   (make sanitize ARGS="tests/behaviour/test_threads.py")
#   make stress                long runs that must not grow                            (make stress ARGS="models --share 10")
#   make wheel                 a wheel for each supported Python, tried in an empty environment
#   make test-matrix           the tests on supported pairs of Python and torch, in environments outside the repository; fetches interpreters
#   make bench, make zoo       side by side with torch.compile; thirty more architectures
#   make corpus                hundreds of models captured and compared with eager     (make corpus ARGS="--sample 40 --markdown docs/corpus.md")
#   make features              small programs, one for each feature, beside torch.compile; installs the packages
#   make scripts               training scripts of other packages against eager; installs the packages
#   make libraries             programs of libraries that are built on torch, beside torch.compile; installs the libraries in the cache folder
#   make docs                  the documentation's site, in build/site
#   make build                 only (re)build the extension and refresh the editable install
#   make PYTHON=python3.12 TORCH=2.11.0 VENV=.venv312 test

SHELL := /bin/sh
VENV ?= .venv
ARGS ?=
# Each process of the tests has a core: threads in it would wait for one another.
TESTING = FRAMEJIT_STRICT=1 OMP_NUM_THREADS=1
PROGRAMS ?= 5000
WORKERS ?= 2
CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/framejit
PYTHONS = 3.11 3.12 3.13 3.14 3.15
MATRIX ?= 3.11:2.13.0 3.12:2.11.0 3.12:2.15.0 3.13:2.15.0 3.14:2.15.0 3.15:2.15.0

ifndef PYTHON
PYTHON = $(or $(shell tools/python.sh --here $(PYTHONS)),$(error framejit needs Python 3.11 to 3.15; name one with make PYTHON=..., or fetch \
	one: tools/python.sh 3.14))
endif

BIN := $(VENV)/bin
# There is no older one for Python 3.15.
ifndef TORCH
TORCH = $(if $(findstring Python 3.15,$(shell $(BIN)/python -V)),2.15.0,2.13.0)
endif
DEPENDENCIES := $(VENV)/.framejit-dependencies
FILES := build/files-$(subst /,_,$(VENV))
BUILT_FOR := build/torch-$(subst /,_,$(VENV))
INSTALLED := build/installed-$(subst /,_,$(VENV))
NATIVE := $(wildcard runtime_c/*.[ch] runtime_c/cpython/*.[ch] runtime_c/operators/*.h runtime_c/operators/*.cpp guards/native/*.h guards/native/*.cpp)
PIP_INSTALL := $(BIN)/python -m pip install --quiet --no-build-isolation --config-settings editable_mode=strict

.PHONY: all setup build demo test test-fast test-slow test-aot test-logs test-kept lint types test-matrix fuzz conformance sanitize stress bench zoo corpus features scripts libraries docs wheel clean force
.DEFAULT_GOAL := build

setup build: $(INSTALLED)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = "%d.%d" % sys.version_info[:2]; sys.exit(0 if v in "$(PYTHONS)".split() else "framejit needs Python 3.11 to 3.15; $(PYTHON) is " + v)'
	@$(PYTHON) -c 'import sys; sys.path.append("jit"); import build_check; sys.exit(build_check.free_threaded())'
	$(PYTHON) -m venv $(VENV)

$(DEPENDENCIES): pyproject.toml setup.py | $(BIN)/python
	@echo "installing torch $(TORCH) and the other dependencies into $(VENV)"
	$(BIN)/python -m pip install --quiet "torch==$(TORCH)" "setuptools>=77"
	@mkdir -p build
	@$(BIN)/python -c 'import setup, tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
		print(*setup.DEPENDENCIES, *sum((names for extra, names in p["optional-dependencies"].items() if extra not in ("scripts", "features")), []), sep="\n")' > build/requirements.txt
	$(BIN)/python -m pip install --quiet "torch==$(TORCH)" --requirement build/requirements.txt
	@touch $@

# Strict editable installs link the files that are there: the list of them decides when to link again.
$(FILES): force
	@mkdir -p build
	@find jit guards -type f \( -name '*.py' -o -name '*.pyi' -o -name '*.json' -o -name py.typed \) | LC_ALL=C sort > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

# Another torch in the environment: the extension is built again.
$(BUILT_FOR): force | $(DEPENDENCIES)
	@$(BIN)/python -c 'import setup; print(setup.find_torch())' > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

$(INSTALLED): $(DEPENDENCIES) $(FILES) $(BUILT_FOR) setup.py $(NATIVE)
	$(PIP_INSTALL) --no-deps --editable .
	@touch $@

demo: $(INSTALLED)
	$(BIN)/python tools/demo.py $(ARGS)

lint: $(INSTALLED)
	$(BIN)/python -m ruff check .

types: $(INSTALLED)
	$(BIN)/python -m mypy

test: lint types
	$(TESTING) $(BIN)/python -m pytest -n $(WORKERS) --durations=10 $(ARGS)

FAST = test_architecture.py user/test_api.py user/test_explain.py traces guards/test_guards.py graph/test_graph.py codegen/test_codegen.py codegen/test_resume.py \
	tracing/test_predictions.py
test-fast: $(INSTALLED)
	$(TESTING) $(BIN)/python -m pytest -n $(WORKERS) -q $(FAST:%=tests/%) $(ARGS)

test-slow: $(INSTALLED)
	$(TESTING) $(BIN)/python -m pytest -n $(WORKERS) -q -m slow $(ARGS)

test-aot: $(INSTALLED)
	$(TESTING) $(BIN)/python -m pytest -n $(WORKERS) -q --backend aot_eager $(ARGS)

test-logs: $(INSTALLED)
	$(TESTING) $(BIN)/python -m pytest -n $(WORKERS) -q --all-logs $(ARGS)

test-kept: $(INSTALLED)
	FRAMEJIT_CHECK=cache,compile,guards,shapes $(TESTING) $(BIN)/python -m pytest -n $(WORKERS) -q $(ARGS)

fuzz: $(INSTALLED)
	FRAMEJIT_STRICT=1 FRAMEJIT_FUZZ=$(PROGRAMS) $(BIN)/python -m pytest --timeout=0 tests/differential/test_random_programs.py $(ARGS)

conformance: $(INSTALLED)
	$(BIN)/python tests/conformance/score.py $(ARGS)

sanitize: $(INSTALLED)
	PYTHON="$(abspath $(BIN))/python" tools/sanitize.sh $(ARGS)

stress: $(INSTALLED)
	$(BIN)/python tools/stress.py $(ARGS)

# Each pair gets a copy of the sources, so that builds don't meet in one folder; environments are kept between runs.
test-matrix: | $(BIN)/python
	@set -e; constraints="$$($(BIN)/python -m tools.constraints "$(CACHE)")"; for pair in $(MATRIX); do \
		python=$${pair%:*}; torch=$${pair#*:}; folder="$(CACHE)/py$$python-torch$$torch"; \
		echo "== Python $$python, torch $$torch"; \
		mkdir -p "$$folder/source"; \
		find "$$folder/source" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +; \
		rm -f "$$folder"/source/build/installed-*; \
		tar -c --exclude='./.venv*' --exclude=./.git --exclude=./.dev --exclude=./build --exclude=./jit/guards --exclude='*.so' . | tar -x -C "$$folder/source"; \
		interpreter="$$(tools/python.sh "$$python")"; \
		PIP_CONSTRAINT="$$constraints" $(MAKE) --no-print-directory -C "$$folder/source" PYTHON="$$interpreter" TORCH="$$torch" VENV="$$folder/venv" test; \
	done

wheel: $(INSTALLED)
	$(BIN)/python -m tools.wheels --torch "$(TORCH)" --cache "$(CACHE)" $(ARGS)

bench: $(INSTALLED)
	$(BIN)/python -m tools.bench $(ARGS)

zoo: $(INSTALLED)
	$(BIN)/python tools/bench/zoo.py $(ARGS)

corpus: $(INSTALLED)
	$(BIN)/python -m tools.bench.corpus $(ARGS)

# A requirement that names the torch that is there keeps pip from replacing it.
scripts features: $(INSTALLED)
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["$@"], sep="\n")' \
		> build/requirements-$@.txt
	$(BIN)/python -m pip install --quiet "torch==$$($(BIN)/python -c 'import torch; print(torch.__version__)')" --requirement build/requirements-$@.txt
	$(BIN)/python tools/bench/$@.py $(ARGS)

# Without dependencies and outside the environment: torch and what comes with it stay as they are.
LIBRARIES := $(CACHE)/libraries
$(LIBRARIES)/.installed: tools/bench/libraries.txt | $(INSTALLED)
	@rm -rf "$(LIBRARIES)"
	$(BIN)/python -m pip install --quiet --no-deps --target "$(LIBRARIES)" --requirement tools/bench/libraries.txt
	@touch "$@"

libraries: $(INSTALLED) $(LIBRARIES)/.installed
	$(BIN)/python -m tools.bench.libraries --packages "$(LIBRARIES)" --markdown docs/libraries.md $(ARGS)

docs: $(INSTALLED)
	$(BIN)/python -m mkdocs build --quiet --strict $(ARGS)

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis $(DEPENDENCIES)
	find jit guards tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
	find jit -name '_runtime*.so' -delete
