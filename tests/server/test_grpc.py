"""kagent's contract over gRPC, with a client that protoc generates from the contract; as hard as
the one over HTTP.
"""

from __future__ import annotations

import asyncio
import importlib
import math
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import grpc.aio
import grpc_tools
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_tools import protoc

from kagent_memory.cli import main
from kagent_memory.errors import StoreError
from kagent_memory.memories import Memories
from kagent_memory.server import grpc_service
from kagent_memory.server.admission import MAX_OPEN, Admission
from kagent_memory.server.auth import Access
from kagent_memory.server.grpc_contract import SERVICE, descriptors
from kagent_memory.server.grpc_service import serving

from .ground import Clock, axis

CONTRACT = Path(grpc_service.__file__).with_name("kagent.proto")
WHO = {"agent_name": "shop__NS__my-agent", "user_id": "ada"}
INVALID = grpc.StatusCode.INVALID_ARGUMENT


class Stubs(NamedTuple):
    """What protoc makes of the contract."""

    pb2: Any
    grpc: Any
    descriptor: bytes


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    folder = tmp_path_factory.mktemp("proto")
    (folder / "kagent_memory_contract.proto").write_text(
        CONTRACT.read_text(encoding="utf-8"), encoding="utf-8"
    )
    include = Path(grpc_tools.__file__).parent / "_proto"
    words = [
        f"-I{folder}", f"-I{include}", f"--python_out={folder}", f"--grpc_python_out={folder}",
        f"--descriptor_set_out={folder}/made.binpb", "kagent_memory_contract.proto",
    ]  # fmt: skip
    assert protoc.main(["protoc", *words]) == 0
    sys.path.insert(0, str(folder))
    try:
        pb2 = importlib.import_module("kagent_memory_contract_pb2")
        made = importlib.import_module("kagent_memory_contract_pb2_grpc")
        yield Stubs(pb2, made, (folder / "made.binpb").read_bytes())
    finally:
        sys.path.remove(str(folder))


@pytest.fixture
async def memories(clock: Clock) -> AsyncIterator[Memories]:
    async with await Memories.open("libsql:///:memory:", clock=clock, worker=False) as opened:
        yield opened


class Client:
    """The generated client, with the identity it sends along."""

    def __init__(self, stubs: Stubs, channel: grpc.aio.Channel, **metadata: str) -> None:
        self.pb2, self._metadata = (
            stubs.pb2,
            tuple((name.replace("_", "-"), told) for name, told in metadata.items()),
        )
        self._stub = stubs.grpc.MemoryServiceStub(channel)

    def told(self, **metadata: str) -> Client:
        told = object.__new__(Client)
        told.pb2, told._stub = self.pb2, self._stub
        told._metadata = tuple((name.replace("_", "-"), value) for name, value in metadata.items())
        return told

    def item(
        self, content: str = "likes tea", vector: list[float] | None = None, **more: Any
    ) -> Any:
        return self.pb2.SessionMemoryInput(
            **{**WHO, "content": content, "vector": axis(0) if vector is None else vector, **more}
        )

    async def add(self, *given: Any, **more: Any) -> str:
        memory = given[0] if given else self.item(**more)
        request = self.pb2.MemoryServiceAddSessionRequest(memory=memory)
        return (await self._stub.AddSession(request, metadata=self._metadata)).id

    async def batch(self, items: list[Any]) -> int:
        request = self.pb2.MemoryServiceAddSessionBatchRequest(items=items)
        return (await self._stub.AddSessionBatch(request, metadata=self._metadata)).count

    async def search(self, vector: list[float] | None = None, **more: Any) -> list[Any]:
        request = self.pb2.MemoryServiceSearchRequest(
            **{**WHO, "vector": axis(0) if vector is None else vector, **more}
        )
        return list((await self._stub.Search(request, metadata=self._metadata)).memories)

    async def list(self, **who: str) -> list[Any]:
        request = self.pb2.MemoryServiceListRequest(**{**WHO, **who})
        return list((await self._stub.List(request, metadata=self._metadata)).memories)

    async def delete(self, **who: str) -> str:
        request = self.pb2.MemoryServiceDeleteRequest(**{**WHO, **who})
        return (await self._stub.Delete(request, metadata=self._metadata)).status


