"""Call models: import LiteLLM, find the provider of a name, apply time-outs and retries."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import re
import sys
from collections.abc import Coroutine, Mapping
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any, ClassVar

from tenacity import (
    AsyncRetrying,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential_jitter,
)

from ..errors import ConfigurationError, KagentMemoryError, needs_extra
from ..settings import MemorySettings
from .failures import failure, raised_here, transient

MAX_NAME_BYTES = 2600  # which an index of PostgreSQL takes
BACKOFF = wait_exponential_jitter(initial=0.25, max=8.0, jitter=0.25)
_BARE_NAMES = {
    "gemini": re.compile(r"gemini-|gemma-|text-embedding-004$|embedding-001$"),
    "vertex_ai": re.compile(
        r"text-embedding-005$|text-multilingual-embedding-|textembedding-gecko"
    ),
    "openai": re.compile(r"text-embedding-(3-|ada-)"),
}
"""Patterns of model names without a prefix, by provider."""
_LOGGING_WORKER = "litellm.litellm_core_utils.logging_worker"
_seconds: ContextVar[float | None] = ContextVar("kagent_memory_seconds", default=None)
"""The time-out of the model call that the code runs in; None outside of our calls."""
_logging: set[asyncio.Task[Any]] = set()

logger = logging.getLogger(__name__)


class _Zero(int):
    """A 0 that is true: LiteLLM's `max_retries or 2` takes a plain 0 for "not given"."""

    def __bool__(self) -> bool:
        return True


COMMON_PROVIDERS = frozenset(
    {"openai", "gemini", "vertex_ai", "anthropic", "azure", "azure_ai", "bedrock", "cohere", "groq"}
    | {"hosted_vllm", "huggingface", "jina_ai", "litellm_proxy", "mistral", "ollama", "voyage"}
)
"""Providers of LiteLLM that are known without importing it."""


async def litellm() -> Any:
    """Import LiteLLM in a thread, since that takes seconds, and without network access."""
    return await asyncio.to_thread(load_litellm)


async def call_litellm(function: str, model: str, **arguments: Any) -> Any:
    """Call a function of LiteLLM with its retries switched off.

    LiteLLM gets the time-out too: it calls some providers in a thread, which cancellation does not
    end.

    Raises:
        Exception: any error of LiteLLM.
    """
    module = await litellm()
    return await getattr(module, function)(
        model=model, num_retries=0, max_retries=_Zero(), timeout=_seconds.get(), **arguments
    )


