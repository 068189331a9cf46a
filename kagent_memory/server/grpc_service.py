"""kagent's memory service over gRPC, with the same rules, callers and limits as over HTTP.

It works on descriptors instead of generated code. They are made by `protoc --include_imports
--descriptor_set_out=kagent.binpb`; a test fails if they differ from `kagent.proto`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache, partial
from importlib.resources import files
from typing import Any, TypeAlias
from urllib.parse import unquote

import grpc
import grpc.aio
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import SERVICE_NAME as HEALTH_NAME
from grpc_health.v1.health import aio as health
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from ..errors import ConfigurationError, InvalidInput, KagentMemoryError, NotFound
from .auth import LOCAL, LONG_BODY, MAX_OPEN, Admission, Caller, check_binding
from .error_responses import log_defect, printable
from .kagent import VERBS
from .kagent_wire import DIMENSIONS, check_count, check_width

SERVICE = "kagent.api.v1alpha1.MemoryService"
MAX_STREAMS = 2 * MAX_OPEN  # open calls on one connection
MAX_CONNECTIONS = 1_000
MAX_PENDING = 4_000  # calls that wait to begin; beyond this grpcio cancels calls of any caller
HANDSHAKE_MS = 15_000  # for the handshake of a connection
IDLE_MS = 300_000  # of an idle connection; clients reconnect by themselves
MAX_AGE_MS = 3_600_000  # of a connection; its open calls get five more minutes
AGE_GRACE_MS = 300_000
SHUTDOWN_SECONDS = 5.0
MAX_METADATA_BYTES = 1024 * 1024
MAX_ANSWER_BYTES = 64 * 1024 * 1024
CODES: Mapping[int, grpc.StatusCode] = {
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
}
Fields: TypeAlias = dict[str, Any]
Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"


def descriptors() -> FileDescriptorSet:
    """Return the descriptors of the imports of the contract and, last, of the contract itself."""
    data = files("kagent_memory.server").joinpath("kagent.binpb").read_bytes()
    return FileDescriptorSet.FromString(data)


@cache
def pool() -> DescriptorPool:
    """Return a pool of these descriptors."""
    descriptor_pool = DescriptorPool()
    for file in descriptors().file:
        descriptor_pool.AddSerializedFile(file.SerializeToString())
    return descriptor_pool


@cache
def methods() -> dict[str, tuple[type[Message], type[Message]]]:
    """Return the classes of request and answer of each method, by its name."""
    service: Any = pool().FindServiceByName(SERVICE)
    return {
        method.name: (GetMessageClass(method.input_type), GetMessageClass(method.output_type))
        for method in service.methods
    }


class _Service:
    """Answer the methods.

    A request is read as a stream of one message, so that the caller is authenticated before the
    message is read.
    """

    def __init__(self, admission: Admission) -> None:
        self._memories, self._admission = admission.memories(), admission

    async def answer(self, method: str, requests: AsyncIterator[bytes], context: Context) -> bytes:
        """Answer one call."""
        verb, (request_type, answer_type) = VERBS[method], methods()[method]
        try:
            caller = await self._caller(context)
            # without authentication, one connection is one caller
            key: Caller | str = context.peer() if caller is LOCAL else caller
            with self._admission.open(key):
                raw = await _single(requests)
                is_long = method == "Search" and len(raw) > LONG_BODY
                async with self._admission.turn(key, is_long=is_long):
                    return await verb.perform(
                        self._memories,
                        caller,
                        len(raw),
                        partial(_parse, request_type, raw),
                        partial(_serialise, answer_type),
                    )
        except Exception as error:
            code, text = _status(error, verb.failed)
            await context.abort(code, printable(text))
            raise AssertionError("abort raises") from error

    async def _caller(self, context: Context) -> Caller:
        pairs = [
            (str(key).encode(), value if isinstance(value, bytes) else value.encode())
            for key, value in context.invocation_metadata() or ()
        ]
        return await self._admission.caller(Headers(raw=pairs), {}, _address(context))


def _status(error: Exception, failed: str) -> tuple[grpc.StatusCode, str]:
    """Return the status and message for a failed call; `failed` is the message of the method."""
    match error:
        case HTTPException():
            return CODES[error.status_code], error.detail
        case InvalidInput():
            return grpc.StatusCode.INVALID_ARGUMENT, str(error)
        case NotFound():
            return grpc.StatusCode.NOT_FOUND, str(error)
        case KagentMemoryError():
            return grpc.StatusCode.INTERNAL, f"{failed}: {error}"
        case _:
            log_defect(error)
            return grpc.StatusCode.INTERNAL, failed


def _address(context: Context) -> str:
    """Return the IP address in "ipv4:127.0.0.1:5000" or "ipv6:%5B::1%5D:5000"."""
    kind, _, rest = unquote(context.peer()).partition(":")
    return rest.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else "unknown"


async def _single(requests: AsyncIterator[bytes]) -> bytes:
    """Return the only message of a call; waiting for it uses the caller's own share."""
    async for message in requests:
        return message
    raise InvalidInput("The call has no message.")


