"""OpenAI's HTTP interface, which Gemini, Ollama, vLLM and many servers speak too: called without
LiteLLM.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from ..concurrency import run_in_thread
from ..errors import ConfigurationError, ModelError
from .calls import NO_LITELLM, has_litellm

if TYPE_CHECKING:
    import httpx

KEPT_SECONDS = 30.0  # an idle connection; providers close theirs later
_SERVERS = {
    "openai": (
        ("OPENAI_API_BASE", "OPENAI_BASE_URL"),
        "https://api.openai.com/v1",
        "",
        ("OPENAI_API_KEY",),
    ),
    "gemini": (
        ("GOOGLE_GEMINI_BASE_URL",),
        "https://generativelanguage.googleapis.com",
        "/v1beta/openai",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ),
    "ollama": (("OLLAMA_API_BASE",), "http://localhost:11434", "/v1", ("OLLAMA_API_KEY",)),
    "hosted_vllm": (("HOSTED_VLLM_API_BASE",), "", "", ("HOSTED_VLLM_API_KEY",)),
}
"""By provider: the variables of its address, the usual one, how it ends, and the variables of its
key.
"""


@dataclass(slots=True)
class _Kept:
    """The client of an event loop, which keeps the connections that its calls made."""

    client: httpx.AsyncClient
    calls: int = 0


_kept: WeakKeyDictionary[asyncio.AbstractEventLoop, _Kept] = WeakKeyDictionary()


class Refused(Exception):
    """A server answered with an error; its words may quote what it was sent.

    Attributes:
        response: the answer, with its status and headers.
    """

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        try:
            told: Any = response.json()
            if isinstance(told, list):  # Gemini's
                told = cast("Any", told[0])
            message: str = told["error"]["message"]
            super().__init__(f"{response.status_code}: {message}")
        except (ValueError, LookupError, TypeError):
            super().__init__(f"the server answered {response.status_code}")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model at a server that speaks OpenAI's interface.

    Attributes:
        model: its name there.
        base_url: what comes before `/embeddings` and `/chat/completions`.
        key: opens the server; "" where it wants none.
        lacking: the environment variable that the key was looked for in, where the server is known
            to want one.
    """

    model: str
    base_url: str
    key: str = field(repr=False)
    lacking: str = ""

    async def post(self, path: str, body: Mapping[str, object]) -> Any:
        """Return the server's answer; the caller bounds the time.

        Raises:
            Refused: it answered with an error.
            ModelError: it wants a key, and there is none.
            httpx.TransportError: it cannot be reached, or broke off.
        """
        if self.lacking:
            raise ModelError(
                f"There is no key for {self.model}; set {self.lacking} in the environment."
            )
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        make = await asyncio.to_thread(_factory)
        loop = asyncio.get_running_loop()
        if (kept := _kept.get(loop)) is None:
            kept = _kept[loop] = _Kept(make())
        kept.calls += 1
        try:
            answer = await kept.client.post(
                f"{self.base_url}{path}",
                json={"model": self.model, **body},
                headers=headers,
            )
        finally:
            kept.calls -= 1
        if not answer.is_success:
            raise Refused(answer)
        return await run_in_thread(len(answer.content), json.loads, answer.content)


def endpoint(
    name: str, arguments: Mapping[str, str], environ: Mapping[str, str]
) -> Endpoint | None:
    """Return where a model is called directly; None: through LiteLLM, which serves every name where
    it is installed.

    Args:
        name: provider and model.
        arguments: `api_base` and `api_key`, where they are not at their usual place.
        environ: where bases and keys stand, by LiteLLM's names.

    Raises:
        ConfigurationError: neither can reach it.
    """
    if has_litellm():
        return None
    provider, _, model = name.partition("/")
    if provider not in _SERVERS or not model:
        raise ConfigurationError(f"{name} {NO_LITELLM}")
    variables, usual, ending, keys = _SERVERS[provider]
    given = arguments.get("api_base") or next(filter(None, map(environ.get, variables)), "")
    base = (given or usual).rstrip("/")
    if not base.startswith(("http://", "https://")):
        raise ConfigurationError(
            f"{name} needs the address of its server: set {variables[0]} to http://host:port/v1."
        )
    key = arguments.get("api_key") or next(filter(None, map(environ.get, keys)), "")
    lacking = keys[0] if not key and not given and usual.startswith("https:") else ""
    return Endpoint(model, base if base.endswith(ending) else f"{base}{ending}", key, lacking)


async def close_connections() -> None:
    """Close what the running loop keeps open, unless a call is under way; the next call opens it
    anew.
    """
    loop = asyncio.get_running_loop()
    if (kept := _kept.get(loop)) is not None and not kept.calls:
        del _kept[loop]
        await kept.client.aclose()


@cache
def _factory() -> Callable[[], httpx.AsyncClient]:
    """Return a maker of clients; import and read it from disk once, in a thread: both take a
    while.
    """
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    import httpx

    context = httpx.create_ssl_context()
    limits = httpx.Limits(
        max_connections=100, max_keepalive_connections=20, keepalive_expiry=KEPT_SECONDS
    )

    def make() -> httpx.AsyncClient:
        # calls share connections, and nothing else
        no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))
        timeout = httpx.Timeout(None)  # `CheckedModel` bounds the whole call
        return httpx.AsyncClient(verify=context, limits=limits, cookies=no_cookies, timeout=timeout)

    return make
