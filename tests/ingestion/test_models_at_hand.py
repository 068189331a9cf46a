"""The model that ingests a session: the configured one, the agent's object, one made from a name,
or none.
"""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kagent_memory.models.llm import CheckedLlm, Llm
from kagent_memory.records import Scope
from kagent_memory.settings import MemorySettings
from kagent_memory.testing import FrozenClock, HashEmbedder, ScriptedLlm

from .ground import SCOPE, a_message, contents, opened, stated, taken_in


def model(name: str = "gpt") -> ScriptedLlm:
    return ScriptedLlm(stated, name=name)


def fact(whose: str, number: int = 0) -> Any:
    return a_message(f"Fact: {whose} keeps locker {number}.", f"{whose}-{number}")


def heard(llm: ScriptedLlm) -> str:
    return "\n".join(llm.prompts)


class Refused(Exception):
    """A provider's error with a status."""

    def __init__(self, status: int) -> None:
        super().__init__("refused")
        self.status_code = status


TENANTS = [Scope(tenant, "ada", "desk") for tenant in ("acme", "bolt")]


async def test_each_tenants_session_has_its_own_model(store_uri: str):
    """Each tenant's session goes through its own object, whatever its name."""
    models = [model() for _ in TENANTS]
    async with opened(store_uri, embedding=HashEmbedder()) as memories:
        for round in range(2):
            ends: dict[str, Any] = {"save": not round, "end_after_minutes": 0}
            for scope, llm in zip(TENANTS, models, strict=True):
                messages = [fact(scope.tenant, round)]
                await memories.remember(scope, messages, f"s{round}", llm=llm, **ends)
        while await memories.work(until_idle=True):
            pass
        for scope, llm in zip(TENANTS, models, strict=True):
            assert len(await contents(memories, scope)) == 2
            assert {*re.findall(r"(\w+) keeps locker", heard(llm))} == {scope.tenant}


async def test_after_a_restart_a_session_waits_for_its_model(
    store_uri: str, caplog: pytest.LogCaptureFixture
):
    """After a restart a tenant's session waits for its own model object while others go on."""
    mine, theirs = TENANTS
    async with opened(store_uri) as memories:
        await memories.remember(theirs, [fact("theirs", 1)], "s1", llm=model())
    clock, ours, other = FrozenClock(), model(), model()
    clock.now = datetime.now(UTC)
    async with opened(store_uri, clock=clock) as restarted:
        for number in range(3):
            await restarted.remember(mine, [fact("mine", number)], f"s{number}", llm=ours)
        with caplog.at_level(logging.WARNING, "kagent_memory"):
            assert await restarted.work(until_idle=True) == 3, "a job that waits holds no other up"
        assert "theirs" not in heard(ours)
        assert caplog.text.count("stays queued for another worker") == 1
        assert not await restarted.drain(0)
        [job] = await restarted.jobs(scope=theirs)
        assert (job.state, job.attempts, job.failures) == ("queued", 0, 0)
        assert "'gpt'" in job.error
        await restarted.remember(theirs, [fact("theirs", 2)], "s2", llm=other)
        clock.advance(minutes=2)
        assert await restarted.work(until_idle=True) >= 2
        assert await contents(restarted, theirs) == [f"theirs keeps locker {n}." for n in (1, 2)]
        assert "mine" not in heard(other)


async def test_a_name_is_resolved_afresh_in_every_scope(store_uri: str):
    """A model name is resolved in every scope, never by another scope's object."""
    async with opened(store_uri) as memories:
        await memories.remember(TENANTS[1], [fact("theirs")], "s1", llm=model())
    names: list[str] = []
    resolved = model()

    def resolve(name: str) -> Llm:
        names.append(name)
        return resolved

    brought = model()
    async with opened(store_uri, resolve_llm=resolve) as memories:
        await memories.remember(TENANTS[0], [fact("mine")], "s1", llm=brought)
        assert await memories.work(until_idle=True) == 2
    assert names == ["gpt"]
    assert "theirs" in heard(resolved)
    assert "theirs" not in heard(brought)
    assert "mine" not in heard(resolved)


