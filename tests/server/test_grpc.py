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
from kagent_memory.server.grpc_service import SERVICE, descriptors, serving

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


class Client:
    """The generated client, with the identity it sends along."""

    def __init__(self, stubs: Stubs, channel: grpc.aio.Channel, **metadata: str) -> None:
        self.pb2, self._stub = stubs.pb2, stubs.grpc.MemoryServiceStub(channel)
        self._metadata = tuple((name.replace("_", "-"), told) for name, told in metadata.items())

    def item(self, content: str = "likes tea", vector: Any = None, **more: Any) -> Any:
        one = {**WHO, "content": content, "vector": axis(0) if vector is None else vector}
        return self.pb2.SessionMemoryInput(**{**one, **more})

    async def _call(self, method: str, **fields: Any) -> Any:
        request = getattr(self.pb2, f"MemoryService{method}Request")(**fields)
        return await getattr(self._stub, method)(request, metadata=self._metadata)

    async def add(self, memory: Any = None) -> str:
        return (await self._call("AddSession", memory=memory or self.item())).id

    async def batch(self, items: list[Any]) -> int:
        return (await self._call("AddSessionBatch", items=items)).count

    async def search(self, **more: Any) -> list[Any]:
        return list((await self._call("Search", **{**WHO, "vector": axis(0), **more})).memories)

    async def list(self, **who: str) -> list[Any]:
        return list((await self._call("List", **{**WHO, **who})).memories)

    async def delete(self, **who: str) -> str:
        return (await self._call("Delete", **{**WHO, **who})).status


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
    """The five methods do what they do over HTTP, with times and metadata as protobuf has them."""
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
    """A batch with one item that does not fit stores nothing."""
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
    """What kagent would not take, and what is no message, is refused as invalid."""
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
    """A list that no message holds is refused with the advice to use HTTP."""
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
        async with asyncio.timeout(60):
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
        async with asyncio.timeout(60):
            while True:
                try:
                    assert await client.list() == []
                    break
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(0.05)


# -- who may call


async def test_tokens_open_what_they_open_over_http(memories: Memories, stubs: Stubs):
    """Every call wants a token that holds, or a proxy's word, and finds nothing of others."""
    ada, _ = await memories.tokens.create(user="ada")
    acme, _ = await memories.tokens.create(tenant="acme")
    gone, record = await memories.tokens.create()
    await memories.tokens.revoke(record.id)
    async with channel_to(memories, Access(required=True)) as channel:
        for secret in ("", gone):
            unknown = Client(stubs, channel, authorization=f"Bearer {secret}")
            for call in (
                unknown.add(),
                unknown.batch([unknown.item()]),
                unknown.search(),
                unknown.list(),
                unknown.delete(),
            ):
                await refused(call, grpc.StatusCode.UNAUTHENTICATED, "Bearer")
        client = Client(stubs, channel, authorization=f"Bearer {ada}")
        await client.add()
        for call in (
            client.list(user_id="eve"),
            client.search(user_id="eve"),
            client.delete(user_id="eve"),
            client.add(client.item(user_id="eve")),
        ):
            await refused(call, grpc.StatusCode.NOT_FOUND)
        tenant = Client(stubs, channel, authorization=f"Bearer {acme}")
        assert await tenant.list() == []  # the same names in another tenant
        await tenant.delete()
        assert len(await client.list()) == 1
    async with channel_to(memories, Access(trusted_proxy=True)) as channel:
        assert len(await Client(stubs, channel, x_user_id="ada").list()) == 1


async def test_a_store_that_is_away_is_internal_with_kagent_s_words(
    client: Client, memories: Memories, monkeypatch: pytest.MonkeyPatch
):
    """A failure of the server is told in kagent's words for the method."""

    async def away(*args: Any, **options: Any) -> Any:
        raise StoreError("The database is away.")

    for name in ("apply", "list", "forget"):
        monkeypatch.setattr(type(memories.store.memories), name, away)
    internal = grpc.StatusCode.INTERNAL
    await refused(client.add(), internal, "failed to save memory: The database is away.")
    await refused(client.batch([client.item()]), internal, "failed to save memory batch: ")
    await refused(client.list(), internal, "failed to list memories: ")
    await refused(client.delete(), internal, "failed to delete memory: ")


async def test_a_defect_is_told_without_what_somebody_wrote(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """A defect is told and logged without its own words."""
    written = " ".join(["the", "secret", "of", "ada"])

    async def broken(*args: Any, **options: Any) -> Any:
        raise RuntimeError(written)

    monkeypatch.setattr(Memories, "add", broken)
    assert await refused(client.add(), grpc.StatusCode.INTERNAL) == "failed to save memory"
    assert "RuntimeError" in caplog.text
    assert "secret of ada" not in caplog.text


# -- health and reflection


async def test_anybody_may_ask_for_health_and_for_the_schema(memories: Memories):
    """Health and reflection need no token."""
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
    """One command serves HTTP and gRPC, and a signal ends both."""
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
    """An open address without auth, and a missing extra, are refused before anything is served."""
    words = ["serve", "--port", "0", "--grpc-port", "0", "--uri", f"libsql:///{tmp_path}/memory.db"]
    assert main([*words, "--host", "0.0.0.0"]) == 5
    assert "--auth" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "kagent_memory.server.grpc_service", None)
    assert main(words) == 5
    assert 'pip install "kagent-memory[grpc]"' in capsys.readouterr().err
