"""`StoreContract`: the promises of every store, as tests for the authors of stores."""

from __future__ import annotations

import pytest

THEMES = ("round_trip", "writes", "forget", "reads", "search", "keeping")
pytest.register_assert_rewrite(*(f"kagent_memory.testing.contract_{theme}" for theme in THEMES))

# imported after the modules are registered for assertion rewriting
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
    """The promises of `MemoryStore`, one test each; methods that your store refuses by name are
    skipped.

    Inherit from it in a test module, and implement how to open your store on an empty database:

        class TestMyStore(StoreContract):
            async def open_store(self) -> Store:
                return await open_with(MyStore, a_fresh_database())

    Each test opens and closes a store of its own. Install pytest, pytest-asyncio (any mode) and
    hypothesis; except for the number of examples, hypothesis uses your profile.
    """
