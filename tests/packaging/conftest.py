import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from script_module import script

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def root() -> Path:
    return ROOT


@pytest.fixture
def pip_wheel() -> Iterator[ModuleType]:
    yield script("pip_wheel")
    del sys.modules["pip_wheel"]


@pytest.fixture
def bootstrap(pip_wheel: ModuleType) -> Iterator[ModuleType]:
    del pip_wheel
    yield script("bootstrap")
    del sys.modules["bootstrap"]


@pytest.fixture
def stats() -> Iterator[ModuleType]:
    yield script("stats")
    del sys.modules["stats"]


@pytest.fixture
def mutants() -> Iterator[ModuleType]:
    yield script("mutants")
    del sys.modules["mutants"]
