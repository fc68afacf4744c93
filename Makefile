# Each target works on a fresh clone with nothing installed but Python 3.11 or newer.
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2
# Let Python keep byte-compiled modules even if the environment forbids it: the tests start many processes, each of
# which would compile JAX's modules again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup test lint signatures sanitize edge edge-test fuzz-edge fuzz-edge-clang soak golden bench bench-serve speed demo docs site
.PHONY: results results-long clean
.PHONY: fuzz memory

setup: .venv/installed

# This also builds the native kernels, again whenever their sources change, while the other packages are downloaded. The
# build requirements are installed first, because an isolated build would install jaxlib a second time. uv takes a
# quarter of pip's time; pip takes its place where uv cannot be had or does not find the packages. Modules are
# byte-compiled when they are first imported: most of them never are.
REQUIREMENTS := import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	print(*project["dependencies"], *project["optional-dependencies"]["dev"], sep="\n")
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python
.venv/installed: pyproject.toml hatch_build.py $(wildcard src/s7/native/*.cc src/s7/native/*.h)
	$(PYTHON) -m venv .venv
	$(BIN)/python -c '$(REQUIREMENTS)' > .venv/requirements.txt
	printf '%s\n' 'hatchling>=1.27' 'editables>=0.5' 'jaxlib>=0.10' > .venv/build.txt
	$(PIP) uv || true
	$(UV) --requirement .venv/build.txt || $(PIP) --requirement .venv/build.txt
	$(PIP) --no-build-isolation --no-deps --editable . & \
		{ $(UV) --requirement .venv/requirements.txt || $(PIP) --requirement .venv/requirements.txt; }; \
		status=$$?; wait $$! && exit $$status
	touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror src/s7/native/*.h src/s7/native/*.hpp src/s7/native/*.cc tests/native/*.cc \
		tests/edge/*.cc examples/edge/*.c examples/edge/*.cc

test: setup
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

# All tests again, with the types and shapes of all arguments and results checked.
signatures: setup
	S7_CHECK_SIGNATURES=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

# Test the native kernels against plain loops under the sanitizers. Needs only g++.
sanitize: $(foreach kind,thread address,$(foreach test,kernels_test stream_test,build/sanitize/$(kind)/$(test)))
	build/sanitize/thread/kernels_test threads
	build/sanitize/thread/stream_test threads
	build/sanitize/address/kernels_test
	build/sanitize/address/stream_test

# Read event files of all formats with ten million damaged bytes. Takes some minutes.
fuzz: setup
	$(BIN)/python -m tests.events.fuzz --bytes 10000000 $(if $(S7_DATA),--data $(S7_DATA))

# Read event files of 1 GB in chunks and measure the memory.
memory: setup
	$(BIN)/python -m benchmarks.event_memory

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
		tests/native/kernels_test.cc $(NATIVE)/dispatch.cc $(NATIVE)/processor.cc $(foreach set,$(SETS),build/sanitize/%/$(set).o) $(wildcard $(NATIVE)/*.h)
	$(CXX) $(SANITIZED) $(SANITIZED_$*) -I$(NATIVE) $(filter-out %.h,$^) -o $@

build/sanitize/%.stream.o: $(NATIVE)/stream_engine.cc $(wildcard $(NATIVE)/*.h)
	@mkdir -p $(@D)
	$(CXX) $(SANITIZED) $(SANITIZED_$(*D)) -DS7_ISA=$(*F) $(SET_$(*F)) -c $< -o $@

build/sanitize/address/stream_test build/sanitize/thread/stream_test: build/sanitize/%/stream_test: \
		tests/native/stream_test.cc $(addprefix $(NATIVE)/,stream.cc stream_program.cc processor.cc) \
		$(foreach set,$(SETS),build/sanitize/%/$(set).stream.o) $(wildcard $(NATIVE)/*.h)
	$(CXX) $(SANITIZED) $(SANITIZED_$*) -I$(NATIVE) $(filter-out %.h,$^) -o $@

# The runtime without Python: libs7, its headers and the examples. Needs only a compiler. To cross-compile, name it:
# make edge CXX=aarch64-linux-gnu-g++ builds build/edge-aarch64-linux-gnu.
EDGE_TARGET := $(shell $(CXX) -dumpmachine 2>/dev/null)
EDGE := build/edge$(if $(filter $(shell uname -m)-%,$(EDGE_TARGET)),,-$(EDGE_TARGET))
EDGE_SETS := baseline $(if $(filter x86_64-%,$(EDGE_TARGET)),avx2 avx512)
EDGE_FLAGS := -std=c++17 -O3 -fno-math-errno -fPIC -fvisibility=hidden -Wall -Wextra -Wno-psabi
EDGE_PARTS := stream stream_program processor safetensors model_file
EDGE_OBJECTS := $(EDGE_PARTS:%=$(EDGE)/objects/%.o) $(EDGE_SETS:%=$(EDGE)/objects/engine-%.o)
EDGE_PROGRAMS := $(addprefix $(EDGE)/,events nmnist series check)

edge: $(EDGE)/libs7.so $(EDGE)/libs7.a $(EDGE)/include/s7.h $(EDGE)/include/s7.hpp $(EDGE_PROGRAMS)

$(EDGE)/objects/engine-%.o: $(NATIVE)/stream_engine.cc $(wildcard $(NATIVE)/*.h)
	@mkdir -p $(@D)
	$(CXX) $(EDGE_FLAGS) -DS7_ISA=$* $(SET_$*) -c $< -o $@

$(EDGE)/objects/%.o: $(NATIVE)/%.cc $(wildcard $(NATIVE)/*.h)
	@mkdir -p $(@D)
	$(CXX) $(EDGE_FLAGS) -c $< -o $@

$(EDGE)/libs7.so: $(EDGE_OBJECTS)
	$(CXX) -shared $^ -o $@

$(EDGE)/libs7.a: $(EDGE_OBJECTS)
	rm -f $@
	$(patsubst %g++,%ar,$(patsubst %clang++,%ar,$(patsubst %c++,%ar,$(CXX)))) rcs $@ $^

$(EDGE)/include/%: $(NATIVE)/%
	@mkdir -p $(@D)
	cp $< $@

$(EDGE)/%: examples/edge/%.c $(EDGE)/libs7.a $(EDGE)/include/s7.h
	$(CXX) -x c -std=gnu11 -O2 -Wall -Wextra -I$(EDGE)/include -c $< -o $(EDGE)/objects/$*.example.o
	$(CXX) $(EDGE)/objects/$*.example.o $(EDGE)/libs7.a -o $@

$(EDGE)/%: examples/edge/%.cc $(EDGE)/libs7.a $(EDGE)/include/s7.h $(EDGE)/include/s7.hpp
	$(CXX) -std=c++17 -O2 -Wall -Wextra -I$(EDGE)/include $< $(EDGE)/libs7.a -o $@

# Test the library on the models in tests/edge/models. For another processor, give an emulator:
# make edge-test CXX=aarch64-linux-gnu-g++ EMULATOR='qemu-aarch64 -L /usr/aarch64-linux-gnu'
EMULATOR ?=
EDGE_MODELS := tests/edge/models
edge-test: edge $(EDGE)/edge_test
	$(EMULATOR) $(EDGE)/edge_test $(EDGE_MODELS)
	$(EMULATOR) $(EDGE)/check $(wildcard $(EDGE_MODELS)/*)

$(EDGE)/edge_test: tests/edge/edge_test.cc $(EDGE)/libs7.a $(EDGE)/include/s7.h $(EDGE)/include/s7.hpp
	$(CXX) -std=c++17 -O2 -Wall -Wextra -pthread -I$(EDGE)/include $< $(EDGE)/libs7.a -o $@

# Load mutated model files under the sanitizers. With clang++, fuzz-edge-clang runs libFuzzer on the same code.
FUZZED ?= 10000
FUZZ_SECONDS ?= 60
FUZZ_SOURCES := $(EDGE_PARTS:%=$(NATIVE)/%.cc)
fuzz-edge: build/sanitize/address/fuzz_edge build/sanitize/address/edge_test
	build/sanitize/address/edge_test $(EDGE_MODELS)
	build/sanitize/address/fuzz_edge $(FUZZED) $(wildcard $(EDGE_MODELS)/*/model.safetensors)

