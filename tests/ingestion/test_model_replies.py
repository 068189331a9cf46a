"""What models reply, through the whole queue: their own answer or none, asked again, then a visible dead letter."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from loopback import Loopback
from pydantic import BaseModel, ValidationError

from kagent_memory import doctor
from kagent_memory.errors import ConfigurationError, ModelError
from kagent_memory.ingestion.extraction import CompactionAwareSummary, LlmSummary
from kagent_memory.memories import Memories
from kagent_memory.models.llm import ProviderModel
from kagent_memory.records import Fact, Message
from kagent_memory.testing import HashEmbedder, ScriptedLlm

from .test_river import SCOPE, Clock, contents, opened, said, stated

TALK = [said("Zoe arrives on Friday with her dog Bruno.", "e1"), said("Noted.", "e2", "agent")]


class Replying:
    """A model of somebody else's: it gives back the raw text of a reply, or raises."""

    def __init__(self, reply: Callable[[str], Any] | Any, name: str = "theirs") -> None:
        self.name = name
        self.reply = reply
        self.prompts: list[str] = []

    async def complete(self, prompt: str, *, schema: type[BaseModel]) -> Any:
        self.prompts.append(prompt)
        answer = self.reply(prompt) if callable(self.reply) else self.reply
        if isinstance(answer, Exception):
            raise answer
        return answer


async def worked_off(memories: Memories, clock: Clock, rounds: int = 8) -> None:
    for _ in range(rounds):
        await memories.work(until_idle=True)
        clock.pass_by(minutes=20)


UNREADABLE = [
    "",
    "   \n",
    "Sorry, I cannot help with message [1].",
    "I can't discuss [1], [2] or [3].",
    'I am not able to do this. {"facts": []}',
    "[1]",
    "[1, 2]",
    "[null]",
    "[[]]",
    '[["Zoe arrives", "travel"]]',
    '{"memories": [{"text": "Zoe arrives on Friday."}]}',
    '{"memories": []}',
    '{"result": {"facts": [{"text": "Zoe arrives on Friday."}]}}',
    '{"data": []}',
    '{"facts": [{"text": "Zoe arrives on Friday.", "topics": ["travel", "dog"]}, {"te',
    '{"facts": [{"text": "Zoe arrives on Friday.", "topics": ["travel", "do',
    '```json\n{"facts": [{"text": "Zoe arrives", "topics": ["travel", "dog"]},',
    '[{"text": "Zoe arrives on Friday.", "topics": ["travel", "dog"]}, {"te',
    '{"facts": [{"text": "Zoe"}]}\n{"facts": [{"text": "Bruno"}]}',
    '{"text": "Zoe arrives"}\n{"text": "Bruno is a dog"}',
    '{"facts": [{"fact": "Zoe arrives on Friday."}]}',
    '{"facts": [{"content": "Zoe arrives on Friday."}, {"memory": "Bruno"}]}',
    '{"facts": [7, null, ["travel", "dog"]]}',
    '{"facts": [{"text": "Zoe arrives.", "type": "opinion"}]}',
    '{"facts": "none"}',
    '{"facts": null}',
    '{"summary": "They talked."}',
    '"{\\"facts\\": []}"',
    "[" * 3000 + "]" * 3000,
    '{"facts": ' + "[" * 3000 + "]" * 3000 + "}",
    '{"facts": [{"text": "Zoe", "importance": ' + "9" * 5000 + "}]}",
]


