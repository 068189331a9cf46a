"""Failures of models: tell temporary ones, find their causes and describe them safely."""

from __future__ import annotations

import errno
import re
import socket
from pathlib import Path
from traceback import walk_tb
from typing import cast

from ..errors import KagentMemoryError, ModelError, ModelUnavailable

MAX_REASON_CHARS = 300
MAX_READ_CHARS = 4_000
MAX_CAUSES = 20
_STATUS = re.compile("[1-5][0-9][0-9]")
_TRANSIENT_STATUS = frozenset({408, 409, 425, 429})
# about the account or the address, not about the texts that were sent
_QUOTABLE_STATUS = frozenset({401, 402, 403, 404, 429})
_UNREACHABLE = frozenset({errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH})
# Errors of clients that are not imported here: httpx, aiohttp, openai, anthropic, botocore.
_UNREACHABLE_NAMES = frozenset(
    {
        "TransportError",
        "ClientConnectionError",
        "APIConnectionError",
        "EndpointConnectionError",
        "ConnectTimeoutError",
    }
)
_TOO_LONG = re.compile(
    r"context (length|size|window)|too (long|large)|maximum .{0,40}(length|tokens)", re.IGNORECASE
)
_NO_KEY = re.compile(
    r"(missing|no) .{0,20}(api key|credentials|key inputs)|your default credentials were not found",
    re.IGNORECASE,
)


def transient(error: BaseException) -> bool:
    """Return True if the same call may succeed later: after time-outs, lost or refused connections,
    and the statuses 408, 409, 425, 429 and 5xx.

    The causes of an error count too. Of our own errors only ModelUnavailable is temporary, or a
    ModelError with such a cause. A 5xx about the length of the input (llama.cpp, older Ollama) is
    permanent.
    """
    if isinstance(error, KagentMemoryError) and not isinstance(error, ModelError):
        return False
    for cause in causes(error):
        if isinstance(cause, (ModelUnavailable, TimeoutError, ConnectionError, socket.gaierror)):
            return True
        if isinstance(cause, OSError) and cause.errno in _UNREACHABLE:
            return True
        status = status_of(cause)
        if status is None:
            is_transient = any(kind.__name__ in _UNREACHABLE_NAMES for kind in type(cause).__mro__)
        elif status >= 500:
            is_transient = not _TOO_LONG.search(str(cause)[:MAX_READ_CHARS])
        else:
            is_transient = status in _TRANSIENT_STATUS
        if is_transient:
            return True
    return False


def causes(error: BaseException) -> list[BaseException]:
    """Return the error and its causes, newest first, with all members of groups."""
    chain: list[BaseException] = []
    queue: list[BaseException | None] = [error]
    while queue and len(chain) < MAX_CAUSES:
        cause = queue.pop(0)
        if cause is None or cause in chain:
            continue
        chain.append(cause)
        queue.append(cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__))
        if isinstance(cause, BaseExceptionGroup):
            queue += cast("tuple[BaseException, ...]", cause.exceptions)
    return chain


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of a provider's error, if it has one."""
    response = getattr(error, "response", None)
    sources = (error, "status_code"), (error, "code"), (error, "status"), (response, "status_code")
    for holder, name in sources:
        status = getattr(holder, name, None)
        if isinstance(status, (int, str)) and _STATUS.fullmatch(str(status)):
            return int(status)
    return None


def failure(error: Exception, label: str, *, quotes: bool = True) -> KagentMemoryError:
    """Return our error for a failed call, with a message of one short line without secrets.

    Args:
        error: the error of the model's client.
        label: the name of the model, which begins the message.
        quotes: True to quote the provider's message where it is about the account or the address.
    """
    from ..redaction import redact

    if isinstance(error, TimeoutError):
        return ModelUnavailable(f"{label} did not answer in time.")
    status, chain = status_of(error), causes(error)
    if quotes and (
        status in _QUOTABLE_STATUS or any(isinstance(cause, OSError) for cause in chain)
    ):
        reason = " ".join(redact(str(error)[:MAX_READ_CHARS]).split())[:MAX_REASON_CHARS]
    elif status_of(chain[-1]) is None and _NO_KEY.match(str(chain[-1])):  # nothing was sent
        reason = "no API key or credentials are set"
    else:
        reason = f"HTTP {status}" if status else ""
    ours = ModelUnavailable if transient(error) else ModelError
    kind = type(error) if isinstance(error, KagentMemoryError) else ours
    return kind(f"{label} failed ({kinds(error)})" + (f": {reason}" if reason else "."))


def raised_here(error: Exception) -> bool:
    """Return True if our own code raised the error: the message of any other may quote a model's
    answer.
    """
    modules = [frame.f_globals.get("__name__") for frame, _ in walk_tb(error.__traceback__)]
    return bool(modules) and str(modules[-1]).startswith(f"{__name__.partition('.')[0]}.")


def kinds(error: BaseException) -> str:
    """Describe an error by the types of its causes and the place of the first, without messages."""
    chain = causes(error)
    place = ""
    for frame, line in walk_tb(chain[-1].__traceback__):
        place = f" at {Path(frame.f_code.co_filename).name}:{line}"
    return " from ".join(type(cause).__name__ for cause in chain[:5]) + place
