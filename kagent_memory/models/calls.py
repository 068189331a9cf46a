"""One call to a model: LiteLLM's import, time-outs, retries of what may pass, and failures with a name."""

from __future__ import annotations

import asyncio
import errno
import inspect
import logging
import os
import re
import socket
import sys
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_exponential_jitter

from ..errors import ConfigurationError, KagentMemoryError, ModelError, ModelUnavailable

MAX_PAUSE_SECONDS = 8.0
MAX_RETRIES = 2  # after a failure that may pass
BACKOFF = wait_exponential_jitter(initial=0.25, max=MAX_PAUSE_SECONDS, jitter=0.25)
MAX_REASON_CHARS = 300
MAX_READ_CHARS = 4_000
MOST_CAUSES = 20
LONG_CHARS = 65_536  # comparing more than this takes long enough to be felt by others on the loop
_STATUS = re.compile("[1-5][0-9][0-9]")
_TRANSIENT_STATUS = frozenset({408, 409, 425, 429})
_ECHOING_STATUS = frozenset({400, 413, 422})  # such answers may quote the request, or what the model made of it
_AWAY = frozenset(
    {errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ETIMEDOUT, errno.EPIPE}
)
# Of clients that are not imported here: httpx, aiohttp, openai, anthropic, botocore.
_AWAY_NAMES = frozenset(
    {"TransportError", "ClientConnectionError", "APIConnectionError", "EndpointConnectionError", "ConnectTimeoutError"}
)
_WORD = re.compile(r"\w+")
_QUOTING = re.compile(
    r"Traceback \(most recent call last\)|original[_ ]response|received_args|raw[_ ]response|failed_generation",
    re.IGNORECASE,
)
_GEMINI = re.compile(r"^(gemini-|gemma-|text-embedding-004$|embedding-001$)")
_VERTEX = re.compile(r"^(text-embedding-005$|text-multilingual-embedding-|textembedding-gecko)")
_OPENAI = re.compile(r"^text-embedding-(3-|ada-)")

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")
_LOGGING_WORKER = "litellm.litellm_core_utils.logging_worker"
_calling: ContextVar[bool] = ContextVar("kagent_memory_calling", default=False)
_logging: set[asyncio.Task[Any]] = set()


class _Zero(int):
    """0 that counts as true: LiteLLM's `max_retries or 2` takes a plain 0 for "not given"."""

    def __bool__(self) -> bool:
        return True


