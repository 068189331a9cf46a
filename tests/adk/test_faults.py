"""Every part that may fail, in every way it may, under everything a turn does with memory: one
table.

The turn completes, the answer says how it was found, nothing wrong is stored, and what was accepted
is there in the end.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence, Set
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count
from typing import Any

import httpx
import numpy as np
import pytest
from relay import Relay

from kagent_memory import (
    AutoSave,
    ConfigurationError,
    ForgetMemoryTool,
    KagentMemoryService,
    LoadMemoryTool,
    Memories,
    MemoryPlugin,
    PrefetchMemoryTool,
    PreloadMemoryTool,
    RecallMemoryTool,
    SaveMemoryTool,
    StoreError,
    enable_memory,
)
from kagent_memory.memories import utc_now
from kagent_memory.settings import MemorySettings
from kagent_memory.stores.values import MemoryQuery
from kagent_memory.testing import HashEmbedder

from .scripted import (
    APP,
    SCOPE,
    USER,
    Chat,
    assistant,
    blocks,
    call,
    contents,
    responses,
    scripted,
)

KNOWN = ("Ada's tea is oolong.", "The spare key is with Grace.")
SAVED, SAID = "The gate is blue.", "The boat is red."
SOON = 120.0  # generous: what is tested is that it ends at all
PATIENT = MemorySettings(rewrite=True, prune_every_hours=0)
SHORT = PATIENT.updated(
    {
        **dict.fromkeys(("model_timeout_seconds", "search_timeout_seconds"), 0.25),
        "statement_timeout_seconds": 0.5,
    }
)
RAISED: dict[str, Callable[[], Exception]] = {
    "time-out": TimeoutError,
    "refused": lambda: ConnectionRefusedError(111, "refused"),
    "500": lambda: httpx.HTTPStatusError(
        "500", request=httpx.Request("POST", "http://model"), response=httpx.Response(500)
    ),
}
FAULTS = (*RAISED, "garbage", "wrong width", "slow")


class Part:
    """A model of any kind that works until it is told how to fail.

    Args:
        work: answers while it works.
        spoil: makes of a good answer the bad one of a fault.
    """

    name = "part"

    def __init__(self, work: Callable[..., Any], spoil: dict[str, Callable[[Any], Any]]) -> None:
        self.work, self.spoil, self.fault = work, spoil, ""

    async def embed(self, *args: Any, **options: Any) -> Any:
        if self.fault == "slow":
            await asyncio.sleep(3600)
        if self.fault in RAISED:
            raise RAISED[self.fault]()
        answer = await self.work(*args, **options)
        return self.spoil[self.fault](answer) if self.fault else answer

    complete = rerank = embed


numbers = count()


async def worded(prompt: str, *, schema: Any) -> Any:
    """Extract one fact from the transcript that holds it, and word every query anew: no vector of
    one is kept.
    """
    query = f"Where is the spare key? ({next(numbers)})"
    facts = [{"text": SAID}] if SAID in prompt else []
    return {"query": query, "facts": facts, "decisions": [], "summary": ""}


async def key_first(query: str, documents: Sequence[str]) -> list[float]:
    return [float("key" in document) for document in documents]


def working() -> dict[str, Any]:
    """The models of a service, by the name of their argument."""
    return {
        "embedding": Part(
            HashEmbedder(64).embed,
            {"garbage": lambda rows: rows * np.nan, "wrong width": lambda rows: rows[:, 1:]},
        ),
        "llm": Part(
            worded,
            {
                "garbage": lambda _: "I'm sorry, \x00\ud83e I can't. {",
                "wrong width": lambda _: {"rows": [[1, 2], [3]]},
            },
        ),
        "rerank": Part(
            key_first,
            {
                "garbage": lambda scores: [float("nan")] * len(scores),
                "wrong width": lambda scores: scores[:-1],
            },
        ),
    }


@dataclass(frozen=True)
class Cell:
    """What is to be seen of one part's failure.

    Attributes:
        mode, degraded: what a search says of itself; "": it cannot answer.
        saves: whether the explicit save is accepted.
        learns: whether the session is ingested while the fault lasts.
    """

    mode: str
    degraded: str
    saves: bool = True
    learns: bool = True


CELLS = {
    "embedding": Cell("keyword", "embedder:"),
    "llm": Cell("hybrid", "rewrite:", learns=False),
    "rerank": Cell("hybrid", "rerank:"),
}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kagent_memory.memories.maintenance.CLOSE_SECONDS", 0.05)
    monkeypatch.setattr("kagent_memory.stores.postgres.connection.NETWORK_SECONDS", 0.5)
    monkeypatch.setattr("kagent_memory.stores.postgres.connection.CONNECT_SECONDS", 2)


@pytest.fixture
def _soon_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kagent_memory.adk.loop_thread.PATIENCE_SECONDS", 0.3)
    monkeypatch.setattr("kagent_memory.adk.loop_thread.PING_SECONDS", 0.3)


async def one_turn(service: KagentMemoryService) -> tuple[list[str], list[dict[str, Any]]]:
    """Prefetch, search, save and auto-save in one turn; the prefetched blocks and the tools'
    answers.
    """
    model = scripted(
        call("load_memory", query="With whom is the key?"),
        call("save_memory", content=SAVED),
        "That is all.",
    )
    agent = enable_memory(
        assistant(model),
        tools=[PreloadMemoryTool(timeout_seconds=20), LoadMemoryTool(), SaveMemoryTool()],
        auto_save=AutoSave(every_turns=1),
    )
    answer = await asyncio.wait_for(
        Chat(agent, service).ask(f"Where is my spare key? {SAID}"), SOON
    )
    assert answer == "That is all."
    return blocks(model.requests[0]), responses(model.requests[-1])


async def check_turn(service: KagentMemoryService, cell: Cell) -> None:
    shown, (loaded, saved) = await one_turn(service)
    if cell.mode:
        assert any("with Grace" in block for block in shown)
        assert KNOWN[1] in [memory["text"] for memory in loaded["memories"]]
        answer = await asyncio.wait_for(
            service.memories.recall(SCOPE, "Who has the spare key?"), SOON
        )
        assert answer.mode == cell.mode
        assert [reason.startswith(cell.degraded) for reason in answer.degraded] == [True]
        assert KNOWN[1] in [hit.memory.content for hit in answer]
    else:
        assert shown == []
        assert loaded == {"error": "memory unavailable"}
        with pytest.raises(StoreError):
            await asyncio.wait_for(
                service.search_memory(app_name=APP, user_id=USER, query="key"), SOON
            )
    assert ("id" in saved) is cell.saves
    assert ("error" in saved) is not cell.saves


async def check_recovered(
    uri: str, cell: Cell, *, accepted: bool, late: Set[str] = frozenset()
) -> None:
    """Somebody else opens the store an hour later, with parts that work.

    What is `late` may have been written after the turn had stopped waiting for it.
    """
    later = utc_now() + timedelta(hours=1)
    async with await Memories.open(
        uri, worker=False, settings=PATIENT, clock=lambda: later, **working()
    ) as memories:
        await memories.work(until_idle=True)
        remembered = {*KNOWN, *([SAVED] if cell.saves else []), *([SAID] if accepted else [])}
        assert {
            memory.content for memory in (await memories.list(SCOPE)).memories
        } - late == remembered
        assert [job for job in await memories.jobs() if job.kind != "consolidate"] == []
        [space] = await memories.store.memories.spaces.all()
        lacking = MemoryQuery(lacking=space.number, now=later)
        assert not await memories.store.memories.select(SCOPE, lacking)
        answer = await memories.recall(SCOPE, "Is the spare key with Grace?")
        assert (answer.mode, answer.degraded, answer[0].memory.content) == ("hybrid", (), KNOWN[1])


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("part", CELLS)
async def test_a_model_that_fails_under_a_turn(uri: str, part: str, fault: str):
    """With a model that fails, a turn goes on with the rest, and what it missed comes later."""
    models, cell = working(), CELLS[part]
    if part == "embedding" and fault in ("garbage", "wrong width"):
        cell = replace(cell, saves=False)
    settings = SHORT if fault == "slow" else PATIENT
    async with KagentMemoryService(uri, settings=settings, **models) as service:
        await service.memories.add(SCOPE, KNOWN)
        answer = await service.memories.recall(SCOPE, "Which tea?")
        assert (answer.mode, answer.degraded) == ("hybrid", ())
        models[part].fault = fault
        await check_turn(service, cell)
        if part == "rerank":  # which nothing that is accepted waits for
            assert await service.drain(SOON)
        allowed = {*KNOWN, *([SAVED] if cell.saves else []), *([SAID] if cell.learns else [])}
        assert {*await contents(service)} <= allowed
    await check_recovered(uri, cell, accepted=True)


@pytest.fixture
async def behind(postgres_uri: str) -> AsyncIterator[Relay]:
    with Relay(postgres_uri) as relay:
        yield relay


WAYS = {"time-out": "swallow", "refused": "refuse", "garbage": "garble"}


@pytest.mark.usefixtures("_soon_away")
@pytest.mark.parametrize("fault", WAYS)
async def test_a_database_that_fails_under_a_turn(postgres_uri: str, behind: Relay, fault: str):
    """With a database that fails, a turn says that memory is unavailable, which heals by itself."""
    cell = Cell("", "", saves=False, learns=False)
    settings = PATIENT if fault == "refused" else SHORT
    late = {SAVED, SAID} if fault == "time-out" else set[str]()
    async with KagentMemoryService(behind.uri, settings=settings, **working()) as service:
        await service.memories.add(SCOPE, KNOWN)
        assert (await service.memories.recall(SCOPE, "Which tea?")).mode == "hybrid"
        behind.way = WAYS[fault]
        behind.cut()
        await check_turn(service, cell)
        behind.flow()
        behind.cut()
        # by itself, with the same service; a dial that was cut may be told first
        async with asyncio.timeout(SOON):
            while True:
                try:
                    assert set(await contents(service)) - late == set(KNOWN)
                    break
                except StoreError:
                    await asyncio.sleep(0.05)
    await check_recovered(postgres_uri, cell, accepted=False, late=late)


async def test_a_turn_on_a_frozen_database_ends_in_seconds(behind: Relay):
    """A database that accepts everything and answers nothing costs a turn six seconds at most."""
    settings = MemorySettings()
    # the worker would take the agent's model, and the answers that its script holds for the turn
    models: dict[str, Any] = {"embedding": HashEmbedder(), "llm": False}
    async with KagentMemoryService(behind.uri, settings=settings, **models) as service:
        assert (await one_turn(service))[1][1]["status"] == "saved"
        behind.way = "stall"
        start = time.monotonic()
        answers = (await one_turn(service))[1]
        seconds = time.monotonic() - start
        behind.flow()
        assert answers == [{"error": "memory unavailable"}] * 2
        assert seconds < 6
        async with asyncio.timeout(SOON):
            while (saved := (await one_turn(service))[1][1]) == answers[1]:
                pass  # what hung may need a moment to end
        assert saved["status"] == "saved"


def broken(monkeypatch: pytest.MonkeyPatch, error: Exception) -> KagentMemoryService:
    """A service that throws this whatever it is asked."""

    async def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr("kagent_memory.remote.open_memories", fail)
    return KagentMemoryService("libsql:///:memory:", llm=False)


WRONG = ConfigurationError("The URI postgresql://ada:hunter2pass@db/x is none; write another.")
RAISED_BY_ALL = (
    RuntimeError("hunter2pass"),
    KeyError("hunter2pass"),
    OSError(),
    TimeoutError(),
    WRONG,
)


@pytest.mark.parametrize("error", RAISED_BY_ALL)
async def test_no_failure_of_memory_reaches_the_run_or_the_log(
    error: Exception, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """Whatever memory raises, the turn ends and its kind alone is logged; of a wrong setting the
    cure too, without its password.
    """
    tools = [SaveMemoryTool(), LoadMemoryTool(), RecallMemoryTool(), ForgetMemoryTool()]
    model = scripted(
        call("save_memory", content="x"),
        *(call(tool.name, query="x") for tool in tools[1:]),
        "done",
    )
    before = [PrefetchMemoryTool(), PreloadMemoryTool()]
    policy = AutoSave(every_turns=1)
    agent = enable_memory(assistant(model), tools=[*tools, *before], auto_save=policy)
    with caplog.at_level(logging.WARNING, "kagent_memory"):
        async with broken(monkeypatch, error) as service:
            chat = Chat(agent, service, plugins=[MemoryPlugin(auto_save=policy)])
            assert await chat.ask("What do you know about me?") == "done"
    assert responses(model.requests[-1]) == [{"error": "memory unavailable"}] * 4
    for what in ("prefetch_memory", "load_memory"):
        assert f"{what}: memory unavailable ({type(error).__name__} at " in caplog.text
    assert (": The URI postgresql://" in caplog.text) is (error is WRONG)
    assert "auto-save: " in caplog.text
    assert ("is none; write another." in caplog.text) is (error is WRONG)
    assert "hunter2pass" not in caplog.text
