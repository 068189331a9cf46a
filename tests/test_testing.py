"""The stand-ins for models keep their promises."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from google.adk.agents import LlmAgent
from pydantic import BaseModel

from kagent_memory import InvalidInput, Scope, enable_memory
from kagent_memory.errors import ModelError
from kagent_memory.models.llm import Llm
from kagent_memory.testing import (
    Chat,
    FrozenClock,
    HashEmbedder,
    ScriptedLlm,
    ScriptedModel,
    call,
    in_memory_service,
)

ADA = Scope("", "ada", "desk")


class Tea(BaseModel):
    name: str


async def test_a_script_answers_by_the_prompt_or_in_order():
    """A script answers by the prompt or in order and remembers what it was asked."""
    by_prompt: Llm = ScriptedLlm(lambda prompt: {"name": prompt.upper()})
    assert (await by_prompt.complete("sencha", schema=Tea)).name == "SENCHA"
    in_order = ScriptedLlm(
        [Tea(name="one"), '{"name": "two"}', ModelError("away"), {"nome": "wrong"}]
    )
    assert [(await in_order.complete(prompt, schema=Tea)).name for prompt in ("a", "b")] == [
        "one",
        "two",
    ]
    for prompt, words in (("c", "away"), ("d", "does not fit Tea"), ("e", "asked once more")):
        with pytest.raises(ModelError, match=words):
            await in_order.complete(prompt, schema=Tea)
    assert in_order.prompts == ["a", "b", "c", "d", "e"]


async def test_a_scripted_model_goes_through_its_steps():
    """A scripted model goes through its steps and keeps each request."""
    model = ScriptedModel(
        call("save_memory", content="Ada drinks oolong."),
        lambda request: f"after {len(request.contents)} contents",
        ValueError("away"),
    )
    with in_memory_service() as memory:
        chat = Chat(enable_memory(LlmAgent(name="assistant", model=model), auto_save=None), memory)
        assert (
            await chat.ask("Please remember the tea.")
            == f"after {len(model.requests[1].contents)} contents"
        )
        for error in (ValueError("away"), ModelError("at its end, and request 4 came")):
            with pytest.raises(type(error), match=str(error)):
                await chat.say("And now?")
        scope = memory.scope(chat.app, chat.user)
        assert [entry.content for entry in memory.sync.list(scope).memories] == [
            "Ada drinks oolong."
        ]
    assert model.steps == []
    assert len(model.requests[0].contents) < len(model.requests[1].contents)
    assert ScriptedModel(afterwards="ok").requests == []


def test_a_frozen_clock_stands_until_it_is_moved():
    """A frozen clock stands until it is moved and wants a zone."""
    east = datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=2)))
    clock = FrozenClock(east)
    assert clock.advance(days=1, seconds=4) == east + timedelta(days=1, seconds=4)
    assert (clock(), clock().tzinfo) == (clock.now, UTC)
    with pytest.raises(InvalidInput, match="time zone"):
        FrozenClock(datetime(2026, 1, 1))  # noqa: DTZ001 that is the mistake


def test_a_service_in_memory_shares_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A service in memory reads no environment keeps its own time and shares nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAGENT_MEMORY_URI", "libsql:///elsewhere.db")
    monkeypatch.setenv("KAGENT_MEMORY_TTL_DAYS", "1")
    clock = FrozenClock()
    with (
        in_memory_service(clock=clock, embedding=HashEmbedder()) as memory,
        in_memory_service() as other,
    ):
        (id,) = memory.sync.add(ADA, ["Ada drinks oolong."])
        assert memory.sync.recall(ADA, "oolong").mode == "hybrid"
        clock.advance(days=14)
        assert memory.sync.get(ADA, id).created_at == FrozenClock().now
        clock.advance(days=2)
        assert not memory.sync.recall(ADA, "oolong")
        assert other.sync.stats(ADA).visible == 0
    assert list(tmp_path.iterdir()) == []
