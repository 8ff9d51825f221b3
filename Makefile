# Every target makes its own environment; nothing needs to be installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOG := $(VENV)/install.log

.PHONY: help demo pictures test test-benchmarks mutants fuzz test-versions test-sycl test-cupy-emulated bench bench-memory bench-regret bench-sparse bench-streaming bench-sycl paper docs gpu-check lint format clean

help:
	@echo "make demo          fit SLCE on handwritten digits and draw the embedding (demo.png)"
	@echo "make pictures      draw the README's pictures (docs/images)"
	@echo "make test          ruff, mypy and the tests on every array library"
	@echo "make test-benchmarks  the tests of the programs in benchmarks/"
	@echo "make mutants       plants faults in the code; a test must catch each"
	@echo "make fuzz          20 000 random problems against an oracle with more digits (FUZZ_ARGS)"
	@echo "make test-versions  the tests on the newest and the lowest versions, and on the command's libraries alone"
	@echo "make test-sycl     the tests on dpnp with Intel's runtime for the CPU (3 GB, in the user's cache)"
	@echo "make test-cupy-emulated  the tests on CuPy's own code, without a GPU (needs g++)"
	@echo "make bench         time against PCA, LDA and other solvers (SLCE_XP_DATA: folder of data sets), then bench-regret"
	@echo "make bench-memory  bytes beside X against the size of the data, on every array library"
	@echo "make bench-regret  time of solver=auto over the best form, on problems drawn at random (15 minutes)"
	@echo "make bench-sparse  sparse data against dense, and a million cells (SLCE_XP_DATA: folder of data sets)"
	@echo "make bench-sycl    dpnp with Intel's runtime for the CPU against NumPy (3 GB, in the user's cache)"
	@echo "make bench-streaming  files larger than their process's memory, and a cluster (8 GB of memory and disk)"
	@echo "make paper         the paper's experiments, tables and figures beside ours (SLCE_XP_DATA; PAPER_ARGS=--quick)"
	@echo "make docs          the documentation site, in docs/_build (SLCE_XP_DATA: folder of data sets)"
	@echo "make gpu-check     tests, speed and memory on this machine's GPU; writes gpu-report.md"
	@echo "make format        let ruff format the code"
	@echo "make clean         remove the environment and caches"

demo: $(VENV)/.demo
	@$(BIN)/python -m slce_xp.demo --output demo.png

pictures: $(VENV)/.demo
	@$(BIN)/python docs/pictures.py

# Tests of JAX run in one process (--dist loadgroup): what it compiles is not compiled twice.
PYTEST := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist loadgroup

test: lint
	@$(PYTEST) -m "not (slow or benchmarks or gpu)" $(PYTEST_ARGS)

test-benchmarks: $(VENV)/.test
	@$(PYTEST) -m "benchmarks and not slow" $(PYTEST_ARGS)

# Before a release, and whenever tests are removed. One fault: MUTANTS=seed.
mutants: $(VENV)/.test
	@OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python tests/mutants.py $(MUTANTS)

# Another range of problems: FUZZ_ARGS="--seed 20000 --count 5000". One: FUZZ_ARGS="--only SEED".
fuzz: $(VENV)/.test
	@OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz.py $(FUZZ_ARGS)

# In environments of their own, in the user's cache.
test-versions: $(VENV)/.venv
	@OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python tests/versions.py $(PYTEST_ARGS)

# A real accelerator runtime, likewise.
test-sycl: $(VENV)/.venv
	@OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python tests/sycl.py $(PYTEST_ARGS)

bench-sycl: $(VENV)/.venv
	@$(BIN)/python tests/sycl.py bench $(BENCH_ARGS)

# CuPy built against an emulation of CUDA: outside the checkout, where it survives `make clean`.
CUPY_EMULATION_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/slce_xp/cupy-emulation
CUPY_LOG = "$(CUPY_EMULATION_CACHE)/install.log"