@asynccontextmanager
async def served_channel(
    memories: Memories, access: Access
) -> AsyncIterator[tuple[grpc.aio.Channel, int]]:
    admission = Admission(access, lambda: memories)
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    async with (
        serving(memories, access, admission, host="127.0.0.1", port=0) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel,
    ):
        yield channel, port


@asynccontextmanager
async def channel_to(
    memories: Memories, access: Access = Access()
) -> AsyncIterator[grpc.aio.Channel]:
    async with served_channel(memories, access) as (channel, _):
        yield channel


@pytest.fixture
async def client(memories: Memories, stubs: Stubs) -> AsyncIterator[Client]:
    async with channel_to(memories) as channel:
        yield Client(stubs, channel)


async def refused(call: Any, code: grpc.StatusCode, text: str = "") -> str:
    with pytest.raises(grpc.aio.AioRpcError) as told:
        await call
    assert told.value.code() == code, told.value
    assert text in (told.value.details() or "")
    return told.value.details() or ""


def test_the_descriptors_are_those_of_the_contract(stubs: Stubs):
    """What the server reads is what protoc makes of the contract."""
    (made,) = descriptor_pb2.FileDescriptorSet.FromString(stubs.descriptor).file
    made.name = descriptors().file[-1].name
    assert descriptors().file[-1] == made


async def test_what_is_added_is_found_listed_and_deleted(client: Client, clock: Clock):
    metadata = {"source": "explicit_save", "count": 3, "nested": {"list": [1, "two", None, True]}}
    item = client.item("Ada likes tea.", ttl_days=3)
    item.metadata.update(metadata)
    id = await client.add(item)
    assert id == await client.add(item)  # the same again is the same memory
    (found,) = await client.search()
    assert (found.id, found.content, round(found.score, 5)) == (id, "Ada likes tea.", 1.0)
    assert found.metadata == item.metadata
    assert found.created_at.ToDatetime(UTC) == clock.now
    (listed,) = await client.list()
    assert (listed.id, listed.content) == (id, "Ada likes tea.")
    assert listed.expires_at.ToDatetime() == (clock.now + timedelta(days=3)).replace(
        tzinfo=None, microsecond=0
    )
    assert await client.delete() == "deleted"
    assert await client.delete() == "deleted"
    assert (await client.list(), await client.search()) == ([], [])


async def test_a_batch_is_stored_whole_or_not_at_all(client: Client):
    assert await client.batch([client.item(f"fact {n}", axis(n)) for n in range(50)]) == 50
    assert len(await client.list()) == 50
    await refused(client.batch([client.item()] * 51), INVALID, "batch size 51 exceeds")
    items = [client.item("new"), client.pb2.SessionMemoryInput(content="x")]
    await refused(client.batch(items), INVALID, "Missing required fields in batch item")
    await refused(
        client.batch([client.item("new"), client.item("x", [1.0] * 16)]), INVALID, "got 16"
    )
    assert "new" not in {one.content for one in await client.list()}


async def test_odd_input_is_invalid_and_harms_nobody(
    client: Client, stubs: Stubs, memories: Memories
):
    empty = client.item("")
    assert await client.add(empty)
    assert [one.content for one in await client.list()] == [""]
    await refused(client.list(user_id="x" * 1025), INVALID, "at most 1024")
    long = client.item("x")
    long.metadata.update({"k": "x" * 1_100_000})
    await refused(client.add(long), INVALID, "metadata is longer")
    odd = client.item("y")
    odd.metadata["k"] = math.inf
    await refused(client.add(odd), INVALID)
    async with channel_to(memories) as channel:
        for method in ("AddSession", "AddSessionBatch", "Search", "List", "Delete"):
            raw = channel.unary_unary(f"/{SERVICE}/{method}")
            await refused(raw(b"\xff\xff\xff no message"), INVALID, "Invalid request message")
            await refused(raw(b""), INVALID)
            stream = channel.stream_unary(f"/{SERVICE}/{method}")
            await refused(stream(iter(())), INVALID, "no message")
        await refused(channel.unary_unary(f"/{SERVICE}/Drop")(b""), grpc.StatusCode.UNIMPLEMENTED)
    assert len(await client.list()) == 1


