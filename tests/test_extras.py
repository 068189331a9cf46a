"""Without an extra all goes on that does not need it; what does says which one, once and before
anything is made.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from memories.opening import ADA, contents

from kagent_memory import KagentMemoryService, LlmSummary
from kagent_memory.cli import main
from kagent_memory.errors import ConfigurationError
from kagent_memory.memories import Memories


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


def needs(extra: str) -> Any:
    return pytest.raises(ConfigurationError, match=rf'pip install "kagent-memory\[{extra}\]"')


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "kagent+postgresql"])
@pytest.mark.parametrize("missing", ["psycopg", "pgvector"])
async def test_postgresql_names_its_extra(without: Any, scheme: str, missing: str):
    """Opening PostgreSQL without its driver names the extra to install."""
    without(missing, ours="kagent_memory.stores.postgres")
    with needs("postgres"):
        await Memories.open(f"{scheme}://nobody@127.0.0.1:9/none", llm=False)


@pytest.mark.parametrize(
    ("package", "extra", "options"),
    [
        ("psycopg", "pgserver", {"uri": "pgserver:///{folder}/data"}),
        ("cryptography", "encryption", {"encryption_keys": "id:" + "A" * 43}),
        ("fastembed", "local", {"embedding": "local/any"}),
        ("litellm", "litellm", {"embedding": "gemini-embedding-001"}),
        ("litellm", "litellm", {"llm": "openai/any"}),
        ("litellm", "litellm", {"rerank": "cohere/any"}),
        ("litellm", "litellm", {"summary": LlmSummary("openai/any")}),
    ],
)
async def test_an_option_names_its_extra_before_a_file_is_made(
    without: Any,
    tmp_path: Path,
    package: str,
    extra: str,
    options: dict[str, Any],
):
    """An option that needs a missing package names the extra that brings it, and makes nothing."""
    without(package, ours="kagent_memory.stores.postgres")
    arguments: dict[str, Any] = {"uri": "libsql:///{folder}/memory.db", "llm": False, **options}
    with needs(extra):
        await Memories.open(arguments.pop("uri").format(folder=tmp_path), **arguments)
    assert list(tmp_path.iterdir()) == []


async def test_gemini_needs_no_extra_as_a_language_model(without: Any):
    """A name of a language model that ADK itself knows is called through ADK, without LiteLLM."""
    without("litellm")
    async with KagentMemoryService("libsql:///:memory:", llm="gemini-2.5-flash") as service:
        assert not await service.memories.jobs()


async def test_a_file_and_words_need_no_extra(without: Any, file_uri: str):
    """A local file with text search works without any extra."""
    without(
        "litellm",
        "psycopg",
        "pgvector",
        "fastapi",
        "jinja2",
        "uvicorn",
        "grpc",
        "mcp",
        "phonenumbers",
    )
    async with await Memories.open(file_uri) as memories:
        await memories.add(ADA, ["Ada drinks green tea."])
        assert contents(await memories.recall(ADA, "tea")) == ["Ada drinks green tea."]


@pytest.mark.parametrize(
    ("extra", "module", "words"),
    [
        ("server", "app", ["serve"]),
        ("grpc", "grpc_service", ["serve", "--port", "0", "--grpc-port", "0"]),
        ("mcp", "mcp_tools", ["mcp", "--app", "demo", "--user", "ada"]),
    ],
)
def test_a_server_names_the_extra_of_a_door(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    extra: str,
    module: str,
    words: list[str],
):
    """A server without what a door needs names the extra that brings it."""
    monkeypatch.setitem(sys.modules, f"kagent_memory.server.{module}", None)
    assert main([*words, "--uri", "libsql:///:memory:"]) == 5
    assert f'pip install "kagent-memory[{extra}]"' in capsys.readouterr().err
