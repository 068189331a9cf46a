"""A model provider on loopback that speaks OpenAI's wire (and the rerank routes), for tests that
drive real clients.

    with Loopback() as provider:
        provider.plan({"status": 500}, "hello")   # the next two answers; later ones say nothing
        LiteLlm(model="openai/any", api_base=provider.url, api_key="any")
        provider.requests                         # what came in

A plan's step is a text, `{"refusal": text}`, `{"status": 429, "headers": {…}}`, `{"delay":
seconds, "then": step}`, `{"json": body}`, `{"finish": reason, "then": step}`, or a function of
the request's body that gives one of these. Plans hold for every route: an embedding or rerank
takes `status`, `delay` and `json` from it.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import Any, Self

import numpy as np

WORD = re.compile(r"\w+")
USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


@dataclass(frozen=True)
class Request:
    path: str
    body: dict[str, Any]
    headers: dict[str, str] = field(repr=False)


def vector(text: str, dimensions: int) -> list[float]:
    """Words hashed into a vector of length 1: texts that share words are near each other."""
    row = np.zeros(dimensions)
    for word in WORD.findall(text.lower()) or [text]:
        digest = hashlib.blake2b(word.encode(), digest_size=2).digest()
        row[digest[0] % dimensions] += 1.0
        row[digest[1] % dimensions] += 0.5
    return (row / np.linalg.norm(row)).tolist()


class JsonServer(ThreadingHTTPServer):
    """A server on a free port of loopback for the length of a `with`, at whose end `ended` is
    set.
    """

    daemon_threads = True

    def __init__(self, handler: type[JsonHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.address = f"127.0.0.1:{self.server_address[1]}"
        self.lock = threading.Lock()
        self.ended = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.shutdown()
        self.server_close()


class JsonHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def body(self) -> dict[str, Any]:
        """Return the JSON of the request."""
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")

    def reply(self, status: int, payload: bytes, **headers: str) -> None:
        """Answer the request."""
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        try:
            self.wfile.write(payload)
            self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # a client that no longer waits


class Loopback(JsonServer):
    """The provider. `url` ends in /v1, `root` does not."""

    def __init__(self, *, dimensions: int = 8, takes_dimensions: bool = True) -> None:
        super().__init__(Handler)
        self.root = f"http://{self.address}"
        self.url = f"{self.root}/v1"
        self.dimensions = dimensions
        self.takes_dimensions = takes_dimensions
        self.requests: list[Request] = []
        self._plan: list[Any] = []

    def plan(self, *steps: Any) -> None:
        with self.lock:
            self._plan.extend(steps)

    def bodies(self, ending: str) -> list[dict[str, Any]]:
        return [
            request.body for request in self.requests if request.path.split("?")[0].endswith(ending)
        ]

    def received(self, request: Request) -> Any:
        """The planned step for a request, None without a plan."""
        with self.lock:
            self.requests.append(request)
            step = self._plan.pop(0) if self._plan else None
        while callable(step):
            step = step(request.body)
        return step


def embeddings(provider: Loopback, body: dict[str, Any]) -> tuple[int, Any]:
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    if body.get("dimensions") and not provider.takes_dimensions:
        return 400, {"error": {"message": "This model does not support specifying dimensions."}}
    width = int(body.get("dimensions") or provider.dimensions)
    data = [
        {"object": "embedding", "index": index, "embedding": vector(text, width)}
        for index, text in enumerate(texts)
    ]
    return 200, {"object": "list", "model": body.get("model"), "data": data, "usage": USAGE}


def ollama_embeddings(provider: Loopback, body: dict[str, Any]) -> tuple[int, Any]:
    rows = [vector(text, provider.dimensions) for text in body["input"]]
    return 200, {"model": body["model"], "embeddings": rows, "prompt_eval_count": len(rows)}


def rerank(provider: Loopback, body: dict[str, Any]) -> tuple[int, Any]:
    """Best first, as providers do: the share of the query's words that a document holds."""
    wanted = set(WORD.findall(body["query"].lower()))
    results: list[dict[str, Any]] = []
    for index, item in enumerate(body["documents"]):
        text = item if isinstance(item, str) else item["text"]
        share = len(wanted & set(WORD.findall(text.lower()))) / max(1, len(wanted))
        results.append({"index": index, "relevance_score": share})
    results.sort(key=lambda result: -result["relevance_score"])
    return 200, {"id": "rerank-1", "results": results, "usage": USAGE, "meta": {}}


def chat(body: dict[str, Any], step: Any) -> tuple[int, Any]:
    """The planned answer, or a word."""
    finish, step = step if isinstance(step, tuple) else ("stop", step)
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if isinstance(step, dict):
        message["refusal"] = step["refusal"]
    else:
        message["content"] = "Noted." if step is None else str(step)
    return 200, {
        "id": f"chatcmpl-{time.time_ns()}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": body.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": USAGE,
    }


ROUTES = {"/api/embed": ollama_embeddings, "/embeddings": embeddings, "/rerank": rerank}


class Handler(JsonHandler):
    server: Loopback

    def do_POST(self) -> None:
        body = self.body()
        step = self.server.received(Request(self.path, body, dict(self.headers)))
        headers: dict[str, str] = {}
        if isinstance(step, dict) and "delay" in step:
            self.server.ended.wait(step["delay"])
            step = step.get("then")
        if isinstance(step, dict) and "finish" in step:
            step = step["finish"], step["then"]
        if isinstance(step, dict) and "status" in step:
            headers = step.get("headers") or {}
            error = {"message": step.get("message", "planned"), "code": step.get("code")}
            status, answer = step["status"], {"error": {"type": "planned", **error}}
        elif isinstance(step, dict) and "json" in step:
            status, answer = 200, step["json"]
        else:
            status, answer = self.route(body, step)
        self.reply(status, json.dumps(answer).encode(), **headers)

    def route(self, body: dict[str, Any], step: Any) -> tuple[int, Any]:
        path = self.path.split("?")[0]
        if path.endswith("/chat/completions"):
            return chat(body, step)
        for ending, answer in ROUTES.items():
            if path.endswith(ending):
                return answer(self.server, body)
        return 404, {"error": {"message": f"no route {path}"}}


async def hang_up() -> None:
    """Close the connections that LiteLLM keeps for the running loop, which outlive it otherwise."""
    if "litellm" in sys.modules:
        # First the package, which waits for a thread that imports it: a module in it would be
        # locked before that, and the thread's import would end half-way.
        import_module("litellm")
        from litellm.llms.custom_httpx.async_client_cleanup import close_litellm_async_clients

        await close_litellm_async_clients()