@pytest.mark.parametrize("reply", UNREADABLE, ids=range(len(UNREADABLE)))
async def test_a_reply_that_is_no_answer_is_asked_again_and_ends_as_a_dead_letter(
    reply: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("kagent_memory.ingestion.worker.MAX_FAILURES", 3)
    clock, llm = Clock(), Replying(reply)
    async with opened("libsql:///:memory:", llm=llm, clock=clock, worker=False) as memories:
        await memories.remember(SCOPE, TALK, "s1")
        await memories.work(until_idle=True)
        (waiting,) = await memories.jobs()
        assert (waiting.state, waiting.failures) == ("queued", 1)
        assert not await memories.drain(0)
        await worked_off(memories, clock)
        (dead,) = await memories.jobs()
        assert (dead.state, dead.attempts, dead.failures) == ("dead", 3, 3)
        assert len(llm.prompts) >= 3
        assert await contents(memories) == []
        assert await memories.drain(5) is False
        assert "dead letter" in caplog.text
        llm.reply = '{"facts": [{"text": "Zoe arrives on Friday."}]}'
        await memories.retry_job(dead.id)
        await memories.work(until_idle=True)
        assert await contents(memories) == ["Zoe arrives on Friday."]
        assert await memories.drain(60) is True


@pytest.mark.parametrize(
    ("reply", "facts"),
    [
        ('{"facts": []}', []),
        ("```json\n[]\n```", []),
        ('{"facts": [{"text": ""}]}', []),
        ('{"facts": ["Zoe arrives.", {"text": "Bruno is a dog."}, 7, null]}', ["Bruno is a dog.", "Zoe arrives."]),
        ('["Zoe arrives.", "Bruno is a dog."]', ["Bruno is a dog.", "Zoe arrives."]),
        ('[{"text": "Zoe arrives.", "type": null, "topics": {"a": 1}, "importance": 1e999}]', ["Zoe arrives."]),
        ('{"facts": [{"text": "Zoe arrives.", "importance": NaN, "sources": [1]}], "note": "x"}', ["Zoe arrives."]),
        ('Sure!\n```json\n{"facts": ["Zoe arrives."]}\n```\nAnything else?', ["Zoe arrives."]),
        ('<think>[1] or {"facts": []}?</think>{"facts": ["Zoe arrives."]}', ["Zoe arrives."]),
        (r'{"facts": ["Zoe \ud83e arrives \u0000 late."]}', ["Zoe \ufffd arrives \ufffd late."]),
        ('{"facts": ["Zoe writes [1] and {}."]}', ["Zoe writes [1] and {}."]),
    ],
)
async def test_an_answer_is_read_however_it_is_wrapped(store_uri: str, reply: str, facts: list[str]):
    async with opened(store_uri, llm=Replying(reply), worker=False) as memories:
        await memories.remember(SCOPE, TALK, "s1")
        assert await memories.work(until_idle=True) == 1
        assert await contents(memories) == facts
        assert await memories.remember(SCOPE, TALK, "s1") is None


async def test_an_answer_that_is_cut_off_is_asked_for_in_parts_until_it_is_whole(store_uri: str):
    turns = [said(f"Fact: Shelf {number} holds box {number * 7}.", f"e{number}") for number in range(24)]

    def short_of_breath(prompt: str) -> str:
        answer = stated(prompt)
        if len(answer["facts"]) > 5:
            return json.dumps(answer)[:150]
        return json.dumps(answer)

    llm = Replying(short_of_breath)
    async with opened(store_uri, llm=llm, worker=False) as memories:
        await memories.remember(SCOPE, turns, "s1")
        assert await memories.work(until_idle=True) == 1
        assert await contents(memories) == sorted(turn.text.removeprefix("Fact: ") for turn in turns)
        assert 8 <= len(llm.prompts) < 40


async def test_an_answer_that_is_cut_off_however_little_is_asked_ends_as_a_dead_letter(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("kagent_memory.ingestion.worker.MAX_FAILURES", 2)
    clock, llm = Clock(), Replying('{"facts": [{"te')
    async with opened("libsql:///:memory:", llm=llm, clock=clock, worker=False) as memories:
        await memories.remember(SCOPE, [said("Some words are said here. " * 100, "e1")], "s1")
        await worked_off(memories, clock, 4)
        assert [job.state for job in await memories.jobs()] == ["dead"]
        assert len(llm.prompts) < 40


# -- no content in logs and jobs ----------------------------------------------------------------

NEEDLES = ("Zoe", "Friday", "Bruno", "Vegetarierin", "diagnosis")


class Strict(BaseModel):
    memories: list[int]


def invalid() -> Exception:
    try:
        Strict.model_validate({"memories": "Zoe arrives on Friday, Vegetarierin, diagnosis lupus"})
    except ValidationError as error:
        return error
    raise AssertionError


def chained(outer: Exception, inner: Exception) -> Exception:
    try:
        raise outer from inner
    except Exception as error:
        return error


QUOTING: list[Exception] = [
    invalid(),
    ValueError("could not convert string to float: 'Vegetarierin'"),
    KeyError("Vegetarierin"),
    RuntimeError("cannot read the answer: {'fact': 'Zoe arrives on Friday'}"),
    RuntimeError("Vegetarierin"),
    ModelError("the answer 'Zoe arrives on Friday' does not fit"),
    ModelError("Vegetarierin"),  # a word of the answer alone, which nobody said
    OSError("Vegetarierin"),
    chained(ModelError("pydantic says: input_value='Vegetarierin'"), invalid()),
    chained(RuntimeError("Vegetarierin"), json.JSONDecodeError("x", "Vegetarierin", 0)),
    UnicodeDecodeError("utf-8", b"Vegetarierin", 0, 1, "diagnosis"),
    ExceptionGroup("Vegetarierin", [invalid(), ValueError("diagnosis")]),
]


@pytest.mark.parametrize("error", QUOTING, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("embeds", [False, True])
async def test_a_models_failure_puts_no_content_into_logs_or_jobs(
    error: Exception, embeds: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("kagent_memory.ingestion.worker.MAX_FAILURES", 2)
    clock, llm = Clock(), Replying(error)
    options = {"llm": llm, "embedding": HashEmbedder() if embeds else None, "clock": clock}
    with caplog.at_level(logging.DEBUG):
        async with opened("libsql:///:memory:", worker=False, **options) as memories:
            await memories.remember(SCOPE, TALK, "s1")
            await worked_off(memories, clock, 3)
            (dead,) = await memories.jobs(state="dead")
            assert type(error).__name__ in dead.error
            await memories.drain(0.1)
            found = [await doctor.of_queue(memories.jobs, clock())]
    for needle in NEEDLES:
        assert needle not in caplog.text
        assert needle not in dead.error
        assert needle not in str(found)


class Quoting:
    """A summary provider of somebody else's that fails with what it heard or was told."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def facts(self, transcript: Any) -> list[Fact]:
        raise self.error


@pytest.mark.parametrize("error", QUOTING, ids=lambda error: type(error).__name__)
async def test_a_summary_providers_failure_puts_no_content_into_logs_or_jobs(
    error: Exception, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.DEBUG):
        async with opened("libsql:///:memory:", summary=Quoting(error), worker=False, llm=False) as memories:
            await memories.remember(SCOPE, TALK, "s1")
            await memories.work(until_idle=True)
            (job,) = await memories.jobs()
    for needle in NEEDLES:
        assert needle not in caplog.text
        assert needle not in job.error


async def test_an_embedders_failure_puts_no_content_into_logs_or_answers(caplog: pytest.LogCaptureFixture):
    class Echoing(HashEmbedder):
        async def embed(self, texts: Any, *, kind: Any) -> Any:
            raise RuntimeError(f"cannot embed {texts}")

    with caplog.at_level(logging.DEBUG):
        async with opened("libsql:///:memory:", embedding=Echoing(), worker=False, llm=False) as memories:
            await memories.add(SCOPE, ["Zoe arrives on Friday with Bruno."])
            found = await memories.recall(SCOPE, "When does Zoe arrive with Bruno on Friday?")
            await memories.work(until_idle=True)
            (job,) = [job for job in await memories.jobs() if job.kind == "embed"]
    assert len(found) == 1
    for needle in NEEDLES:
        assert needle not in caplog.text + job.error + " ".join(found.degraded)


async def test_a_scripts_wrong_answer_is_told_without_what_it_says():
    llm = ScriptedLlm(['{"facts": "Zoe arrives on Friday"}'])
    with pytest.raises(ModelError) as caught:
        await LlmSummary(llm).facts(transcript_of(TALK))
    assert "Zoe" not in str(caught.value)


def transcript_of(messages: list[Message]) -> Any:
    from kagent_memory.ingestion.extraction import Transcript

    return Transcript(messages=messages, session_id="s1", now=Clock()())


# -- a summary provider with a model of its own -------------------------------------------------


@pytest.mark.parametrize("choice", [True, False, 42, "", " ", object(), ScriptedLlm, lambda prompt: "x"])
def test_a_summary_with_no_model_is_refused_when_it_is_made(choice: Any):
    with pytest.raises(ConfigurationError):
        LlmSummary(choice)


@pytest.mark.parametrize("wrap", [lambda inner: inner, CompactionAwareSummary], ids=["plain", "compaction"])
async def test_a_summary_takes_the_name_of_a_model_and_the_settings_of_its_service(
    provider: Loopback, wrap: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(ProviderModel.__init__.__kwdefaults__, "retries", 0)
    provider.plan({"delay": 60}, *['{"facts": ["Zoe arrives."]}'] * 20)
    clock, summary = Clock(), wrap(LlmSummary("openai/any"))
    options = {"model_timeout_seconds": 4.0, "clock": clock, "worker": False, "llm": False}
    async with opened("libsql:///:memory:", summary=summary, **options) as memories:
        await memories.remember(SCOPE, TALK, "s1")
        await memories.work(until_idle=True)
        (job,) = await memories.jobs()
        assert "did not answer in time" in job.error or "Timeout" in job.error
        while await memories.jobs():
            clock.pass_by(minutes=20)
            await memories.work(until_idle=True)
        assert await contents(memories) == ["Zoe arrives."]


async def test_dead_letters_are_bad_for_the_doctor(store_uri: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("kagent_memory.ingestion.worker.MAX_FAILURES", 1)
    clock = Clock()
    async with opened(store_uri, llm=Replying("no"), clock=clock, worker=False) as memories:
        await memories.remember(SCOPE, TALK, "s1")
        await memories.work(until_idle=True)
    found = {finding.part: finding for finding in await doctor.examine(store_uri, llm=False)}
    assert found["queue"].state == "bad"
    assert "1 dead letter" in found["queue"].text
    assert "kagent-memory jobs" in found["queue"].advice
