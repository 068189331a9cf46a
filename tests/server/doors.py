"""One adapter per interface: save a text or list a user's texts over /api/v1, kagent's routes, the
page, MCP and gRPC.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import httpx
from google.protobuf.json_format import MessageToDict, ParseDict

from kagent_memory.memories import Memories
from kagent_memory.server.auth import Access, Admission
from kagent_memory.server.grpc_service import SERVICE, methods, serving

from .ground import client_of, item

UNKNOWN, FOREIGN, FAILED = "unknown", "foreign", "failed"
WHY: Mapping[object, str] = {
    303: UNKNOWN,
    401: UNKNOWN,
    403: FOREIGN,
    404: FOREIGN,
    500: FAILED,
    503: FAILED,
    grpc.StatusCode.UNAUTHENTICATED: UNKNOWN,
    grpc.StatusCode.NOT_FOUND: FOREIGN,
    grpc.StatusCode.INTERNAL: FAILED,
}


class Refused(Exception):
    """A refused call, with its reason and message."""

    def __init__(self, why: str, text: str) -> None:
        super().__init__(text)
        self.why = why


class HttpCaller:
    """A caller over HTTP, with its identity in headers."""

    def __init__(self, http: httpx.AsyncClient, headers: Mapping[str, str]) -> None:
        self._http = http
        self._headers = {"cookie": "kagent_memory_csrf=own", **headers}

    async def send(self, path: str, user: str, **more: Any) -> httpx.Response:
        """Send a request about a user; the default method without a body is `GET`."""
        named = ("agent_name", "user_id") if path.startswith("/api/memories") else ("app", "user")
        params: dict[str, str] = dict(zip(named, ("demo", user), strict=True))
        method, headers = "POST" if more else "GET", self._headers
        answer = await self._http.request(method, path, params=params, headers=headers, **more)
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        if answer.status_code >= 400 or answer.headers.get("location") == "/login":
            raise Refused(WHY[answer.status_code], answer.text)
        return answer


class GrpcCaller:
    """A caller over gRPC, with its identity in metadata."""

    def __init__(self, channel: grpc.aio.Channel, metadata: Mapping[str, str] = {}) -> None:
        self._channel, self._metadata = channel, tuple(metadata.items())

    async def call(self, method: str, **fields: Any) -> dict[str, Any]:
        """Call a method with the fields of its request; return the fields of its answer."""
        takes, gives = methods()[method]
        ask = self._channel.unary_unary(
            f"/{SERVICE}/{method}", takes.SerializeToString, gives.FromString
        )
        answer = await ask(ParseDict(fields, takes()), metadata=self._metadata)
        return MessageToDict(answer, preserving_proto_field_name=True)


async def _api(caller: HttpCaller, user: str, text: str) -> Any:
    if text:
        return await caller.send("/api/v1/memories", user, json={"items": [text]})
    answer = await caller.send("/api/v1/memories", user)
    return [memory["content"] for memory in answer.json()["memories"]]


async def _kagent(caller: HttpCaller, user: str, text: str) -> Any:
    if text:
        memory = item(text, agent_name="demo", user_id=user)
        return await caller.send("/api/memories/sessions", user, json=memory)
    return [memory["content"] for memory in (await caller.send("/api/memories", user)).json()]


async def _page(caller: HttpCaller, user: str, text: str) -> Any:
    if text:
        form = {"csrf": "own", "content": text}
        return await caller.send("/memories/add", user, data=form)
    return contents((await caller.send("/memories", user)).text)


async def _mcp(caller: HttpCaller, user: str, text: str) -> Any:
    name, arguments = ("save_memory", {"content": text}) if text else ("list_memories", {})
    params = {"name": name, "arguments": arguments}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    result = (await caller.send("/mcp", user, json=request)).json()["result"]
    said = result["content"][0]["text"]
    if result["isError"]:
        raise Refused(FAILED, said)
    return [memory["text"] for memory in json.loads(said).get("memories", ())]


async def _grpc(caller: GrpcCaller, user: str, text: str) -> Any:
    whose: dict[str, Any] = {"agent_name": "demo", "user_id": user}
    try:
        if text:
            return await caller.call("AddSession", memory=item(text, **whose))
        answer = await caller.call("List", **whose)
    except grpc.aio.AioRpcError as error:
        raise Refused(WHY[error.code()], error.details() or "") from error
    return [memory["content"] for memory in answer.get("memories", ())]


DOORS: Mapping[str, Any] = {
    "api": _api,
    "kagent": _kagent,
    "page": _page,
    "mcp": _mcp,
    "grpc": _grpc,
}


@asynccontextmanager
async def at_door(door: str, memories: Memories, access: Access = Access()) -> AsyncIterator[Any]:
    """Serve memories at one interface; return a function that saves a text there, or lists the
    texts of a user.
    """

    async def use(headers: Mapping[str, str] = {}, *, text: str = "", user: str = "ada") -> Any:
        return await DOORS[door](caller(served, headers), user, text)

    caller: Callable[[Any, Mapping[str, str]], HttpCaller | GrpcCaller]
    if door == "grpc":
        caller = GrpcCaller
        async with served_channel(memories, access) as (served, _):
            yield use
    else:
        caller = HttpCaller
        async with client_of(memories, memories.clock, access) as served:
            yield use


@asynccontextmanager
async def served_channel(
    memories: Memories, access: Access = Access()
) -> AsyncIterator[tuple[grpc.aio.Channel, int]]:
    """Serve memories over gRPC; yield a channel and the port."""
    admission = Admission(access, lambda: memories)
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    async with (
        serving(admission, host="127.0.0.1", port=0) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel,
    ):
        yield channel, port


def contents(text: str) -> list[str]:
    """Return the texts of the memories in a list of the page."""
    links = re.findall(r'<a class="text"[^>]*>(.*?)</a>', text, re.DOTALL)
    return [html.unescape(re.sub("</?mark>", "", text)) for text in links]
