"""kagent's memory service over gRPC, beside HTTP: the same rules, the same callers, bounded in the
same way.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import unquote

import grpc
import grpc.aio
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import SERVICE_NAME as HEALTH_NAME
from grpc_health.v1.health import aio as health
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc
from starlette.datastructures import Headers

from ..concurrency import run_in_thread
from ..errors import ConfigurationError, InvalidInput, KagentMemoryError, NotFound
from ..memories import Memories
from . import kagent_verbs
from .admission import Admission, TooOften
from .auth import LOCAL, Access, Caller, bearer, check_binding, is_loopback
from .error_responses import printable
from .grpc_contract import SERVICE, methods, pool
from .kagent_wire import (
    DIMENSIONS,
    Refused,
    Search,
    StoredItem,
    batch_of,
    check_count,
    found,
    item_of,
    listed,
    search_of,
    wrong_width,
)
from .rate_limit import LONG_BODY, FairShare, TooManyRequests

logger = logging.getLogger(__name__)
MAX_CALLS_PER_CALLER = 64  # that are open
CALLS_AT_ONCE = 64  # that are worked on, of all callers
MAX_STREAMS = 128  # calls that are open on one connection, of whatever service
MAX_CONNECTIONS = 1_000
HANDSHAKE_SECONDS = 15.0  # for a connection to say that it speaks gRPC
IDLE_SECONDS = 300.0  # of a connection without a call; a client connects again by itself
MAX_AGE_SECONDS = 3600.0  # of a connection; its open calls have five minutes more
AGE_GRACE_SECONDS = 300.0
SHUTDOWN_SECONDS = 5.0
MAX_METADATA_BYTES = 1024 * 1024
MAX_LISTED_BYTES = 64 * 1024 * 1024
NO_TOKEN = "Send the metadata `authorization: Bearer <token>`."  # noqa: S105 an advice
NOT_FROM_HERE = (
    "Without auth this server answers its own machine only; start it with --auth or "
    "--trusted-proxy."
)
Fields: TypeAlias = dict[str, Any]
Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"


class _Refusal(Exception):
    """A call that is refused, with the status that says why."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class _Call:
    """One authenticated call."""

    memories: Memories
    caller: Caller
    max_bytes: int

    async def add(self, item: StoredItem) -> Fields:
        ids = await kagent_verbs.store(self.memories, self.caller, [item], max_bytes=self.max_bytes)
        return {"id": ids[0]}

    async def add_batch(self, items: Sequence[StoredItem]) -> Fields:
        await kagent_verbs.store(self.memories, self.caller, items, max_bytes=self.max_bytes)
        return {"count": len(items)}

    async def search(self, question: Search) -> Fields:
        hits = await kagent_verbs.search(self.memories, self.caller, question)
        rows = [found(memory, cosine) for memory, cosine in hits]
        # HTTP gives back any JSON as metadata, a Struct is an object
        return {
            "memories": [
                row if isinstance(row["metadata"], dict) else {**row, "metadata": {}}
                for row in rows
            ]
        }

    async def list(self, asked: Fields) -> Fields:
        rows: list[Fields] = []
        size = 0
        scopes = kagent_verbs.named(
            self.memories, self.caller, asked.get("agent_name"), asked.get("user_id")
        )
        for memory in await kagent_verbs.listed(self.memories, scopes):
            size += len(memory.content.encode()) + 100
            if size > MAX_LISTED_BYTES:
                raise _Refusal(
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                    f"The memories are longer than {MAX_LISTED_BYTES} bytes in all; list them "
                    "over HTTP.",
                )
            rows.append(listed(memory))
        return {"memories": rows}

    async def delete(self, asked: Fields) -> Fields:
        for scope in kagent_verbs.named(
            self.memories, self.caller, asked.get("agent_name"), asked.get("user_id")
        ):
            await self.memories.forget(scope, everything=True, who="kagent")
        return {"status": "deleted"}


