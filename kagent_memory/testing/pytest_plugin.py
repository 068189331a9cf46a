"""Fixtures for the tests of an agent: `pytest_plugins = ["kagent_memory.testing.pytest_plugin"]` in
`conftest.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ..adk.service import KagentMemoryService
from .agents import in_memory_service
from .stand_ins import FrozenClock


@pytest.fixture
def frozen_clock() -> FrozenClock:
    """Return the clock of `memory_service`."""
    return FrozenClock()


@pytest.fixture
def memory_service(frozen_clock: FrozenClock) -> Iterator[KagentMemoryService]:
    """Yield an empty in-memory service for this test, without models, on `frozen_clock`."""
    with in_memory_service(clock=frozen_clock) as service:
        yield service
