"""The store of samples/custom_store.py keeps the whole contract, with a queue and tokens in a libSQL file beside it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from kagent_memory.errors import ConfigurationError
from kagent_memory.stores import JobQueue, MemoryStore, Store, TokenStore, open_with
from kagent_memory.testing import StoreContract

SAMPLE = Path(__file__).parents[2] / "samples" / "custom_store.py"


def sample():
    if "custom_store" not in sys.modules:
        spec = importlib.util.spec_from_file_location("custom_store", SAMPLE)
        module = sys.modules["custom_store"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules["custom_store"]


class TestDictStore(StoreContract):
    async def open_store(self) -> Store:
        return await open_with(sample().DictStore, "dict://")


async def test_keys_are_refused_where_nothing_is_encrypted():
    with pytest.raises(ConfigurationError, match="does not encrypt"):
        await open_with(sample().DictStore, "dict://", encryption_keys="id:" + "A" * 43)


def test_a_store_of_memories_alone_needs_eighteen_methods_at_most():
    assert len(MemoryStore.__abstractmethods__) <= 18
    assert not issubclass(sample().DictStore, JobQueue | TokenStore)
