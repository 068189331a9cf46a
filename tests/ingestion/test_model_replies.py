"""Models' replies through the whole queue: used, retried, or ended in a visible dead letter."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from kagent_memory import CompactionAwareSummary, LlmSummary, doctor
from kagent_memory.errors import ConfigurationError, ModelError
from kagent_memory.memories import Memories
from kagent_memory.records import Fact
from kagent_memory.testing import FrozenClock, HashEmbedder, ScriptedLlm

from .ground import SCOPE, Replying, a_message, contents, opened, raised, stated, taken_in

TALK = [
    a_message("Zoe arrives on Friday with her dog Bruno.", "e1"),
    a_message("Noted.", "e2", "agent"),
]


async def worked_off(memories: Memories, clock: FrozenClock, rounds: int = 8) -> None:
    for _ in range(rounds):
        await memories.work(until_idle=True)
        clock.advance(minutes=20)


UNREADABLE = [
    "I can't discuss [1], [2] or [3].",
    '{"memories": [{"text": "Zoe arrives on Friday."}]}',
    '{"facts": [{"text": "Zoe arrives on Friday.", "topics": ["travel", "dog"]}, {"te',
    '{"facts": [{"text": "Zoe arrives.", "type": "opinion"}]}',
]


@pytest.mark.parametrize("reply", UNREADABLE, ids=range(len(UNREADABLE)))
async def test_an_unreadable_reply_ends_as_a_dead_letter(
    reply: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """An unreadable reply is retried, and ends in a dead letter."""
    monkeypatch.setattr("kagent_memory.ingestion.worker.MAX_FAILURES", 3)
    clock, llm = FrozenClock(), Replying(reply)
    async with opened(llm=llm, clock=clock) as memories:
        await taken_in(memories, TALK)
        (job,) = await memories.jobs()
        assert (job.state, job.failures) == ("queued", 1)
        assert not await memories.drain(0)
        await worked_off(memories, clock)
        (dead,) = await memories.jobs()
        assert (dead.state, dead.attempts, dead.failures) == ("dead", 3, 3)
        assert 3 <= len(llm.prompts) < 40
        assert await contents(memories) == []
        assert await memories.drain(5) is False
        assert "dead letter" in caplog.text
        llm.reply = '{"facts": [{"text": "Zoe arrives on Friday."}]}'
        await memories.retry_job(dead.id)
        await memories.work(until_idle=True)
        assert await contents(memories) == ["Zoe arrives on Friday."]
        assert await memories.drain(60) is True
        assert (await memories.stats(SCOPE)).calls == len(llm.prompts), "failed ones cost too"


@pytest.mark.parametrize(
    ("reply", "facts"),
    [
        ("```json\n[]\n```", []),
        (
            '[{"text": "Zoe arrives.", "type": null, "topics": {"a": 1}}, "Bye", 7]',
            ["Bye", "Zoe arrives."],
        ),
        (r'{"facts": ["Zoe \ud83e arrives \u0000 late."]}', ["Zoe \ufffd arrives \ufffd late."]),
        ('{"facts": ["Zoe writes [1] and {}."]}', ["Zoe writes [1] and {}."]),
    ],
)
async def test_an_answer_is_read_however_it_is_wrapped(
    store_uri: str, reply: str, facts: list[str]
):
    """All usable facts of a model's answer are stored, in whatever wrapping, and the session is
    done.
    """
    async with opened(store_uri, llm=Replying(reply)) as memories:
        assert await taken_in(memories, TALK) == 1
        assert await contents(memories) == facts
        assert await memories.remember(SCOPE, TALK, "s1") is None


async def test_an_answer_that_is_cut_off_is_asked_for_in_parts(store_uri: str):
    """An answer that is cut off is asked for in parts until it is whole."""
    turns = [
        a_message(f"Fact: Shelf {number} holds box {number * 7}.", f"e{number}")
        for number in range(24)
    ]

    def short_of_breath(prompt: str) -> str:
        answer = stated(prompt)
        if len(answer["facts"]) > 5:
            return json.dumps(answer)[:150]
        return json.dumps(answer)

    llm = Replying(short_of_breath)
    async with opened(store_uri, llm=llm) as memories:
        assert await taken_in(memories, turns) == 1
        assert await contents(memories) == sorted(
            turn.text.removeprefix("Fact: ") for turn in turns
        )
        assert 8 <= len(llm.prompts) < 40


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


QUOTING: list[Exception] = [
    invalid(),
    KeyError("Vegetarierin"),
    RuntimeError("cannot read the answer: {'fact': 'Zoe arrives on Friday'}"),
    ModelError("Vegetarierin"),  # a word of the answer alone, which nobody said
    OSError("Vegetarierin"),
    raised(ModelError("pydantic says: input_value='Vegetarierin'"), invalid()),
    UnicodeDecodeError("utf-8", b"Vegetarierin", 0, 1, "diagnosis"),
    ExceptionGroup("Vegetarierin", [invalid(), ValueError("diagnosis")]),
]


class Quoting(Replying):
    """A foreign summary provider that fails with an error quoting its input."""

    async def facts(self, transcript: Any) -> list[Fact]:
        assert isinstance(self.reply, Exception)
        raise self.reply


@pytest.mark.parametrize("error", QUOTING, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("fails", ["model", "model beside an embedder", "provider"])
async def test_a_failure_puts_no_content_into_logs_or_jobs(
    error: Exception, fails: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """The text of a foreign model's or provider's error, which may quote content, is never kept."""
    monkeypatch.setattr("kagent_memory.ingestion.worker.MAX_FAILURES", 2)
    clock = FrozenClock()
    options: dict[str, Any] = (
        {"summary": Quoting(error), "llm": False}
        if fails == "provider"
        else {"llm": Replying(error)}
    )
    options |= {"embedding": HashEmbedder()} if fails == "model beside an embedder" else {}
    with caplog.at_level(logging.DEBUG):
        async with opened(clock=clock, **options) as memories:
            await memories.remember(SCOPE, TALK, "s1")
            await worked_off(memories, clock, 3)
            (job,) = await memories.jobs()
            assert type(error).__name__ in job.error
            await memories.drain(0.1)
            findings = await memories.check()
    for needle in NEEDLES:
        assert needle not in caplog.text + job.error + str(findings)


async def test_an_embedders_failure_puts_no_content_into_logs(caplog: pytest.LogCaptureFixture):
    """An embedder's failure puts no content into logs or answers."""

    class Echoing(HashEmbedder):
        async def embed(self, texts: Any, *, kind: Any) -> Any:
            raise RuntimeError(f"cannot embed {texts}")

    with caplog.at_level(logging.DEBUG):
        async with opened(embedding=Echoing(), llm=False) as memories:
            await memories.add(SCOPE, ["Zoe arrives on Friday with Bruno."])
            answer = await memories.recall(SCOPE, "When does Zoe arrive with Bruno on Friday?")
            await memories.work(until_idle=True)
            (job,) = [job for job in await memories.jobs() if job.kind == "embed"]
    assert len(answer) == 1
    for needle in NEEDLES:
        assert needle not in caplog.text + job.error + " ".join(answer.degraded)