async def test_a_list_that_is_too_long_for_a_message_says_so(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(grpc_service, "MAX_ANSWER_BYTES", 2_000)
    await client.batch([client.item(f"{n} " + "x" * 500, axis(n)) for n in range(5)])
    await refused(client.list(), grpc.StatusCode.RESOURCE_EXHAUSTED, "list them over HTTP")


async def _silent_calls(
    channels: Sequence[grpc.aio.Channel], count: int, **metadata: str
) -> list[Any]:
    """Begin calls of `List` that never send a message, spread over the channels."""
    begin = [
        channel.stream_unary(f"/{SERVICE}/List", lambda raw: raw, lambda raw: raw)
        for channel in channels
    ]
    calls = [
        begin[number % len(begin)](metadata=tuple(metadata.items())) for number in range(count)
    ]
    await asyncio.sleep(1)
    return calls


@pytest.mark.parametrize("token", [False, True], ids=["open", "auth"])
async def test_silent_calls_keep_nobody_else_out(memories: Memories, stubs: Stubs, token: bool):
    """1,200 calls that never send a message leave health and other callers answered."""
    mute, _ = await memories.tokens.create(user="mute")
    ada, _ = await memories.tokens.create(user="ada")
    access = Access(required=token)
    async with AsyncExitStack() as stack:
        channel, port = await stack.enter_async_context(served_channel(memories, access))
        alone = [("grpc.use_local_subchannel_pool", 1)]  # a connection of its own
        others = [
            await stack.enter_async_context(
                grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=alone)
            )
            for _ in range(4)
        ]
        silent = await _silent_calls(
            others, 1_200, **({"authorization": f"Bearer {mute}"} if token else {})
        )
        async with asyncio.timeout(20):
            assert (
                await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
            ).status == 1
            client = Client(stubs, channel, **({"authorization": f"Bearer {ada}"} if token else {}))
            assert await asyncio.gather(*(client.list() for _ in range(20))) == [[]] * 20
        for call in silent:
            call.cancel()


async def test_open_calls_of_one_caller_are_bounded(memories: Memories, stubs: Stubs):
    """A caller's calls beyond `MAX_OPEN` are refused until some have ended."""
    mute, _ = await memories.tokens.create(user="ada")
    async with channel_to(memories, Access(required=True)) as channel:
        silent = await _silent_calls([channel], MAX_OPEN, authorization=f"Bearer {mute}")
        client = Client(stubs, channel, authorization=f"Bearer {mute}")
        await refused(client.list(), grpc.StatusCode.RESOURCE_EXHAUSTED, "in progress")
        for call in silent:
            call.cancel()
        async with asyncio.timeout(20):
            while True:
                try:
                    assert await client.list() == []
                    break
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(0.05)


# -- who may call


async def test_tokens_open_what_they_open_over_http(memories: Memories, stubs: Stubs):
    """Every call wants a token that holds, and finds nothing of other users and tenants."""
    ada, _ = await memories.tokens.create(user="ada")
    acme, _ = await memories.tokens.create(tenant="acme")
    gone, record = await memories.tokens.create()
    await memories.tokens.revoke(record.id)
    async with channel_to(memories, Access(required=True)) as channel:
        nobody = Client(stubs, channel)
        unknown = nobody.told(authorization=f"Bearer {gone}")
        for call in (
            nobody.list(),
            unknown.add(),
            unknown.batch([unknown.item()]),
            unknown.search(),
            unknown.list(),
            unknown.delete(),
        ):
            await refused(call, grpc.StatusCode.UNAUTHENTICATED, "Bearer")
        client = nobody.told(authorization=f"Bearer {ada}")
        await client.add()
        assert len(await client.list()) == 1
        for call in (
            client.list(user_id="eve"),
            client.search(user_id="eve"),
            client.delete(user_id="eve"),
        ):
            await refused(call, grpc.StatusCode.NOT_FOUND)
        eve = client.item()
        eve.user_id = "eve"
        await refused(client.add(eve), grpc.StatusCode.NOT_FOUND)
        tenant = nobody.told(authorization=f"Bearer {acme}")
        assert await tenant.list() == []  # the same names in another tenant
        await tenant.delete()
        assert len(await client.list()) == 1


