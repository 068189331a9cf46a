"""A file that libSQL encrypts as a whole: nothing of it is read without its key, and its key is
nowhere to be seen.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kagent_memory import Memories
from kagent_memory.errors import ConfigurationError
from kagent_memory.records import Scope
from kagent_memory.settings import MemorySettings, compose
from kagent_memory.stores import open_store
from kagent_memory.testing import HashEmbedder

KEY = "of the 'file' \" ü 秘密"
ADA = Scope("Quokka77", "ada", "Wombat88")
CANARIES = tuple(
    word.encode()
    for word in ("quokka77", "Quokka77", "Wombat88", "oolong", "CREATE TABLE", "SQLite")
)


async def opened(uri: str, key: str | None = KEY) -> Memories:
    embedder = HashEmbedder(dimensions=16)
    return await Memories.open(
        uri, embedding=embedder, llm=False, worker=False, file_encryption_key=key
    )


def on_disk(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


async def test_an_encrypted_file_tells_nothing_without_its_key(tmp_path: Path) -> None:
    """A file tells nothing without its key and everything with it."""
    uri = f"libsql:///{tmp_path}/memory.db"
    async with await opened(uri) as memories, await opened(uri) as others:
        ids = await memories.add(ADA, [f"Ada drinks oolong in room {n}" for n in range(50)])
        await others.forget(ADA, ids[:10])
        assert (await others.recall(ADA, "oolong in room 33")).hits
        assert (tmp_path / "memory.db-wal").exists()
        seen = on_disk(tmp_path)
    for held in (seen, on_disk(tmp_path)):
        assert [canary for canary in CANARIES if canary in held] == []
    for key in (None, "another"):
        with pytest.raises(ConfigurationError, match="file_encryption_key"):
            await opened(uri, key)
    async with await opened(uri) as memories:
        assert len((await memories.list(ADA)).memories) == 40


async def test_a_plain_file_is_refused_with_a_key_and_stays_as_it_is(tmp_path: Path) -> None:
    """A key does not open a plain file, nor change it."""
    uri = f"libsql:///{tmp_path}/memory.db"
    async with await opened(uri, None) as memories:
        await memories.add(ADA, ["Ada drinks oolong"])
    before = on_disk(tmp_path)
    with pytest.raises(ConfigurationError, match="file_encryption_key"):
        await opened(uri)
    assert on_disk(tmp_path) == before


@pytest.mark.parametrize(
    ("uri", "options", "told"),
    [
        ("libsql:///{}/m.db", {"file_encryption_key": ""}, "not empty"),
        ("libsql:///{}/m.db", {"file_encryption_key": "a\0b"}, "printable"),
        ("libsql:///:memory:", {}, "memory: has none"),
        ("libsql+http://localhost:1", {}, "a server encrypts its own"),
        ("postgresql://localhost:1/none", {}, "use libsql:///"),
    ],
)
async def test_a_key_that_encrypts_nothing_is_refused(
    tmp_path: Path, uri: str, options: dict[str, Any], told: str
) -> None:
    """A key that encrypts nothing is refused before anything is made."""
    options = {"file_encryption_key": KEY, **options}
    with pytest.raises(ConfigurationError, match=told):
        await open_store(uri.format(tmp_path), **options)
    assert list(tmp_path.iterdir()) == []


def test_the_key_is_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key is shown nowhere and taken from the environment alone."""
    monkeypatch.setenv("KAGENT_MEMORY_FILE_ENCRYPTION_KEY", "wallaby")
    settings = compose("libsql:///m.db", None, {}, os.environ)[1]
    assert settings.file_encryption_key == "wallaby"
    assert "wallaby" not in repr(settings)
    with pytest.raises(ConfigurationError, match="KAGENT_MEMORY_FILE_ENCRYPTION_KEY") as refused:
        compose("libsql:///m.db?file_encryption_key=wallaby", None, {}, {})
    assert "wallaby" not in str(refused.value)
    assert "wallaby" not in repr(MemorySettings(file_encryption_key="wallaby"))