def _parse(request_type: type[Message], raw: bytes) -> Fields:
    try:
        fields = _fields(request_type.FromString(raw))
    except InvalidInput:
        raise
    except (DecodeError, ValueError, RecursionError) as error:
        # a Struct may hold infinity, JSON may not
        raise InvalidInput("Invalid request message") from error
    return fields.get("memory", fields)


def _fields(message: Message) -> Fields:
    """Return the fields that are set, under the contract's names."""
    fields: Fields = {}
    for field, value in message.ListFields():
        match field.name:
            case "memory":
                fields["memory"] = _fields(value)
            case "items":
                check_count(len(value))
                fields["items"] = [_fields(item) for item in value]
            case "vector":
                if len(value) > DIMENSIONS:
                    check_width(len(value))
                fields["vector"] = list(value)
            case "metadata":
                if value.ByteSize() > MAX_METADATA_BYTES:
                    raise InvalidInput(f"metadata is longer than {MAX_METADATA_BYTES} bytes")
                fields["metadata"] = MessageToDict(value)
            case name:
                fields[name] = value
    return fields


def _serialise(answer_type: type[Message], answer: Fields) -> bytes:
    for row in answer.get("memories", ()):
        if not isinstance(row.get("metadata", {}), dict):
            row["metadata"] = {}  # over HTTP metadata may be any JSON, but a Struct is an object
    data = ParseDict(answer, answer_type()).SerializeToString()
    if len(data) > MAX_ANSWER_BYTES:
        text = f"The memories are longer than {MAX_ANSWER_BYTES} bytes in all; list them over HTTP."
        raise HTTPException(429, text)
    return data


@asynccontextmanager
async def serving(admission: Admission, *, host: str, port: int) -> AsyncGenerator[int]:
    """Serve until the block is left, then let open calls finish; yield the port.

    Raises:
        ConfigurationError: the address cannot be bound, or other machines could call without
            authentication.
    """
    check_binding(host, admission.access)
    options = (
        ("grpc.max_receive_message_length", admission.access.max_body_bytes),
        ("grpc.max_send_message_length", MAX_ANSWER_BYTES),
        ("grpc.max_metadata_size", 65_536),
        ("grpc.so_reuseport", 0),
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
        ("grpc.max_concurrent_streams", MAX_STREAMS),
        ("grpc.server.max_pending_requests", MAX_PENDING),
        ("grpc.server.max_pending_requests_hard_limit", 2 * MAX_PENDING),
        ("grpc.max_connection_idle_ms", IDLE_MS),
        ("grpc.max_connection_age_ms", MAX_AGE_MS),
        ("grpc.max_connection_age_grace_ms", AGE_GRACE_MS),
        ("grpc.max_allowed_incoming_connections", MAX_CONNECTIONS),
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
    )
    # no `maximum_concurrent_rpcs`: beyond it grpcio refuses health checks too
    server = grpc.aio.server(options=options)
    service = _Service(admission)
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        name: grpc.stream_unary_rpc_method_handler(partial(service.answer, name))
        for name in methods()
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    health_service = health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(health_service, server)
    for name in ("", SERVICE):
        await health_service.set(name, health_pb2.HealthCheckResponse.SERVING)
    names = (SERVICE, HEALTH_NAME, reflection.SERVICE_NAME)
    reflection_service = reflection.aio.ReflectionServicer(names, pool())
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(reflection_service, server)
    address = f"[{host}]" if ":" in host else host
    try:
        bound_port = server.add_insecure_port(f"{address}:{port}")
    except RuntimeError as error:
        raise ConfigurationError(
            f"{address}:{port} cannot be bound for gRPC; choose another --grpc-port."
        ) from error
    await server.start()
    try:
        yield bound_port
    finally:
        await health_service.enter_graceful_shutdown()
        await server.stop(SHUTDOWN_SECONDS)
