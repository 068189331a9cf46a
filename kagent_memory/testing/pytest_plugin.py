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
    """The clock of `memory_service`."""
    return FrozenClock()


@pytest.fixture
def memory_service(frozen_clock: FrozenClock) -> Iterator[KagentMemoryService]:
    """An empty memory service of this test alone: nothing on disk, no model, words only, on
    `frozen_clock`.
    """
    with in_memory_service(clock=frozen_clock) as service:
        yield service
