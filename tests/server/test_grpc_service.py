"""kagent's contract over gRPC: messages, limits of calls, and health."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import grpc_tools
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_tools import protoc

from kagent_memory.memories import Memories
from kagent_memory.server import grpc_service
from kagent_memory.server.auth import MAX_OPEN, Access
from kagent_memory.server.grpc_service import SERVICE, descriptors, methods
from kagent_memory.testing import FrozenClock

from .doors import GrpcCaller, served_channel
from .ground import axis, bearing, item

CONTRACT = Path(grpc_service.__file__).with_name("kagent.proto")
WHO = {"agent_name": "shop__NS__my-agent", "user_id": "ada"}
INVALID = grpc.StatusCode.INVALID_ARGUMENT
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.fixture
async def channel(memories: Memories) -> AsyncIterator[grpc.aio.Channel]:
    async with served_channel(memories) as (opened, _):
        yield opened


@pytest.fixture
def client(channel: grpc.aio.Channel) -> GrpcCaller:
    return GrpcCaller(channel)


async def added(client: GrpcCaller, *items: Mapping[str, Any]) -> int:
    return (await client.call("AddSessionBatch", items=items))["count"]


async def listed(client: GrpcCaller, **who: str) -> list[Any]:
    return (await client.call("List", **{**WHO, **who})).get("memories", [])


async def refused(call: Any, code: grpc.StatusCode, text: str = "") -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await call
    assert refusal.value.code() == code, refusal.value
    assert text in (refusal.value.details() or "")


def test_the_descriptors_are_those_of_the_contract(tmp_path: Path):
    """The server's descriptors equal those that protoc makes from the contract."""
    include, output = Path(grpc_tools.__file__).parent / "_proto", tmp_path / "made.binpb"
    words = [
        f"-I{CONTRACT.parent}",
        f"-I{include}",
        f"--descriptor_set_out={output}",
        CONTRACT.name,
    ]
    assert protoc.main(["protoc", *words]) == 0
    (file,) = descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes()).file
    file.name = descriptors().file[-1].name
    assert descriptors().file[-1] == file


async def test_what_is_added_is_found_listed_and_deleted(client: GrpcCaller, clock: FrozenClock):
    """The five methods do the same as over HTTP, with protobuf times and metadata."""
    metadata = {"source": "explicit_save", "count": 3, "nested": {"list": [1, "two", None, True]}}
    memory = item("Ada likes tea.", metadata=metadata, ttl_days=3)
    answers = [await client.call("AddSession", memory=memory) for _ in range(2)]
    assert answers[0] == answers[1]  # the same again is the same memory
    shown = {**answers[0], "content": "Ada likes tea."}
    [hit] = (await client.call("Search", **WHO, vector=axis(0)))["memories"]
    created = {"created_at": "2026-03-01T12:00:00.123450Z"}
    assert {**hit, "score": 1.0} == {**shown, **created, "score": 1.0, "metadata": metadata}
    assert hit["score"] == pytest.approx(1.0)
    [later] = await listed(client)
    ends = (clock.now + timedelta(days=3)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert {**shown, "expires_at": ends}.items() <= later.items()
    for _ in range(2):
        assert await client.call("Delete", **WHO) == {"status": "deleted"}
    assert await listed(client) == []


async def test_odd_input_is_invalid_and_harms_nobody(client: GrpcCaller, channel: grpc.aio.Channel):
    """An overlong name or metadata, infinity, and bytes that are no message are refused."""
    assert await added(client, item("")) == 1
    await refused(listed(client, user_id="x" * 1025), INVALID, "at most 1024")
    long = item("x", metadata={"k": "x" * 1_100_000})
    await refused(added(client, long), INVALID, "metadata is longer")
    takes, _ = methods()["AddSession"]
    infinite: Any = takes()
    infinite.memory.metadata["k"] = float("inf")
    for method in methods():
        raw = channel.unary_unary(f"/{SERVICE}/{method}")
        for message in (b"\xff\xff\xff no message", b"", infinite.SerializeToString()):
            await refused(raw(message), INVALID)
        stream = channel.stream_unary(f"/{SERVICE}/{method}")
        await refused(stream(iter(())), INVALID, "no message")
    await refused(channel.unary_unary(f"/{SERVICE}/Drop")(b""), grpc.StatusCode.UNIMPLEMENTED)
    assert [memory.get("content", "") for memory in await listed(client)] == [""]


async def test_a_list_that_is_too_long_for_a_message_says_so(
    client: GrpcCaller, monkeypatch: pytest.MonkeyPatch
):
    """A list too long for a message is refused with the advice to use HTTP."""
    monkeypatch.setattr(grpc_service, "MAX_ANSWER_BYTES", 2_000)
    await added(client, *(item(f"{n} " + "x" * 500, axis(n)) for n in range(5)))
    await refused(listed(client), EXHAUSTED, "list them over HTTP")


def _silent_calls(
    channels: Sequence[grpc.aio.Channel], count: int, metadata: Mapping[str, str]
) -> list[Any]:
    """Begin calls of `List` that never send a message, spread over the channels."""
    begin = [channel.stream_unary(f"/{SERVICE}/List") for channel in channels]
    return [begin[number % len(begin)](metadata=tuple(metadata.items())) for number in range(count)]


@asynccontextmanager
async def _connections(port: int, count: int) -> AsyncIterator[list[grpc.aio.Channel]]:
    alone = [("grpc.use_local_subchannel_pool", 1)]  # a connection of its own
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=alone)
            )
            for _ in range(count)
        ]


async def test_silent_calls_keep_nobody_else_out(memories: Memories):
    """1,200 calls that never send a message leave health and other callers answered."""
    mute, ada = [await bearing(memories, user=user) for user in ("mute", "ada")]
    async with (
        served_channel(memories, Access(required=True)) as (channel, port),
        _connections(port, 4) as others,
    ):
        silent = _silent_calls(others, 1_200, mute)
        await asyncio.sleep(1)
        async with asyncio.timeout(60):
            health = health_pb2_grpc.HealthStub(channel)
            assert (await health.Check(health_pb2.HealthCheckRequest())).status == 1
            client = GrpcCaller(channel, ada)
            assert await asyncio.gather(*(listed(client) for _ in range(20))) == [[]] * 20
        for call in silent:
            call.cancel()


async def test_open_calls_of_one_caller_are_bounded(memories: Memories):
    """A caller's calls beyond `MAX_OPEN` are refused until some have ended."""
    ada = await bearing(memories, user="ada")
    async with served_channel(memories, Access(required=True)) as (channel, _):
        silent = _silent_calls([channel], MAX_OPEN, ada)
        await asyncio.sleep(1)
        client = GrpcCaller(channel, ada)
        await refused(listed(client), EXHAUSTED, "in progress")
        for call in silent:
            call.cancel()
        async with asyncio.timeout(60):
            while True:
                try:
                    assert await listed(client) == []
                    break
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(0.05)


async def test_anybody_may_ask_for_health_and_for_the_schema(memories: Memories):
    """Health and reflection need no token."""
    async with served_channel(memories, Access(required=True)) as (channel, _):
        health = health_pb2_grpc.HealthStub(channel)
        for service in ("", SERVICE):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        unknown = health_pb2.HealthCheckRequest(service="x")
        await refused(health.Check(unknown), grpc.StatusCode.NOT_FOUND)
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE)
        [described] = [answer async for answer in stub.ServerReflectionInfo(iter([request]))]
        raw = described.file_descriptor_response.file_descriptor_proto[0]
        assert descriptor_pb2.FileDescriptorProto.FromString(raw).service[0].name == "MemoryService"
