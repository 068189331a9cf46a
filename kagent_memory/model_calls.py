"""One call to a model: LiteLLM's door, time-outs, retries of what may pass, and failures with a name."""

from __future__ import annotations

import asyncio
import inspect
import os
import random
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

from .errors import ConfigurationError, KagentMemoryError, ModelError
from .redact import redact

FIRST_DELAY_SECONDS = 0.25
MAX_DELAY_SECONDS = 8.0
MAX_REASON_CHARS = 300
MAX_READ_CHARS = 4_000
_TRANSIENT_STATUS = frozenset({408, 409, 425, 429})
_GEMINI = re.compile(r"^(gemini-|gemma-|text-embedding-004$|embedding-001$)")
_VERTEX = re.compile(r"^(text-embedding-005$|text-multilingual-embedding-|textembedding-gecko)")
_OPENAI = re.compile(r"^text-embedding-(3-|ada-)")

Answer = TypeVar("Answer")


class _Zero(int):
    """0 that counts as true: LiteLLM's `max_retries or 2` takes a plain 0 for "not given"."""

    def __bool__(self) -> bool:
        return True


NO_RETRIES: Mapping[str, int] = {"num_retries": 0, "max_retries": _Zero()}  # LiteLLM's own, which would multiply ours


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a model is waited for; a call takes at most (retries + 1) × (timeout + 8) seconds.

    Attributes:
        timeout_seconds: of one attempt.
        retries: further attempts after a failure that may pass.
        first_delay_seconds: before the first retry; doubled for each further one, and jittered.
    """

    timeout_seconds: float
    retries: int = 0
    first_delay_seconds: float = FIRST_DELAY_SECONDS


async def litellm() -> ModuleType:
    """LiteLLM, imported in a thread: it takes seconds, and reaches for the network unless told not to."""
    return await asyncio.to_thread(_litellm)


def _litellm() -> ModuleType:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm as module

    module.suppress_debug_info = True  # else it prints advice to standard output
    return module


def qualified(model: str, environ: Mapping[str, str]) -> str:
    """A model name with LiteLLM's provider prefix; a name that has a "/" is left alone.

    Bare Gemini names go to the Gemini API, or to Vertex AI where GOOGLE_GENAI_USE_VERTEXAI asks for it, as ADK does.
    """
    name = model.strip()
    if not name:
        raise ConfigurationError("A model name is empty; give one such as gemini/gemini-2.5-flash.")
    if "/" in name:
        return name
    if _GEMINI.match(name):
        vertex = environ.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in ("1", "true")
        return f"vertex_ai/{name}" if vertex else f"gemini/{name}"
    if _VERTEX.match(name):
        return f"vertex_ai/{name}"
    return f"openai/{name}" if _OPENAI.match(name) else name


def transient(error: BaseException) -> bool:
    """Whether the same call may succeed later: time-outs, lost connections, 408, 409, 425, 429 and 5xx."""
    if isinstance(error, (TimeoutError, ConnectionError)):
        return True
    status = status_of(error)
    return status is not None and (status in _TRANSIENT_STATUS or status >= 500)


def status_of(error: BaseException) -> int | None:
    """The HTTP status that an error of a provider carries, if any."""
    status = getattr(error, "status_code", None)
    return int(status) if isinstance(status, (int, str)) and str(status).isdigit() else None


def retry_after(error: BaseException) -> float:
    """The seconds that a provider asked to be left alone for (RFC 9110 §10.2.3, in its numeric form); 0 without."""
    headers = getattr(error, "litellm_response_headers", None)
    wished = str(headers.get("retry-after", "")) if isinstance(headers, Mapping) else ""  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] LiteLLM's untyped headers
    return float(wished) if wished.isdigit() else 0.0


def delay(attempt: int, first_seconds: float, draw: float) -> float:
    """Seconds to wait after failed attempt `attempt` (from 0): doubled each time, "equal jitter" by draw in 0..1."""
    whole = min(MAX_DELAY_SECONDS, first_seconds * 2**attempt)
    return whole / 2 + whole / 2 * draw


async def patiently(call: Callable[[], Awaitable[Answer]], patience: Patience) -> Answer:
    """The answer of `call`, tried again while its failures are transient.

    Raises:
        Exception: the last failure, as it came.
    """
    attempt = 0
    while True:
        try:
            async with asyncio.timeout(patience.timeout_seconds):
                return await call()
        except Exception as error:
            if attempt >= patience.retries or isinstance(error, KagentMemoryError) or not transient(error):
                raise
            wished = retry_after(error)
        own = delay(attempt, patience.first_delay_seconds, random.random())  # noqa: S311 no secret
        await asyncio.sleep(min(MAX_DELAY_SECONDS, max(own, wished)))
        attempt += 1


async def named(call: Awaitable[Answer], what: str) -> Answer:
    """The answer of `call`; every failure that is not ours already becomes a ModelError that names the model.

    Raises:
        ModelError: the model is unavailable, or refused.
        ConfigurationError: LiteLLM does not know the model's provider.
    """
    try:
        return await call
    except KagentMemoryError:
        raise
    except Exception as error:
        raise failure(error, what) from error


def failure(error: Exception, what: str) -> KagentMemoryError:
    """Our error for a failed call: who must act, and the reason on one short line, without secrets: it is logged."""
    if isinstance(error, TimeoutError) and not str(error):
        return ModelError(f"{what} did not answer in time.")
    reason = " ".join(redact(str(error)[:MAX_READ_CHARS]).partition("Traceback (most recent call last)")[0].split())
    if "LLM Provider NOT provided" in reason or "Unsupported provider" in reason:
        return ConfigurationError(
            f"{what} has no known provider; write it as <provider>/<model>, for example openai/text-embedding-3-small."
        )
    return ModelError(f"{what} failed ({type(error).__name__}): {reason[:MAX_REASON_CHARS]}")


def plainly_sync(call: Any) -> bool:
    """Whether a callable is a function written without async; of other callables only a call would tell."""
    function = inspect.unwrap(getattr(call, "__func__", call))
    return inspect.isfunction(function) and not inspect.iscoroutinefunction(function)


def name_of(choice: Any, method: str, what: str) -> str:
    """The name of an object that a user gave as a model.

    Raises:
        ConfigurationError: it has no `method`, one that is not async, or no name.
    """
    name = getattr(choice, "name", None)
    if not callable(getattr(choice, method, None)) or isinstance(choice, type):
        raise ConfigurationError(f"{type(choice).__name__} cannot serve as {what}: it has no method {method}().")
    if plainly_sync(getattr(choice, method)):
        raise ConfigurationError(
            f"{type(choice).__name__} cannot serve as {what}: {method}() must be an async function."
        )
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"{type(choice).__name__} cannot serve as {what}: it needs a `name` (text).")
    return name
