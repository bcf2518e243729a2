# The verbs of this repository. PYTHON is the interpreter that makes the environment.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: dev lint format test fuzz evidence bench catalogue

dev: $(BIN)/kvplan  ## an environment with everything a developer needs

$(BIN)/kvplan: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -e ".[dev,verify]"
	touch $@

lint: dev  ## style, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: dev
	$(BIN)/pytest -q

evidence: dev  ## tests against recordings and configs that lie outside this repository
	@$(BIN)/python -c "from tests.evidence import check; check()"
	$(BIN)/pytest -q -m evidence

fuzz: dev  ## damaged files and command lines by the thousand; FUZZ is the number per reader
	KVPLAN_FUZZ=$(or $(FUZZ),20000) $(BIN)/pytest -q tests/fuzz

bench: dev  ## start-up against the bare imports, and engine plans per second
	$(BIN)/python -m tests.bench.startup
	$(BIN)/python -m tests.bench.vllm
	$(BIN)/python -m tests.bench.replay $(TRACES)

catalogue: dev  ## check every spec of model_specs/ and compile them
	$(BIN)/python -m kvplan.spec.folder
