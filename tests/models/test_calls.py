"""Calls of models: retries, time limits, and messages of failures."""

from __future__ import annotations

import pytest
from tenacity import wait_exponential_jitter

from kagent_memory.errors import ModelUnavailable
from kagent_memory.models.calls import CheckedModel
from kagent_memory.models.failures import MAX_REASON_CHARS, failure, transient
from kagent_memory.settings import MemorySettings


class Refused(Exception):
    def __init__(self, status: int | None, words: str = "") -> None:
        super().__init__(words)
        self.status_code = status


class Model(CheckedModel):
    """A model whose every call fails."""

    method, kind, max_retries = "fail", "a model", 8

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.calls = 0
        super().__init__(self, MemorySettings(), ours=True)

    @property
    def name(self) -> str:
        return "m"

    async def fail(self) -> None:
        self.calls += 1
        raise self.error


async def test_pauses_double_and_are_bounded(monkeypatch: pytest.MonkeyPatch):
    """Pauses double within their jitter, up to the longest."""
    pauses: list[float] = []
    jitter = wait_exponential_jitter(initial=0.25, max=8, jitter=0.25)
    monkeypatch.setattr("kagent_memory.models.calls.BACKOFF", jitter)

    async def note(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("asyncio.sleep", note)
    model = Model(Refused(503))
    with pytest.raises(ModelUnavailable) as caught:
        await model.call()
    assert isinstance(caught.value.__cause__, Refused)
    for pause, least in zip(pauses, (0.25, 0.5, 1, 2, 4, 8, 8, 8), strict=True):
        assert least <= pause <= min(least + 0.25, 8)


@pytest.mark.parametrize("status", [400, 413, 422, 500, None])
def test_what_a_failure_may_quote_is_not_told(status: int | None):
    """An error omits words of an answer that may repeat the request; its kind and status stay."""
    message = str(failure(Refused(status, "Ada said\nthat she lives in Oslo"), "The model m"))
    assert "Oslo" not in message
    assert message.startswith("The model m failed (Refused)")
    assert status is None or message.endswith(f": HTTP {status}")


@pytest.mark.parametrize("status", [401, 404])
def test_a_provider_s_words_about_the_account_are_told(status: int):
    """A provider's message about the account or a wrong address is shown as one short line without
    secrets; a missing key is named without quoting anything.
    """
    words = (
        "Incorrect API key:\nsk-proj-" + "a1B2" * 12 + " at https://u:pass@host/v1 " + "x" * 5000
    )
    message = str(failure(Refused(status, words), "any"))
    assert "a1B2" not in message
    assert ":pass@" not in message
    assert message.startswith("any failed (Refused): Incorrect API key: ")
    assert len(message) < MAX_REASON_CHARS + 60
    unset = ValueError("Missing Gemini API key. Ada lives in Oslo.")
    assert str(failure(unset, "any")).endswith(": no API key or credentials are set")


@pytest.mark.parametrize(
    "text",
    [
        "input is too large to process",
        "the input length exceeds the context length",
        "maximum 512 tokens",
    ],
)
def test_server_error_about_length_is_a_refusal(text: str):
    """A 500 for a text that is too long, as of llama.cpp and former Ollamas, is a refusal."""
    assert not transient(Refused(500, text))
