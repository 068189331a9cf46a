"""`kagent-memory reembed` from the shell's side: another model for a store that holds vectors of
one already.
"""

from __future__ import annotations

import gc
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loopback import Loopback

from kagent_memory.cli import main


@pytest.fixture(autouse=True)
def _clients_go_with_their_loop() -> Iterator[None]:
    """Collect what LiteLLM keeps open for a command's loop, which is closed, in this test."""
    yield
    if module := sys.modules.get("litellm"):
        module.in_memory_llm_clients_cache.flush_cache()
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        gc.collect()


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch):
    with Loopback(dimensions=8) as provider:
        monkeypatch.setenv("OPENAI_API_KEY", "none")

        def named(name: str) -> str:
            return json.dumps({"provider": "openai", "model": name, "base_url": provider.url})

        yield named


def test_a_store_goes_from_one_model_to_another(
    model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """A store serves one embedder: another is refused until `reembed` makes it the store's own."""
    uri = ["--uri", f"libsql:///{tmp_path}/memory.db"]
    scope = ["--app", "demo", "--user", "ada"]
    old, new = (
        ["--embedding", model("text-embedding-3-small")],
        ["--embedding", model("text-embedding-3-large")],
    )
    assert main(["add", "Oolong is a tea.", *scope, *uri, *old]) == 0
    assert main(["search", "oolong", *scope, *uri, *new]) == 5
    assert "kagent-memory reembed --embedding" in capsys.readouterr().err
    assert main(["reembed", *uri]) == 5
    assert "Name the embedder" in capsys.readouterr().err
    assert main(["reembed", *uri, *new, "--drop-old", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["memories"], len(done["dropped"])) == (1, 1)
    assert main(["search", "oolong", *scope, *uri, *new, "--json"]) == 0
    assert main(["search", "oolong", *scope, *uri, *old]) == 5
    assert main(["reembed", "--uri", "http://127.0.0.1:9", *new]) == 5
