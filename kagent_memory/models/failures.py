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
_TELLING_STATUS = frozenset({401, 402, 403, 404, 429})
_AWAY = frozenset({errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH})
# Errors of clients that are not imported here: httpx, aiohttp, openai, anthropic, botocore.
_AWAY_NAMES = frozenset(
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


def transient(error: BaseException) -> bool:
    """Return True if the same call may succeed later: after time-outs, lost or refused connections,
    and the statuses 408, 409, 425, 429 and 5xx.

    The causes of an error count too; of our own errors only a temporary one, or the causes of a
    model's error. A 5xx about the length of the input (llama.cpp, older Ollama) is permanent.
    """
    if isinstance(error, KagentMemoryError) and not isinstance(error, ModelError):
        return False
    for cause in causes(error):
        if isinstance(cause, (ModelUnavailable, TimeoutError, ConnectionError, socket.gaierror)):
            return True
        if isinstance(cause, OSError) and cause.errno in _AWAY:
            return True
        status = status_of(cause)
        if status is None:
            is_away = any(kind.__name__ in _AWAY_NAMES for kind in type(cause).__mro__)
        elif status >= 500:
            is_away = not _TOO_LONG.search(str(cause)[:MAX_READ_CHARS])
        else:
            is_away = status in _TRANSIENT_STATUS
        if is_away:
            return True
    return False


def causes(error: BaseException) -> list[BaseException]:
    """Return the error and its causes, newest first, with all members of groups."""
    chain: list[BaseException] = []
    pending: list[BaseException | None] = [error]
    while pending and len(chain) < MAX_CAUSES:
        cause = pending.pop(0)
        if cause is None or cause in chain:
            continue
        chain.append(cause)
        pending.append(
            cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
        )
        if isinstance(cause, BaseExceptionGroup):
            pending += cast("tuple[BaseException, ...]", cause.exceptions)
    return chain


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of a provider's error, if it has one."""
    response = getattr(error, "response", None)
    places = ((error, "status_code"), (error, "code"), (error, "status"), (response, "status_code"))
    for holder, name in places:
        status = getattr(holder, name, None)
        if isinstance(status, (int, str)) and _STATUS.fullmatch(str(status)):
            return int(status)
    return None


def failure(error: Exception, what: str, *, tells: bool = True) -> KagentMemoryError:
    """Return our error for a failed call, with a message of one short line without secrets."""
    from ..redaction import redact

    if isinstance(error, TimeoutError):
        return ModelUnavailable(f"{what} did not answer in time.")
    text, status = str(error)[:MAX_READ_CHARS], status_of(error)
    speaks = tells and (
        status in _TELLING_STATUS or any(isinstance(cause, OSError) for cause in causes(error))
    )
    reason = (
        " ".join(redact(text).split())[:MAX_REASON_CHARS]
        if speaks
        else f"HTTP {status}"
        if status
        else ""
    )
    away = ModelUnavailable if transient(error) else ModelError
    kind = type(error) if isinstance(error, KagentMemoryError) else away
    return kind(f"{what} failed ({kinds(error)})" + (f": {reason}" if reason else "."))


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
