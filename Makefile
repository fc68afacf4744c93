# Each target works on a fresh clone with nothing installed but Python 3.11 or newer.
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2

.PHONY: setup test lint sanitize bench bench-serve demo docs results clean

setup: .venv/installed

# This also builds the native kernels, again whenever their sources change. The build requirements are installed first,
# because an isolated build would install jaxlib a second time.
.venv/installed: pyproject.toml hatch_build.py $(wildcard src/s7/native/*.cc src/s7/native/*.h)
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'hatchling>=1.27' 'editables>=0.5' 'jaxlib>=0.10'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --editable '.[dev]'
	touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror src/s7/native/*.h src/s7/native/*.cc tests/native/*.cc

test: lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

# Test the native kernels against plain loops under the sanitizers. Needs only g++.
sanitize: $(foreach kind,thread address,$(foreach test,kernels_test stream_test,build/sanitize/$(kind)/$(test)))
	build/sanitize/thread/kernels_test threads
	build/sanitize/thread/stream_test threads
	build/sanitize/address/kernels_test
	build/sanitize/address/stream_test

NATIVE := src/s7/native
SANITIZED := -std=c++17 -O1 -g -fno-sanitize-recover=all -ftrivial-auto-var-init=pattern -Wall -Wextra -Wno-psabi -pthread
SANITIZED_address := -fsanitize=address,undefined
SANITIZED_thread := -fsanitize=thread
# As in hatch_build.py. `wide` uses vectors as wide as those of AVX-512 without its instructions.
SETS := baseline wide $(if $(filter x86_64,$(shell uname -m)),avx2 avx512)
SET_wide := -D__AVX512F__
SET_avx2 := -mavx2 -mfma
SET_avx512 := -mavx512f -mavx512vl -mavx512dq -mfma

build/sanitize/%.o: $(NATIVE)/kernels.cc $(wildcard $(NATIVE)/*.h)
	@mkdir -p $(@D)
	$(CXX) $(SANITIZED) $(SANITIZED_$(*D)) -DS7_ISA=$(*F) $(SET_$(*F)) -c $< -o $@

build/sanitize/address/kernels_test build/sanitize/thread/kernels_test: build/sanitize/%/kernels_test: \
		tests/native/kernels_test.cc $(NATIVE)/dispatch.cc $(foreach set,$(SETS),build/sanitize/%/$(set).o) $(wildcard $(NATIVE)/*.h)
	$(CXX) $(SANITIZED) $(SANITIZED_$*) -I$(NATIVE) $(filter-out %.h,$^) -o $@

build/sanitize/%.stream.o: $(NATIVE)/stream_engine.cc $(wildcard $(NATIVE)/*.h)
	@mkdir -p $(@D)
	$(CXX) $(SANITIZED) $(SANITIZED_$(*D)) -DS7_ISA=$(*F) $(SET_$(*F)) -c $< -o $@

build/sanitize/address/stream_test build/sanitize/thread/stream_test: build/sanitize/%/stream_test: \
		tests/native/stream_test.cc $(NATIVE)/stream.cc $(NATIVE)/stream_program.cc $(NATIVE)/dispatch.cc \
		$(foreach set,$(SETS),build/sanitize/%/$(set).o build/sanitize/%/$(set).stream.o) $(wildcard $(NATIVE)/*.h)
	$(CXX) $(SANITIZED) $(SANITIZED_$*) -I$(NATIVE) $(filter-out %.h,$^) -o $@

bench: setup
	$(BIN)/s7 bench layer --quick
	$(BIN)/python -m benchmarks.footprint
	$(BIN)/python -m benchmarks.augmentation

# 100 clients of one server on the loopback interface.
bench-serve: setup
	$(BIN)/python -m benchmarks.serve

demo: setup
	$(BIN)/python -m examples.demo

docs: setup
	$(BIN)/python docs/figures.py

results: setup
	$(BIN)/python -m benchmarks.studies --run all --jobs 2
	$(BIN)/python -m benchmarks.results --train all
	$(BIN)/s7 tables --markdown --runs docs/results --out docs/tables.md
	$(BIN)/s7 verify --out docs/verify.md

clean:
	rm -rf .venv .cache build dist demo .mypy_cache .ruff_cache .pytest_cache