async def test_a_proxy_vouches_by_metadata(memories: Memories, stubs: Stubs):
    async with channel_to(memories, Access(trusted_proxy=True)) as channel:
        nobody = Client(stubs, channel)
        await refused(nobody.list(), grpc.StatusCode.UNAUTHENTICATED)
        user = nobody.told(x_user_id="ada")
        await user.add()
        assert len(await user.list()) == 1
        await refused(user.list(user_id="eve"), grpc.StatusCode.NOT_FOUND)
        agent = nobody.told(x_agent_name="shop__NS__my-agent")
        assert len(await agent.list()) == 1
        await refused(agent.list(agent_name="other"), grpc.StatusCode.NOT_FOUND)


async def test_a_store_that_is_away_is_internal_with_kagent_s_words(
    client: Client, memories: Memories, monkeypatch: pytest.MonkeyPatch
):
    async def away(*args: Any, **options: Any) -> Any:
        raise StoreError("The database is away.")

    for name in ("apply", "search_vectors", "list", "forget", "nearest"):
        if hasattr(type(memories.store.memories), name):
            monkeypatch.setattr(type(memories.store.memories), name, away)
    internal = grpc.StatusCode.INTERNAL
    await refused(client.add(), internal, "failed to save memory: The database is away.")
    await refused(client.batch([client.item()]), internal, "failed to save memory batch: ")
    await refused(client.list(), internal, "failed to list memories: ")
    await refused(client.delete(), internal, "failed to delete memory: ")


async def test_a_defect_is_told_without_what_somebody_wrote(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    written = " ".join(["the", "secret", "of", "ada"])

    async def broken(*args: Any, **options: Any) -> Any:
        raise RuntimeError(written)

    monkeypatch.setattr(Memories, "add", broken)
    assert await refused(client.add(), grpc.StatusCode.INTERNAL) == "failed to save memory"
    assert "RuntimeError" in caplog.text
    assert "secret of ada" not in caplog.text


# -- health and reflection


async def test_anybody_may_ask_for_health_and_for_the_schema(memories: Memories):
    async with channel_to(memories, Access(required=True)) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for service in ("", SERVICE):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        await refused(
            health.Check(health_pb2.HealthCheckRequest(service="x")), grpc.StatusCode.NOT_FOUND
        )
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = [
            reflection_pb2.ServerReflectionRequest(list_services=""),
            reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE),
        ]
        told, described = [answer async for answer in stub.ServerReflectionInfo(iter(asked))]
        assert SERVICE in {service.name for service in told.list_services_response.service}
        raw = described.file_descriptor_response.file_descriptor_proto[0]
        assert descriptor_pb2.FileDescriptorProto.FromString(raw).service[0].name == "MemoryService"


# -- the command


def test_serve_speaks_both_and_ends_both(tmp_path: Path, stubs: Stubs):
    words = ["serve", "--port", "0", "--grpc-port", "0", "--uri", f"libsql:///{tmp_path}/memory.db"]
    process = subprocess.Popen(
        [sys.executable, "-m", "kagent_memory", *words],
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )
    assert process.stderr
    try:
        said = process.stderr.readline()
        port = int(said.partition("gRPC on 127.0.0.1:")[2].partition(";")[0])

        async def use() -> int:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                client = Client(stubs, channel)
                await client.add()
                return len(await client.list())

        assert asyncio.run(use()) == 1
    finally:
        process.terminate()
        _, err = process.communicate(timeout=180)
    assert (process.returncode, "Traceback" in err) == (0, False), err


def test_serve_names_the_extra_and_refuses_strangers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    words = ["serve", "--port", "0", "--grpc-port", "0", "--uri", f"libsql:///{tmp_path}/memory.db"]
    assert main([*words, "--host", "0.0.0.0"]) == 5
    assert "--auth" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "kagent_memory.server.grpc_service", None)
    assert main(words) == 5
    assert 'pip install "kagent-memory[grpc]"' in capsys.readouterr().err
