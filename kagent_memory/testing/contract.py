"""`StoreContract`: what every store promises, as tests that the author of a store runs."""

from __future__ import annotations

import pytest

THEMES = ("round_trip", "writes", "forget", "reads", "search", "keeping")
pytest.register_assert_rewrite(*(f"kagent_memory.testing.contract_{theme}" for theme in THEMES))

# after the themes asked for readable assertions
from .contract_forget import ForgetContract, TakenContract  # noqa: E402
from .contract_keeping import ConcurrencyContract, InputContract, KeepingContract  # noqa: E402
from .contract_reads import FilterContract, PagingContract  # noqa: E402
from .contract_round_trip import IsolationContract, RoundTripContract  # noqa: E402
from .contract_search import TextSearchContract, VectorSearchContract  # noqa: E402
from .contract_writes import ApplyContract, HistoryContract  # noqa: E402


class StoreContract(
    IsolationContract,
    RoundTripContract,
    ApplyContract,
    HistoryContract,
    TakenContract,
    ForgetContract,
    PagingContract,
    FilterContract,
    TextSearchContract,
    VectorSearchContract,
    ConcurrencyContract,
    KeepingContract,
    InputContract,
):
    """Every promise of `MemoryStore`, one test each, named by the rule
    it states; verbs that your store refuses by name promise nothing.

    Inherit from it in a test module, and say how to open your store on an empty database:

        class TestMyStore(StoreContract):
            async def open_store(self) -> Store:
                return await open_with(MyStore, a_fresh_database())

    Each test opens a store of its own and closes it. pytest, pytest-asyncio (any mode) and
    hypothesis must be installed; settings of hypothesis are those of its own profile but for the
    number of examples.
    """