def load_litellm() -> Any:
    """Import LiteLLM with its own price list, so that it asks no network."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm as module

    module.suppress_debug_info = True  # otherwise it prints advice to standard output
    route_logging()
    return module


def route_logging() -> None:
    """Keep LiteLLM's logging worker on the agents' event loop; do nothing without LiteLLM.

    The worker serves one loop at a time: LiteLLM 1.109.3, called from two, leaves a task behind at
    each change and loses log entries. So our calls log (costs, a user's callbacks) in a task of
    their own.
    """
    module = sys.modules.get(_LOGGING_WORKER)
    worker: Any = getattr(module, "GLOBAL_LOGGING_WORKER", None)
    enqueue = getattr(worker, "ensure_initialized_and_enqueue", None)
    if enqueue is None or getattr(enqueue, "kagent_memory", False):
        return

    def route(async_coroutine: Coroutine[Any, Any, Any], *args: Any, **kwargs: Any) -> None:
        if _seconds.get() is None:
            enqueue(async_coroutine, *args, **kwargs)
            return
        task = asyncio.create_task(async_coroutine)
        _logging.add(task)
        task.add_done_callback(_end_logging)

    route.kagent_memory = True  # pyright: ignore[reportFunctionMemberAccess]
    worker.ensure_initialized_and_enqueue = route


def _end_logging(task: asyncio.Task[Any]) -> None:
    _logging.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.debug("LiteLLM could not log a call: %s", type(error).__name__)


def qualified(model: str, environ: Mapping[str, str]) -> str:
    """Add LiteLLM's provider prefix to a model name that has none.

    Bare Gemini names go to the Gemini API, or to Vertex AI if GOOGLE_GENAI_USE_VERTEXAI is set, as
    in ADK.

    Raises:
        ConfigurationError: the name is empty.
    """
    name = model.strip()
    if not name:
        raise ConfigurationError("A model name is empty; pass one such as gemini/gemini-2.5-flash.")
    if "/" in name:
        return name
    provider = next((key for key, pattern in _BARE_NAMES.items() if pattern.match(name)), "")
    if provider == "gemini" and environ.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in (
        "1",
        "true",
    ):
        provider = "vertex_ai"
    return f"{provider}/{name}" if provider else name


def check_provider(name: str) -> None:
    """Check the provider of a qualified model name, offline.

    A name of an uncommon provider imports LiteLLM, which takes seconds: call this in a thread.

    Args:
        name: a result of `qualified`.

    Raises:
        ConfigurationError: LiteLLM is not installed or does not know the provider.
    """
    if find_spec("litellm") is None:
        raise needs_extra(f"The model {name} is called through LiteLLM, which", "litellm")
    provider, _, model = name.partition("/")
    if model and provider in COMMON_PROVIDERS:
        return
    module = load_litellm()
    custom = (entry["provider"] for entry in module.custom_provider_map)
    if model and provider in {*module.provider_list, *custom}:
        return  # no further lookup, which would sign in to some providers
    try:
        module.get_llm_provider(name)
    except Exception as error:  # a gap in its tables can raise anything
        raise ConfigurationError(
            f"The model name {name!r} has no known provider; write it as <provider>/<model>, for "
            "example gemini/gemini-2.5-flash or openai/text-embedding-3-small."
        ) from error


def _may_pass(error: BaseException) -> bool:
    """Return True if a retry may help; our own errors are final."""
    is_ours = isinstance(error, KagentMemoryError)
    return isinstance(error, Exception) and not is_ours and transient(error)


def has_async(inner: Any, name: str) -> bool:
    """Return True if an object has a method that is or may be async; callables other than
    functions are given the benefit of the doubt.
    """
    method: Any = getattr(inner, name, None)
    function = inspect.unwrap(getattr(method, "__func__", method))
    is_sync = inspect.isfunction(function) and not inspect.iscoroutinefunction(function)
    return callable(method) and not isinstance(inner, type) and not is_sync


class CheckedModel:
    """Call one method of a model with a time-out, and turn its failures into our errors.

    All attempts together take at most (`max_retries` + 1) × (time-out + 8) seconds.

    Args:
        inner: the model, possibly a user's object, with a `name` and the async method.
        settings: gives the time-out of one attempt.
        ours: True if the model is part of this package: its failures are retried, and its messages
            quoted.

    Raises:
        ConfigurationError: the object has no name, too long a one, or no such async method.
    """

    method: ClassVar[str]
    kind: ClassVar[str]
    max_retries: ClassVar[int] = 2

    def __init__(self, inner: Any, settings: MemorySettings, *, ours: bool = False) -> None:
        self.inner = inner
        self.settings = settings
        self._ours = ours
        problem = f"{type(inner).__name__} cannot serve as {self.kind}:"
        if not has_async(inner, self.method):
            raise ConfigurationError(f"{problem} it needs an async method {self.method}().")
        name = getattr(inner, "name", None)
        if not (isinstance(name, str) and 0 < len(name.encode(errors="replace")) <= MAX_NAME_BYTES):
            raise ConfigurationError(
                f"{problem} it needs a `name` (text of at most {MAX_NAME_BYTES:,} bytes)."
            )

    @property
    def name(self) -> str:
        """Return the name of the model."""
        return self.inner.name

    @property
    def timeout_seconds(self) -> float:
        """Return the time limit of one attempt in seconds."""
        return self.settings.model_timeout_seconds

    @property
    def label(self) -> str:
        """Return the name of the model for error messages."""
        return f"The {self.kind.rpartition(' ')[2]} {self.name}"

    async def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method and return its answer.

        A provider's message is quoted only if it is about the account or the address; any other may
        repeat the prompt or the answer.

        Raises:
            ModelUnavailable: the model is unavailable for now, or took too long.
            ModelError: the model refused or failed.
            KagentMemoryError: an error that the method itself raised.
        """

        async def attempt() -> Any:
            route_logging()
            token = _seconds.set(self.timeout_seconds)
            try:
                async with asyncio.timeout(self.timeout_seconds):
                    return await getattr(self.inner, self.method)(*args, **kwargs)
            finally:
                _seconds.reset(token)

        retrying = AsyncRetrying(
            retry=retry_if_exception(_may_pass),
            stop=stop_after_attempt(1 + self.max_retries * self._ours),
            wait=BACKOFF,
            reraise=True,
        )
        try:
            return await retrying(attempt)
        except Exception as error:
            if isinstance(error, KagentMemoryError) and (self._ours or raised_here(error)):
                raise
            raise failure(error, self.label, quotes=self._ours) from error
