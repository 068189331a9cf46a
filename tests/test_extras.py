"""Without an extra all goes on that does not need it; what does says which one, once and before
anything is made.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from loopback import Loopback, hang_up
from pydantic import BaseModel

from kagent_memory.errors import ConfigurationError, ModelError
from kagent_memory.memories import Memories
from kagent_memory.models.embedding import Embedder, open_embedder
from kagent_memory.models.llm import Llm, open_llm
from kagent_memory.models.openai_api import close_connections
from kagent_memory.records import Scope
from kagent_memory.settings import MemorySettings


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Hides packages as if they were not installed, and what of ours has imported them."""

    def hide(*names: str, ours: str = "") -> None:
        for name in sys.modules.keys() & set(names):
            import_module(name)  # waits for a thread that imports it: half of it would stay
        for name in list(sys.modules):
            if name.partition(".")[0] in names or (ours and name.startswith(ours)):
                monkeypatch.delitem(sys.modules, name)
        for name in names:
            monkeypatch.setitem(sys.modules, name, None)

    return hide


def embedder_of(name: str) -> Embedder:
    embedder = open_embedder(name, MemorySettings())
    assert embedder is not None
    return embedder


def llm_of(name: str) -> Llm:
    model = open_llm(name, MemorySettings())
    assert model is not None
    return model


def needs(extra: str) -> Any:
    return pytest.raises(ConfigurationError, match=rf'pip install "kagent-memory\[{extra}\]"')


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "kagent+postgresql"])
@pytest.mark.parametrize("missing", ["psycopg", "pgvector"])
async def test_postgresql_names_its_extra(without: Any, scheme: str, missing: str) -> None:
    """Opening PostgreSQL without its driver names the extra to install."""
    without(missing, ours="kagent_memory.stores.postgres")
    with needs("postgres"):
        await Memories.open(f"{scheme}://nobody@127.0.0.1:9/none", llm=False)


@pytest.mark.parametrize(
    ("package", "extra", "options"),
    [
        ("psycopg", "pgserver", {"uri": "pgserver:///{folder}/data"}),
        ("cryptography", "encryption", {"encryption_keys": "id:" + "A" * 43}),
        ("onnxruntime", "local", {"embedding": "local/any"}),
        ("onnxruntime", "local", {"rerank": "local/any"}),
        ("litellm", "litellm", {"embedding": "cohere/embed-v4.0"}),
        ("litellm", "litellm", {"embedding": "bedrock/any"}),
        ("litellm", "litellm", {"embedding": "azure/any"}),
    ],
)
async def test_an_option_names_its_extra_before_a_file_is_made(
    without: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    package: str,
    extra: str,
    options: dict[str, Any],
) -> None:
    """An option that needs a missing package names the extra that brings it, and makes nothing."""
    monkeypatch.setenv("AZURE_API_BASE", "http://127.0.0.1:9")
    without(package, ours="kagent_memory.stores.postgres")
    given = {"uri": "libsql:///{folder}/memory.db", **options}
    with needs(extra):
        await Memories.open(given.pop("uri").format(folder=tmp_path), llm=False, **given)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(autouse=True)
async def _clients_hang_up() -> AsyncIterator[None]:
    yield
    await hang_up()


@pytest.fixture
def gemini(monkeypatch: pytest.MonkeyPatch, without: Any) -> Iterator[Loopback]:
    """Gemini's OpenAI-compatible interface on loopback, where LiteLLM is not installed."""
    without("litellm")
    with Loopback() as provider:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", f"{provider.root}/")
        monkeypatch.setenv("GOOGLE_API_KEY", "not-a-key")
        monkeypatch.delenv("GEMINI_API_KEY", raising=False)
        monkeypatch.delenv("GOOGLE_GENAI_USE_VERTEXAI", raising=False)
        yield provider


async def test_a_newcomer_with_gemini_needs_no_extra(gemini: Loopback, tmp_path: Path) -> None:
    """Gemini models work without LiteLLM."""
    scope = Scope("", "ada", "notes")
    uri = f"libsql:///{tmp_path}/memory.db"
    async with await Memories.open(
        uri, embedding="gemini-embedding-001", llm="gemini-2.5-flash"
    ) as memories:
        await memories.add(scope, ["Ada drinks green tea."])
        assert (await memories.recall(scope, "green tea")).mode == "hybrid"
    assert {request.path for request in gemini.requests} == {"/v1beta/openai/embeddings"}
    assert {request.headers["Authorization"] for request in gemini.requests} == {"Bearer not-a-key"}
    assert {request.body["model"] for request in gemini.requests} == {"gemini-embedding-001"}


async def test_what_one_call_is_told_to_keep_goes_with_no_other(gemini: Loopback) -> None:
    """A cookie set by one model call is not sent with another."""
    model = llm_of("gemini-2.5-flash")
    said = '{"facts": [], "when": null}'
    gemini.plan({"status": 503, "headers": {"Set-Cookie": "who=ada; Path=/"}}, said, said)
    for _ in range(2):
        await model.complete("What do I like?", schema=Tea)
    assert (len(gemini.requests), len(gemini.connections)) == (3, 1)
    assert not any("Cookie" in request.headers for request in gemini.requests)