test-cupy-emulated: $(VENV)/.test
	@echo "building CuPy on an emulated CUDA (minutes the first time) ..."
	@mkdir -p "$(CUPY_EMULATION_CACHE)"
	@bash tests/cupy_on_cpu/install "$(CUPY_EMULATION_CACHE)" $(BIN)/python >$(CUPY_LOG) 2>&1 || \
		{ tail -n 15 $(CUPY_LOG); echo "the build failed: see "$(CUPY_LOG); exit 1; }
	@OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
		bash tests/cupy_on_cpu/run "$(CUPY_EMULATION_CACHE)" \
		$(BIN)/python -m pytest -q -n auto -m gpu -k cupy $(PYTEST_ARGS)

bench: $(VENV)/.test
	@$(BIN)/python -m benchmarks.speed $(BENCH_ARGS)
	@$(BIN)/python -m benchmarks.regret

bench-memory: $(VENV)/.bench
	@$(BIN)/python -m benchmarks.memory $(BENCH_ARGS)

bench-regret: $(VENV)/.test
	@$(BIN)/python -m benchmarks.regret $(BENCH_ARGS)

bench-sparse: $(VENV)/.bench
	@$(BIN)/python -m benchmarks.sparse $(BENCH_ARGS)

bench-streaming: $(VENV)/.test
	@$(BIN)/python -m benchmarks.streaming $(BENCH_ARGS)

# Interrupted, it goes on where it was. PAPER_ARGS="--quick" takes minutes.
paper: $(VENV)/.test
	@$(BIN)/python -m benchmarks.paper $(PAPER_ARGS)

# Every reference must have its target: -W and conf.py's `nitpicky`.
docs: $(VENV)/.docs
	@OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -q -W --keep-going docs docs/_build
	@echo "open docs/_build/index.html"

# Makes an environment of its own, for the CUDA builds of Torch and CuPy.
gpu-check:
	@bash benchmarks/gpu_node.sh $(GPU_ARGS)

lint: $(VENV)/.test
	@$(BIN)/ruff check -q . && $(BIN)/ruff format --check -q . || \
		{ echo "ruff finds fault: 'make format' mends most of it, 'ruff check' lists the rest"; exit 1; }
	@$(BIN)/mypy --no-error-summary

format: $(VENV)/.test
	@$(BIN)/ruff check -q --fix . ; $(BIN)/ruff format -q .

clean:
	@rm -rf $(VENV) .venv-gpu .mypy_cache .pytest_cache .ruff_cache .hypothesis demo.png
	@rm -rf docs/_build docs/api docs/gallery

# pip speaks into a log that is shown only when it fails.
define install
	@echo "installing $(1) (once) ..."
	@$(BIN)/python -m pip install -q $(2) >$(LOG) 2>&1 || { \
		grep -v WARNING $(LOG) | tail -n 15; \
		echo "the installation failed: see $(LOG); a package index must be within reach"; exit 1; }
	@touch $@
endef

$(VENV)/.venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ echo "cannot make an environment: install your system's python3-venv package"; exit 1; }
	@$(BIN)/python -m pip install -q --upgrade 'pip>=25.1' >$(LOG) 2>&1 || \
		{ tail -n 5 $(LOG); echo "cannot upgrade pip: a package index must be within reach"; exit 1; }
	@touch $@

$(VENV)/.demo: $(VENV)/.venv pyproject.toml
	$(call install,slce_xp,-e '.[demo]')

$(VENV)/.test: $(VENV)/.venv pyproject.toml
	$(call install,slce_xp and the test dependencies,-e '.[demo]' --group test --group lint)

$(VENV)/.bench: $(VENV)/.test
	$(call install,what the memory benchmark needs,--group bench)

$(VENV)/.docs: $(VENV)/.venv pyproject.toml
	$(call install,slce_xp and what the documentation needs,-e . --group docs)
