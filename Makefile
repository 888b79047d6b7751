# Works with GNU make 3.81. Every target does its own set-up: scripts/venv finds a Python, makes .venv and installs.
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check soak lint types unit clean
demo:  ; @scripts/venv sklearn && "$(BIN)/python" scripts/demo.py
test:  ; @scripts/venv test && "$(BIN)/python" -m pytest
check: lint types unit
lint:  ; @scripts/venv test && "$(BIN)/ruff" check src tests bench scripts testbed
types: ; @scripts/venv test && "$(BIN)/mypy"
unit:  ; @scripts/venv test && "$(BIN)/python" -m pytest -q -n auto --maxprocesses 4 tests/unit tests/golden
soak:  ; @scripts/venv test && SERVEPLANE_COUNTS=soak PYTEST_TIMEOUT=5400 "$(BIN)/python" -m pytest && SERVEPLANE_KUBERNETES=1.30 "$(BIN)/python" -m pytest tests/testbed/install
clean: ; rm -rf "$(VENV)" .mypy_cache .ruff_cache .pytest_cache