NO_LITELLM = (
    'is reached through LiteLLM, which needs an extra: pip install "kagent-memory[litellm]". Without it there are '
    "gemini/, openai/ (any server that speaks OpenAI's interface), ollama/ and hosted_vllm/."
)
NO_RETRIES: Mapping[str, int] = {"num_retries": 0, "max_retries": _Zero()}  # LiteLLM's own, which would multiply ours


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long a model is waited for; a call takes at most (retries + 1) × (timeout + 8) seconds.

    Attributes:
        timeout_seconds: of one attempt.
        retries: further attempts after a failure that may pass.
    """

    timeout_seconds: float
    retries: int = 0


def has_litellm() -> bool:
    """Whether LiteLLM is installed; it is not imported."""
    return find_spec("litellm") is not None


async def litellm() -> ModuleType:
    """LiteLLM, imported in a thread: it takes seconds, and reaches for the network unless told not to."""
    return await asyncio.to_thread(_litellm)


def _litellm() -> ModuleType:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm as module

    module.suppress_debug_info = True  # else it prints advice to standard output
    log_where_it_runs()
    return module


def log_where_it_runs() -> None:
    """Keeps LiteLLM's logging worker off the loops that our calls run on; without LiteLLM it does nothing.

    The worker serves one loop and breaks when it is called from a second. It stays with the agents' loop: what a call
    of ours has to log (costs, a user's callbacks) is logged by a task of its own.
    """
    module = sys.modules.get(_LOGGING_WORKER)
    worker: Any = getattr(module, "GLOBAL_LOGGING_WORKER", None)
    enqueue = getattr(worker, "ensure_initialized_and_enqueue", None)
    if enqueue is None or getattr(enqueue, "kagent_memory", False):
        return

    def routed(async_coroutine: Coroutine[Any, Any, Any], *args: Any, **more: Any) -> None:
        if not _calling.get():
            enqueue(async_coroutine, *args, **more)
            return
        task = asyncio.create_task(async_coroutine)
        _logging.add(task)
        task.add_done_callback(_logged)

    routed.kagent_memory = True  # pyright: ignore[reportFunctionMemberAccess]
    worker.ensure_initialized_and_enqueue = routed


def _logged(task: asyncio.Task[Any]) -> None:
    _logging.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.debug("LiteLLM could not log a call: %s", type(error).__name__)


def qualified(model: str, environ: Mapping[str, str]) -> str:
    """A model name with LiteLLM's provider prefix; a name that has a "/" is left alone.

    Bare Gemini names go to the Gemini API, or to Vertex AI where GOOGLE_GENAI_USE_VERTEXAI asks for it, as ADK does.
    """
    name = model.strip()
    if not name:
        raise ConfigurationError("A model name is empty; pass one such as gemini/gemini-2.5-flash.")
    if "/" in name:
        return name
    if _GEMINI.match(name):
        vertex = environ.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in ("1", "true")
        return f"vertex_ai/{name}" if vertex else f"gemini/{name}"
    if _VERTEX.match(name):
        return f"vertex_ai/{name}"
    return f"openai/{name}" if _OPENAI.match(name) else name


def transient(error: BaseException) -> bool:
    """Whether the same call may succeed later: time-outs, lost or refused connections, 408, 409, 425, 429 and 5xx.

    What an error came from counts too; of our own errors only what says so itself, or what a model's came from.
    """
    if isinstance(error, KagentMemoryError) and not isinstance(error, ModelError):
        return False
    for one in causes(error):
        if isinstance(one, (ModelUnavailable, TimeoutError, ConnectionError, socket.gaierror)):
            return True
        if isinstance(one, OSError) and one.errno in _AWAY:
            return True
        status = status_of(one)
        named = any(kind.__name__ in _AWAY_NAMES for kind in type(one).__mro__)
        if named if status is None else status in _TRANSIENT_STATUS or status >= 500:
            return True
    return False


def causes(error: BaseException) -> list[BaseException]:
    """The error and what it came from, newest first; of a group every member."""
    chain: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting and len(chain) < MOST_CAUSES:
        one = waiting.pop(0)
        if one is None or one in chain:
            continue
        chain.append(one)
        waiting.append(one.__cause__ or (None if one.__suppress_context__ else one.__context__))
        if isinstance(one, BaseExceptionGroup):
            waiting += cast("tuple[BaseException, ...]", one.exceptions)
    return chain


def status_of(error: BaseException) -> int | None:
    """The HTTP status that an error of a provider carries, if any."""
    response = getattr(error, "response", None)
    places = ((error, "status_code"), (error, "code"), (error, "status"), (response, "status_code"))
    for holder, name in places:
        status = getattr(holder, name, None)
        if isinstance(status, (int, str)) and _STATUS.fullmatch(str(status)):
            return int(status)
    return None


def retry_after(error: BaseException) -> float:
    """The seconds that a provider asked to be left alone for (RFC 9110 §10.2.3, in its numeric form); 0 without."""
    headers = getattr(error, "litellm_response_headers", None) or getattr(
        getattr(error, "response", None), "headers", None
    )
    wished = str(headers.get("retry-after", "")) if isinstance(headers, Mapping) else ""  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] LiteLLM's untyped headers
    return float(wished) if wished.isdigit() else 0.0


async def with_retries(call: Callable[[], Awaitable[Answer]], policy: RetryPolicy) -> Answer:
    """Return the answer of `call`, retrying transient failures.

    Raises:
        Exception: the last failure, as it came.
    """
    if not policy.retries:
        return await _attempt(call, policy.timeout_seconds)
    retrying = AsyncRetrying(
        retry=retry_if_exception(_may_pass), stop=stop_after_attempt(policy.retries + 1), wait=_pause, reraise=True
    )
    return await retrying(_attempt, call, policy.timeout_seconds)


async def _attempt(call: Callable[[], Awaitable[Answer]], timeout_seconds: float) -> Answer:
    log_where_it_runs()
    token = _calling.set(True)
    try:
        async with asyncio.timeout(timeout_seconds):
            return await call()
    finally:
        _calling.reset(token)


def _may_pass(error: BaseException) -> bool:
    """Return True for failures worth a retry; our own errors are final."""
    return isinstance(error, Exception) and not isinstance(error, KagentMemoryError) and transient(error)


def _pause(state: RetryCallState) -> float:
    """Return the seconds before the next attempt: what the provider asked for, within bounds."""
    error = state.outcome.exception() if state.outcome else None
    wished = retry_after(error) if error else 0.0
    return min(MAX_PAUSE_SECONDS, max(BACKOFF(state), wished))


async def named(call: Awaitable[Answer], what: str, *sent: str) -> Answer:
    """The answer of `call`; every failure that is not ours already becomes a ModelError that names the model.

    Raises:
        ModelUnavailable: the model is away for now.
        ModelError: the model refused, or failed.
        ConfigurationError: LiteLLM does not know the model's provider.
    """
    try:
        return await call
    except KagentMemoryError:
        raise
    except Exception as error:
        if sum(map(len, sent)) <= LONG_CHARS:
            raise failure(error, what, *sent) from error
        raise await asyncio.to_thread(failure, error, what, *sent) from error


def failure(error: Exception, what: str, *sent: str) -> KagentMemoryError:
    """Our error for a failed call: who must act, and the reason on one short line, without secrets: it is logged.

    Without content, too: a reason that may quote what was `sent`, or what a model answered, is left out.
    """
    from ..redaction import redact

    if isinstance(error, TimeoutError):
        return ModelUnavailable(f"{what} did not answer in time.")
    text = str(error)[:MAX_READ_CHARS]
    if "LLM Provider NOT provided" in text or "Unsupported provider" in text:
        return ConfigurationError(
            f"{what} has no known provider; write it as <provider>/<model>, for example openai/text-embedding-3-small."
        )
    reason = " ".join(_QUOTING.split(redact(text), maxsplit=1)[0].split())[:MAX_REASON_CHARS]
    echoes = shares_words if status_of(error) in _ECHOING_STATUS else quotes
    if bears_data(error) or echoes(reason, sent):
        reason = ""
    kind = ModelUnavailable if transient(error) else ModelError
    return kind(f"{what} failed ({type(error).__name__})" + (f": {reason}" if reason else "."))


async def named_object(call: Awaitable[Answer], what: str, *sent: str, answers: bool = False) -> Answer:
    """As `named`, for an object that a user made.

    Args:
        call: to the object.
        what: names it.
        sent: what it was given.
        answers: it answers in words, which its failures may quote: only their kinds and place are told.

    Raises:
        ModelUnavailable: the model is away for now.
        ModelError: the object failed.
        KagentMemoryError: the object raised one of ours; its words are kept where they quote nothing.
    """
    try:
        return await call
    except Exception as error:
        if sum(map(len, sent)) <= LONG_CHARS:
            told = told_of_object(error, what, *sent, answers=answers)
        else:
            told = await asyncio.to_thread(told_of_object, error, what, *sent, answers=answers)
        if told is error:
            raise
        raise told from error


def told_of_object(error: Exception, what: str, *sent: str, answers: bool = True) -> KagentMemoryError:
    """Our error for a failure of a user's object; see `named_object`."""
    if isinstance(error, KagentMemoryError) and (raised_here(error) or (not answers and plain(error, *sent))):
        away = type(error) is ModelError and transient(error)
        return ModelUnavailable(str(error)) if away else error
    if isinstance(error, TimeoutError):
        return ModelUnavailable(f"{what} did not answer in time.")
    if not answers and plain(error, *sent):
        return failure(error, what, *sent)
    ours = isinstance(error, KagentMemoryError)
    kind = type(error) if ours else ModelUnavailable if transient(error) else ModelError
    return kind(f"{what} failed ({kinds(error)}).")


def plain(error: Exception, *sent: str) -> bool:
    """Whether what an error says may be told: it is ours and was raised here, or quotes nothing that was sent."""
    if isinstance(error, KagentMemoryError) and raised_here(error):
        return True
    return not bears_data(error) and not shares_words(str(error), sent)


def raised_here(error: Exception) -> bool:
    """Whether an error's words are ours, which quote nothing; another's may say what a model answered."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__")).startswith(
        f"{__name__.partition('.')[0]}."
    )


def kinds(error: BaseException) -> str:
    """What kinds of errors led to this one, and where the first was raised; nothing that they say."""
    chain = causes(error)
    frames = traceback.extract_tb(chain[-1].__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return " from ".join(type(one).__name__ for one in chain[:5]) + place


def bears_data(error: BaseException) -> bool:
    """Whether an error came of reading data, which such errors quote: of pydantic, JSON, Unicode, or a missing key."""
    return any(
        isinstance(one, (LookupError, UnicodeError)) or type(one).__name__ in ("ValidationError", "JSONDecodeError")
        for one in causes(error)
        if not isinstance(one, KagentMemoryError)
    )


def quotes(text: str, sent: Iterable[str]) -> bool:
    """Whether a text shares three words in a row with what was sent."""
    words = _WORD.findall(text.casefold())
    runs = [f" {' '.join(words[at : at + 3])} " for at in range(len(words) - 2)]
    wholes = (f" {' '.join(_WORD.findall(one.casefold()))} " for one in sent)
    return any(run in whole for whole in wholes for run in runs)


def shares_words(text: str, sent: Iterable[str]) -> bool:
    """Whether a text shares a telling word with what was sent: one of five letters, or with three digits.

    In scripts that write no spaces, three characters in a row tell as much.
    """
    words = _WORD.findall(text.casefold())
    telling = {word for word in words if len(word) >= 5 or sum(map(str.isdigit, word)) >= 3}
    runs = {word[at : at + 3] for word in words if not word.isascii() for at in range(len(word) - 2)}
    return any(
        not telling.isdisjoint(_WORD.findall(whole)) or any(run in whole for run in runs)
        for whole in map(str.casefold, sent)
    )


def plainly_sync(call: Any) -> bool:
    """Whether a callable is a function written without async; of other callables only a call would tell."""
    function = inspect.unwrap(getattr(call, "__func__", call))
    return inspect.isfunction(function) and not inspect.iscoroutinefunction(function)


async def awaited(answer: Any, call: str) -> Any:
    """What a method of an object that a user gave as a model answers.

    Raises:
        ConfigurationError: the method is not async; `call` names it.
    """
    if not inspect.isawaitable(answer):
        raise ConfigurationError(f"{call} must be an async function.")
    return await answer


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