# -- a summary provider with a model of its own -------------------------------------------------


@pytest.mark.parametrize(
    "choice", [True, False, 42, "", " ", object(), ScriptedLlm, lambda prompt: "x"]
)
def test_a_summary_with_no_model_is_refused_when_it_is_made(choice: Any):
    """An object that is no model is refused when the summary is made, not when it is used."""
    with pytest.raises(ConfigurationError):
        LlmSummary(choice)


async def test_a_summary_takes_the_settings_of_its_service(monkeypatch: pytest.MonkeyPatch):
    """A summary takes the name of a model and the settings of its service; LiteLLM is told the
    time-out, since it calls some providers in a thread, beyond cancellation.
    """
    timeouts: list[float] = []

    class LiteLLM:
        @staticmethod
        async def acompletion(**arguments: Any) -> Any:
            timeouts.append(arguments["timeout"])
            return {"choices": [{"message": {"content": '{"facts": ["Zoe arrives."]}'}}]}

    monkeypatch.setattr("kagent_memory.models.calls.load_litellm", lambda: LiteLLM)
    summary = CompactionAwareSummary(LlmSummary("openai/any"))
    async with opened(summary=summary, llm=False, model_timeout_seconds=7) as memories:
        await taken_in(memories, TALK)
        assert (await contents(memories), timeouts) == (["Zoe arrives."], [7])


async def test_dead_letters_are_bad_for_the_doctor(store_uri: str, monkeypatch: pytest.MonkeyPatch):
    """A dead letter makes the doctor call the queue bad, and say how to look at it."""
    monkeypatch.setattr("kagent_memory.ingestion.worker.MAX_FAILURES", 1)
    clock = FrozenClock()
    async with opened(store_uri, llm=Replying("no"), clock=clock) as memories:
        await taken_in(memories, TALK)
    findings = {finding.part: finding for finding in await doctor.examine(store_uri, llm=False)}
    assert findings["queue"].state == "bad"
    assert "1 dead letter" in findings["queue"].text
    assert "kagent-memory jobs" in findings["queue"].advice