@pytest.mark.parametrize(
    "error",
    [
        ValueError(
            "Missing key inputs argument! To use the Google AI API, provide (`api_key`) arguments."
        ),
        Refused(401),
        type("DefaultCredentialsError", (Exception,), {})("none found"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_model_without_credentials_waits(error: Exception, monkeypatch: pytest.MonkeyPatch):
    """A name that resolves to a model without credentials waits for a worker that has them."""
    monkeypatch.setattr("kagent_memory.ingestion.worker.MAX_FAILURES", 1)
    clock, resolved = (
        FrozenClock(),
        CheckedLlm(ScriptedLlm(lambda prompt: error, name="gpt"), MemorySettings()),
    )
    options = {"clock": clock, "resolve_llm": lambda name: resolved}
    async with opened(**options) as memories:
        await memories.remember(SCOPE, [fact("ada")], "s1", llm="gpt")
        for _ in range(4):
            await memories.work(until_idle=True)
            clock.advance(minutes=10)
            memories.worker.wake("gpt")
        (job,) = await memories.jobs()
        assert (job.state, job.failures) == ("queued", 0)
        assert "no credentials" in job.error
        resolved.inner.answers = stated
        assert await memories.work(until_idle=True) == 1


@pytest.mark.parametrize(
    ("configured", "queued", "same"),
    [
        ("gemini/gemini-2.5-flash", "gemini-2.5-flash", True),
        ("gemini-2.5-flash", "gemini/gemini-2.5-flash", True),
        ("openai/gpt-9", "openai/gpt-9", True),
        ("openai/gpt-9", "gpt-9", False),
        ("openai/gpt-9", "anthropic/gpt-9", False),
        ("other", "gpt", False),
    ],
)
async def test_a_configured_model_serves_jobs_of_its_own_name_only(
    tmp_path: Path, configured: str, queued: str, same: bool
):
    """A configured model serves jobs of its own name, in either spelling, and no others."""
    uri = f"libsql:///{tmp_path}/memory.db"
    async with opened(uri) as memories:
        await memories.remember(SCOPE, [fact("ada")], "s1", llm=queued)
    async with opened(uri, llm=model(configured)) as worker:
        assert await worker.work(until_idle=True) == int(same)
        assert await contents(worker) == (["ada keeps locker 0."] if same else [])
        assert await worker.drain(0) is same


# -- turns, and the word that is said about them ------------------------------------------------


async def test_a_session_without_a_model_is_stored_in_turns(caplog: pytest.LogCaptureFixture):
    """A session without a model is stored in turns, with one warning."""
    async with opened() as memories:
        for number in range(3):
            await memories.remember(SCOPE, [fact("ada", number)], f"s{number}")
        await taken_in(memories, [fact("bob")], "s9", llm=model())
        assert "bob keeps locker 0." in await contents(memories)
        assert "Fact: ada keeps locker 0." in await contents(memories)
    warnings = [record.message for record in caplog.records if "llm=" in record.message]
    assert len(warnings) == 1
    assert "stored turn by turn" in warnings[0]


# -- what an ended session costs ----------------------------------------------------------------


@pytest.mark.parametrize("summary", ["It was about lockers.", ""])
async def test_an_end_that_is_said_again_costs_no_call(store_uri: str, summary: str):
    """Ending a session again costs no call without new messages."""
    llm = ScriptedLlm(
        lambda prompt: {**stated(prompt), "summary": summary if "session is over" in prompt else ""}
    )

    async def ended(*messages: Any) -> int:
        before = len(llm.prompts)
        await taken_in(memories, messages, save=False, end_after_minutes=0)
        return len(llm.prompts) - before

    first, second = fact("ada", 1), fact("ada", 2)
    async with opened(store_uri, llm=llm) as memories:
        await taken_in(memories, [first])
        assert [await ended(first) for _ in range(3)] == [1, 0, 0]
        assert await ended(first, second) >= 1
        assert [await ended(first, second), await ended()] == [0, 0]
        await taken_in(memories, [fact("ada", 3)])
        assert [await ended(first), await ended(first)] == [1, 0], "something was said since"
        assert (await memories.stats(SCOPE)).calls == len(llm.prompts)
    async with opened(store_uri, llm=llm) as memories:
        assert await ended(first) == 0
