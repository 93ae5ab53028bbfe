# The only things a machine needs beforehand: Python 3.11 or newer, git, make,
# and Go (or internet access) for the sandbox's binaries.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PLUGINS := $(sort $(wildcard plugins/*/pyproject.toml))
# The tests run the download program, so its libraries are installed too.
STORAGE := plugins/storage_s3_gcs_azure_git_hf
FOLDERS := . $(patsubst %/pyproject.toml,%,$(PLUGINS:$(STORAGE)/%=)) $(STORAGE)[download]
# Three at a time, each with control planes of its own: most of the time goes into waiting for controllers. With two,
# two cores are idle for three quarters of it; with four, tests that compare times fail.
PYTEST := $(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder --maxfail 20 --durations 15
LOCKS  := deploy/operator/requirements.txt deploy/downloader/requirements.txt deploy/build-requirements.txt \
	release/requirements.txt
STAMP  := $(VENV)/.installed

# Without cached bytecode each run compiles all tests anew, and so does each process that they start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-matrix test-node test-pure lint bench dist lock audit install clean

demo: $(STAMP)
	$(BIN)/kaiwo demo

test: lint
	$(BIN)/kaiwo sandbox build --helm
	$(PYTEST) -m "not node"

# What talks to Kueue, KubeRay or AppWrapper once more, against the generation before.
# MATRIX_SLICE names test files to run instead of all.
test-matrix: $(STAMP)
	$(BIN)/kaiwo sandbox build --generation older
	KAIWO_SANDBOX_GENERATION=older $(PYTEST) -m matrix $(MATRIX_SLICE)

# What needs containers that really run. A machine runs one real node at a time, so nothing runs in parallel.
test-node: $(STAMP)
	$(BIN)/kaiwo sandbox build --real-node
	$(BIN)/python -m pytest -m node --durations 15

# Everything that needs no control plane, and neither wheels nor many processes: about two minutes on two cores.
test-pure: $(STAMP)
	$(PYTEST) -m "not cluster and not node and not slow"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(STAMP)
	$(BIN)/python -m bench

# What a release publishes: wheels, source distributions, bills of materials, checksums.
dist: $(STAMP)
	rm -rf dist
	$(BIN)/python -m release.build dist

# The files with hashes that images and release tools are installed from. Needs a package index.
lock: $(STAMP)
	$$($(BIN)/python -m release.tools)/bin/python -m release.lock

# Known vulnerabilities. Needs a vulnerability service, and fails where none answers.
audit: $(STAMP)
	$$($(BIN)/python -m release.tools)/bin/pip-audit --strict --disable-pip --require-hashes --progress-spinner off \
		$(foreach file,$(LOCKS),--requirement $(file))

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt $(PLUGINS)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade --constraint constraints.txt pip hatchling editables
	$(BIN)/python -m pip install --quiet --no-build-isolation --constraint constraints.txt \
		--group dev $(addprefix --editable ,$(FOLDERS))
	touch $@

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