async def test_closing_leaves_a_call_that_is_under_way_alone(gemini: Loopback) -> None:
    """Closing does not break a model call that is under way."""
    embedder = embedder_of("gemini-embedding-001")
    entered, release = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def held(_: Any) -> None:
        loop.call_soon_threadsafe(entered.set)
        release.wait(30)

    gemini.plan(held)
    calling = asyncio.create_task(embedder.embed(["tea"], kind="query"))
    await entered.wait()
    await close_connections()
    release.set()
    assert (await calling).shape == (1, 8)
    await close_connections()
    await embedder.embed(["tea"], kind="query")
    assert len(gemini.connections) == 2


class Tea(BaseModel):
    facts: list[str]
    when: str | None = None


async def test_gemini_is_held_to_the_schema_without_litellm(gemini: Loopback) -> None:
    """Gemini gets the JSON schema of its answer without LiteLLM."""
    gemini.plan('{"facts": ["likes tea"], "when": null}')
    model = llm_of("gemini-2.5-flash")
    assert await model.complete("What do I like?", schema=Tea) == Tea(facts=["likes tea"])
    (request,) = gemini.requests
    assert request.path == "/v1beta/openai/chat/completions"
    assert "facts" in request.body["response_format"]["json_schema"]["schema"]["properties"]


@pytest.mark.parametrize(
    ("choice", "advice"),
    [
        ("hosted_vllm/bge-m3", "set HOSTED_VLLM_API_BASE"),
        (
            {"provider": "openai", "model": "bge-m3", "base_url": "localhost:8000"},
            "set OPENAI_API_BASE to http://",
        ),
        ("bge-m3", r"kagent-memory\[litellm\]"),
        ("vertex_ai/text-embedding-005", r"kagent-memory\[litellm\]"),
    ],
)
def test_what_cannot_be_called_directly_says_what_to_do(
    without: Any, monkeypatch: pytest.MonkeyPatch, choice: Any, advice: str
) -> None:
    """A model that needs LiteLLM or an address says what to install or set."""
    without("litellm")
    for name in ("HOSTED_VLLM_API_BASE", "OPENAI_API_BASE", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigurationError, match=advice):
        open_embedder(choice, MemorySettings())


@pytest.mark.parametrize(
    ("model", "key"), [("openai/any", "OPENAI_API_KEY"), ("gemini/any", "GEMINI_API_KEY")]
)
async def test_a_key_that_is_not_there_is_named_and_nothing_is_sent(
    without: Any, monkeypatch: pytest.MonkeyPatch, model: str, key: str
) -> None:
    """A missing API key is named by its variable and no request is sent."""
    without("litellm")
    for name in (
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "OPENAI_API_BASE",
        "GOOGLE_GEMINI_BASE_URL",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    embedder = embedder_of(model)
    with pytest.raises(ModelError, match=f"set {key}"):
        await embedder.embed(["tea"], kind="query")


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {},
        {"data": None},
        {"data": [1]},
        {"data": [{"embedding": None}]},
        {"data": [{"embedding": "tea"}]},
    ],
    ids=repr,
)
async def test_an_answer_of_another_shape_is_a_model_error(gemini: Loopback, answer: Any) -> None:
    """An answer of another shape is a model error that quotes nothing."""
    gemini.plan({"json": answer})
    embedder = embedder_of("gemini/any")
    with pytest.raises(ModelError) as caught:
        await embedder.embed(["my secret garden"], kind="document")
    assert "garden" not in str(caught.value)
    assert "not-a-key" not in str(caught.value)


async def test_a_refusal_is_told_without_text_and_key(gemini: Loopback) -> None:
    """A refusal that quotes the text or the key is told without them."""
    key = "sk-proj-" + "a1B2" * 12
    gemini.plan(
        {"status": 400, "message": f"Bad input: my secret garden; key {key}"}, {"status": 404}
    )
    embedder = embedder_of("gemini/any")
    with pytest.raises(ModelError) as caught:
        await embedder.embed(["my secret garden"], kind="document")
    assert "garden" not in str(caught.value)
    assert key not in str(caught.value)
    with pytest.raises(ModelError, match="404: planned"):
        await embedder.embed(["my secret garden"], kind="document")


async def test_a_file_and_words_need_no_extra(without: Any, tmp_path: Path) -> None:
    """A local file with text search works without any extra."""
    without(
        "litellm",
        "psycopg",
        "pgvector",
        "libsql",
        "fastapi",
        "jinja2",
        "uvicorn",
        "grpc",
        "mcp",
        "phonenumbers",
    )
    scope = Scope("", "ada", "notes")
    async with await Memories.open(f"libsql:///{tmp_path}/memory.db") as memories:
        await memories.add(scope, ["Ada drinks green tea."])
        assert [hit.memory.content for hit in await memories.recall(scope, "tea")] == [
            "Ada drinks green tea."
        ]