build/sanitize/address/fuzz_edge build/sanitize/address/edge_test: build/sanitize/address/%: \
		$(FUZZ_SOURCES) $(EDGE_SETS:%=build/sanitize/address/%.stream.o) \
		tests/edge/fuzz.cc tests/edge/edge_test.cc $(wildcard $(NATIVE)/*.h)
	$(CXX) $(SANITIZED) $(SANITIZED_address) -I$(NATIVE) $(filter-out %.h tests/%,$^) tests/edge/$(subst fuzz_edge,fuzz,$*).cc -o $@

CLANG ?= clang++
fuzz-edge-clang:
	@mkdir -p build/libfuzzer/corpus
	for set in $(EDGE_SETS); do case $$set in avx2) flags='$(SET_avx2)';; avx512) flags='$(SET_avx512)';; *) flags=;; esac; \
		$(CLANG) -std=c++17 -O1 -g -fsanitize=fuzzer-no-link,address,undefined -DS7_ISA=$$set $$flags \
			-c $(NATIVE)/stream_engine.cc -o build/libfuzzer/$$set.o || exit 1; done
	$(CLANG) -std=c++17 -O1 -g -fsanitize=fuzzer,address,undefined -DS7_LIBFUZZER -I$(NATIVE) tests/edge/fuzz.cc \
		$(FUZZ_SOURCES) $(EDGE_SETS:%=build/libfuzzer/%.o) -o build/libfuzzer/fuzz_edge
	for model in $(EDGE_MODELS)/*; do cp $$model/model.safetensors build/libfuzzer/corpus/$$(basename $$model); done
	build/libfuzzer/fuzz_edge -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=8192 build/libfuzzer/corpus

# Compare the library with JAX over a million events for every preset (an hour or two), and with double precision over a
# billion events in one stream (an hour).
EVENTS ?= 1e9
golden: setup edge
	$(BIN)/python -m benchmarks.edge golden --library $(EDGE)/libs7.so

soak: setup edge
	$(BIN)/python -m benchmarks.edge soak --events $(EVENTS) --library $(EDGE)/libs7.so

bench: setup
	$(BIN)/s7 bench layer --quick
	$(BIN)/python -m benchmarks.footprint
	$(BIN)/python -m benchmarks.augmentation

# 100 clients of one server on the loopback interface.
bench-serve: setup
	$(BIN)/python -m benchmarks.serve

# Measure everything on the page docs/speed.md and write it: about ten minutes on two idle cores.
SPEED := docs/speed
OURS := image,text,listops,pathfinder,nmnist,spoken-digits,dvs-gesture,walker2d
PAGES := shapes layer block scan train train-ours models models-events stream
# The models whose training steps are compared; models of events are compared on nmnist.
MODELS := s7,s7-full,s5,s4,mamba2,mega,stablessm,linoss,rkn,rkn-dt,cru,nrde,bilstm-conv,lsn,sgn
speed: setup
	$(BIN)/s7 bench layer --quick --memory --runs 20 --out $(SPEED)/shapes.json
	$(BIN)/s7 bench layer --tasks dvs-gesture --lengths 256,131072 --runs 4 --out $(SPEED)/layer.json
	$(BIN)/s7 bench block --runs 30 --out $(SPEED)/block.json
	$(BIN)/s7 bench scan --shapes 8x4096x16,1x131072x16,64x4096x64 --runs 4 --out $(SPEED)/scan.json
	$(BIN)/s7 bench train --tasks dvs-gesture,image --runs 6 --out $(SPEED)/train.json
	$(BIN)/s7 bench train --preset ours --tasks $(OURS) --runs 12 --out $(SPEED)/train-ours.json
	taskset -c 0 $(BIN)/s7 bench train --tasks pendulum,walker2d --models $(MODELS) --out $(SPEED)/models.json
	taskset -c 0 $(BIN)/s7 bench train --tasks nmnist --models s7,eventssm,lru,cnn-s5,bet --out $(SPEED)/models-events.json
	$(BIN)/s7 bench stream --tasks dvs-gesture,walker2d,nmnist --runs 4 --out $(SPEED)/stream.json
	$(BIN)/s7 bench page $(PAGES:%=$(SPEED)/%.json) --out docs/speed.md

demo: setup
	$(BIN)/python -m examples.demo

docs: setup
	$(BIN)/python docs/figures.py
	$(BIN)/python -m examples.selective_memory --out docs/figures/selective-memory.svg
	$(BIN)/python -m examples.event_camera --out docs/figures/event-camera.svg

# The documentation as a site in site/, with links and names checked. The search works from a server only:
# python -m http.server --directory site
site: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

results: setup
	$(BIN)/python -m benchmarks.studies --run all --jobs 2
	$(BIN)/python -m benchmarks.results --train all
	$(BIN)/s7 tables --markdown --runs docs/results --out docs/tables.md
	$(BIN)/s7 verify --out docs/verify.md

# Comparisons of up to ten minutes per run with searched learning rates, and ablations with five seeds: about 40 hours of
# one core. Repeat the command to continue after an interruption.
results-long: setup
	$(BIN)/python -m benchmarks.studies --run long --jobs 2
	$(BIN)/python -m benchmarks.results
	$(BIN)/s7 tables --markdown --runs docs/results --out docs/tables.md

clean:
	rm -rf .venv .cache build dist demo site .mypy_cache .ruff_cache .pytest_cache