@dataclass(frozen=True, slots=True)
class _Verb:
    """One method of the contract.

    Attributes:
        read: turns a message's fields into the request, off the event loop.
        answer: does it.
        failed: what is said when it fails.
    """

    read: Callable[[Fields], Any]
    answer: Callable[[_Call, Any], Awaitable[Fields]]
    failed: str


_VERBS: Mapping[str, _Verb] = {
    "AddSession": _Verb(
        lambda asked: item_of(asked.get("memory", {})), _Call.add, "failed to save memory"
    ),
    "AddSessionBatch": _Verb(
        lambda asked: batch_of(asked.get("items", [])),
        _Call.add_batch,
        "failed to save memory batch",
    ),
    "Search": _Verb(search_of, _Call.search, "search failed"),
    "List": _Verb(lambda asked: asked, _Call.list, "failed to list memories"),
    "Delete": _Verb(lambda asked: asked, _Call.delete, "failed to delete memory"),
}


class _Service:
    """Answers the methods. A message is read only when its caller is known, hence as a stream of
    one.
    """

    def __init__(self, memories: Memories, access: Access, admission: Admission) -> None:
        self._memories, self._access, self._admission = memories, access, admission
        self._share = FairShare(per_caller=MAX_CALLS_PER_CALLER, at_once=CALLS_AT_ONCE)

    async def answer(self, method: str, requests: AsyncIterator[bytes], context: Context) -> bytes:
        """Answer one call."""
        verb = _VERBS[method]
        takes, gives = methods()[method]
        try:
            caller = await self._caller(context)
            # without auth, whoever calls is told apart by their connection
            who: Caller | str = context.peer() if caller is LOCAL else caller
            with self._share.open(who):
                raw = await _only(requests)
                is_long = method == "Search" and len(raw) > LONG_BODY
                async with self._share.turn(who, is_long=is_long):
                    asked = await run_in_thread(len(raw), _read, takes, raw, verb.read)
                    call = _Call(self._memories, caller, self._access.max_body_bytes)
                    answer = await verb.answer(call, asked)
                    size = sum(len(row["content"]) + 100 for row in answer.get("memories", ()))
                    return await run_in_thread(size, _written, gives, answer)
        except Exception as error:
            code, text = _status(error, verb.failed)
            await context.abort(code, printable(text))
            raise AssertionError("abort raises") from error

    async def _caller(self, context: Context) -> Caller:
        access, address = self._access, _address(context)
        if not (access.required or access.trusted_proxy) and not is_loopback(address):
            raise _Refusal(grpc.StatusCode.PERMISSION_DENIED, NOT_FROM_HERE)
        pairs = [
            (str(key).encode(), value if isinstance(value, bytes) else value.encode())
            for key, value in context.invocation_metadata() or ()
        ]
        headers = Headers(raw=pairs)
        caller = await self._admission.caller(headers, bearer(headers, {}), address)
        if caller is None:
            raise _Refusal(grpc.StatusCode.UNAUTHENTICATED, NO_TOKEN)
        return caller


def _status(error: Exception, failed: str) -> tuple[grpc.StatusCode, str]:
    """Return the status of a call that failed, and what it says; `failed`: of which method."""
    match error:
        case _Refusal():
            return error.code, str(error)
        case Refused() | InvalidInput():
            return grpc.StatusCode.INVALID_ARGUMENT, str(error)
        case NotFound():
            return grpc.StatusCode.NOT_FOUND, str(error)
        case TooOften():
            return grpc.StatusCode.RESOURCE_EXHAUSTED, str(error)
        case TooManyRequests():
            return grpc.StatusCode.RESOURCE_EXHAUSTED, error.detail
        case KagentMemoryError():
            return grpc.StatusCode.INTERNAL, f"{failed}: {error}"
        case _:
            # where it broke, without the error's own words: those may quote what somebody wrote
            frames = "".join(traceback.format_tb(error.__traceback__))
            logger.error("%s after a call was let in:\n%s", type(error).__name__, frames)
            return grpc.StatusCode.INTERNAL, failed


