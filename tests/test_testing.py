"""The stand-ins for models keep their promises."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from google.adk.agents import LlmAgent
from pydantic import BaseModel

import kagent_memory.testing
from kagent_memory import InvalidInput, Scope, enable_memory
from kagent_memory.errors import ModelError
from kagent_memory.models.embedding import Embedder
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


async def test_equal_texts_have_equal_unit_vectors() -> None:
    """The same text always has the same unit vector and likeness is nearness."""
    embedder: Embedder = HashEmbedder(dimensions=64)
    texts = [
        "green tea",
        "a cup of green tea",
        "deployment",
        "we deploy on Monday",
        "rain in Oslo",
        "",
        "!?",
    ]
    one = await embedder.embed(texts, kind="document")
    other = await HashEmbedder(dimensions=64).embed(texts, kind="query")
    assert (one.shape, one.dtype) == ((7, 64), np.float32)
    np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(np.linalg.norm(one, axis=1), 1.0, rtol=1e-6)
    near = one @ one.T
    assert near[0, 1] > near[0, 4] + 0.3
    assert near[2, 3] > near[2, 4]
    assert (await embedder.embed([], kind="query")).shape == (0, 64)


async def test_a_script_answers_by_the_prompt_or_in_order() -> None:
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


def test_what_a_test_imports_is_light() -> None:
    """The models load no driver and no framework, and what runs an agent loads no pytest."""
    code = """
import sys
import kagent_memory.testing
models = {"google.adk", "litellm", "psycopg", "pytest"} & sys.modules.keys()
from kagent_memory.testing import Chat, in_memory_service
print(models, {"hypothesis", "pytest"} & sys.modules.keys())
"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set() set()\n"


def test_every_name_is_there_and_no_other():
    """Each public name of `testing` is documented."""
    for name in kagent_memory.testing.__all__:
        assert getattr(kagent_memory.testing, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = kagent_memory.testing.Nothing


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
        assert [one.content for one in memory.sync.list(scope).memories] == ["Ada drinks oolong."]
    assert model.steps == []
    assert len(model.requests[0].contents) < len(model.requests[1].contents)
    assert ScriptedModel(afterwards="ok").requests == []


async def test_a_chat_is_one_session_and_another_chat_is_another():
    """Turns of one chat see each other."""
    model = ScriptedModel(afterwards="Yes.")
    with in_memory_service() as memory:
        one, other = (
            Chat(LlmAgent(name="assistant", model=model), memory, user=user)
            for user in ("ada", "grace")
        )
        with pytest.raises(LookupError, match="Nothing was said"):
            await one.session()
        assert [await chat.ask("Hello?") for chat in (one, one, other)] == ["Yes."] * 3
    assert [len(request.contents) for request in model.requests] == [1, 3, 1]
    assert (await one.session()).user_id == "ada"
    assert one.session_id != other.session_id


def test_a_frozen_clock_stands_until_it_is_moved():
    """A frozen clock stands until it is moved and wants a zone."""
    east = datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=2)))
    clock = FrozenClock(east)
    assert clock() == clock.now == east
    assert clock().tzinfo is UTC
    assert clock.advance(days=1, hours=2, minutes=3, seconds=4) == east + timedelta(
        days=1, seconds=7384
    )
    assert clock() == clock.now
    with pytest.raises(InvalidInput, match="with a zone"):
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
