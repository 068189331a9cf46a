"""`kagent-memory reembed` from the shell's side: another model for a store that holds vectors of
one already.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from loopback import Loopback, hang_up

from kagent_memory import cli

from .conftest import OF_ADA, Run


@pytest.fixture(autouse=True)
def _clients_go_with_their_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Close what LiteLLM keeps open for a command's loop before the loop is."""
    perform: Callable[..., Any] = cli.perform_call

    async def performed(*arguments: Any) -> int:
        try:
            return await perform(*arguments)
        finally:
            await hang_up()

    monkeypatch.setattr(cli, "perform_call", performed)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch):
    with Loopback(dimensions=8) as provider:
        monkeypatch.setenv("OPENAI_API_KEY", "none")

        def named(name: str) -> str:
            return json.dumps({"provider": "openai", "model": name, "base_url": provider.url})

        yield named


def test_a_store_goes_from_one_model_to_another(model: Any, uri: str, run: Callable[..., Run]):
    """A store serves one embedder: another is refused until `reembed` makes it the store's own."""
    search = ("search", "oolong", *OF_ADA, "--json")
    old, new = (("--embedding", model(f"text-embedding-3-{size}")) for size in ("small", "large"))
    assert run("add", "Oolong is a tea.", *OF_ADA, *old).code == 0
    refused = run(*search[:-1], *new)
    assert (refused.code, "kagent-memory reembed --embedding" in refused.err) == (5, True)
    unnamed = run("reembed")
    assert (unnamed.code, "Name the embedder" in unnamed.err) == (5, True)
    result = run("reembed", *new, "--drop-old", "--json").json
    assert (result["memories"], len(result["dropped"])) == (1, 1)
    assert [run(*search, *embedding).code for embedding in (new, old)] == [0, 5]
    assert run("reembed", "--uri", "http://127.0.0.1:9", *new).code == 5