def _address(context: Context) -> str:
    """The other end's address of "ipv4:127.0.0.1:5000" or "ipv6:%5B::1%5D:5000"."""
    kind, _, rest = unquote(context.peer()).partition(":")
    return rest.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else "unknown"


async def _only(requests: AsyncIterator[bytes]) -> bytes:
    """Return the message of a call, however late it comes: a caller waits in their own share
    alone.
    """
    async for message in requests:
        return message
    raise Refused("The call has no message.")


def _read(takes: type[Message], raw: bytes, read: Callable[[Fields], Any]) -> Any:
    try:
        fields = _fields(takes.FromString(raw))
    except (DecodeError, ValueError, RecursionError) as error:
        # a Struct may hold infinity, which JSON cannot
        raise Refused("Invalid request message") from error
    return read(fields)


def _fields(message: Message) -> Fields:
    """Return the given fields under the contract's names."""
    fields: Fields = {}
    for field, value in message.ListFields():
        match field.name:
            case "memory":
                fields["memory"] = _fields(value)
            case "items":
                check_count(len(value))
                fields["items"] = [_fields(one) for one in value]
            case "vector" if len(value) > DIMENSIONS:
                raise Refused(wrong_width(len(value)))
            case "vector":
                fields["vector"] = list(value)
            case "metadata" if value.ByteSize() > MAX_METADATA_BYTES:
                raise Refused(f"metadata is longer than {MAX_METADATA_BYTES} bytes")
            case "metadata":
                fields["metadata"] = MessageToDict(value)
            case name:
                fields[name] = value
    return fields


def _written(gives: type[Message], answer: Fields) -> bytes:
    return ParseDict(answer, gives()).SerializeToString()


@asynccontextmanager
async def serving(
    memories: Memories, access: Access, admission: Admission, *, host: str, port: int
) -> AsyncGenerator[int]:
    """Serve until the block is left, and then let open calls finish; yield the port.

    Raises:
        ConfigurationError: the address cannot be bound, or calls from other machines would need no
            auth.
    """
    check_binding(host, access)
    options = (
        ("grpc.max_receive_message_length", access.max_body_bytes),
        ("grpc.max_send_message_length", MAX_LISTED_BYTES + MAX_LISTED_BYTES // 8),
        ("grpc.max_metadata_size", 65_536),
        ("grpc.so_reuseport", 0),
        ("grpc.server_handshake_timeout_ms", int(HANDSHAKE_SECONDS * 1000)),
        ("grpc.max_concurrent_streams", MAX_STREAMS),
        ("grpc.max_connection_idle_ms", int(IDLE_SECONDS * 1000)),
        ("grpc.max_connection_age_ms", int(MAX_AGE_SECONDS * 1000)),
        ("grpc.max_connection_age_grace_ms", int(AGE_GRACE_SECONDS * 1000)),
        ("grpc.max_allowed_incoming_connections", MAX_CONNECTIONS),
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
    )
    # no `maximum_concurrent_rpcs`: beyond it grpcio refuses health checks too
    server = grpc.aio.server(options=options)
    service = _Service(memories, access, admission)
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        name: grpc.stream_unary_rpc_method_handler(partial(service.answer, name))
        for name in methods()
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    healthy = health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
    for name in ("", SERVICE):
        await healthy.set(name, health_pb2.HealthCheckResponse.SERVING)
    names = (SERVICE, HEALTH_NAME, reflection.SERVICE_NAME)
    reflected = reflection.aio.ReflectionServicer(names, pool())
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(reflected, server)
    named = f"[{host}]" if ":" in host else host
    try:
        bound = server.add_insecure_port(f"{named}:{port}")
    except RuntimeError as error:
        raise ConfigurationError(
            f"{named}:{port} cannot be bound for gRPC; choose another --grpc-port."
        ) from error
    await server.start()
    try:
        yield bound
    finally:
        await healthy.enter_graceful_shutdown()
        await server.stop(SHUTDOWN_SECONDS)
