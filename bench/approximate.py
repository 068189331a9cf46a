"""Exact and approximate search of one large scope in memory: what each takes, and what the approximate one misses.

    python bench/approximate.py locomo.json realtalk.json              # 40,000 real texts are embedded once; an hour
    python bench/approximate.py locomo.json realtalk.json --hnsw --markdown docs/benchmarks.md   # and pgvector's HNSW

The memories are turns of the conversations and paragraphs of the docstrings of what Python has installed, as MiniLM
embeds them. Where a scope is larger than that, the others are made of two real ones each: 3 parts, 1 part, and noise.
On topic: the scope holds both, and is asked the conversations' questions, and other paragraphs. Off topic: it holds
paragraphs only, and is asked the questions. 200 are looked for, as in a recall; what counts is how many of the 10 and
of the 100 nearest are among the first 10 and 100 found. Times are those of the fastest of 60 searches, taken in turn.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import random
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import psycopg
from growth import private_postgres
from locomo import conversations
from minilm import DEFAULT_CACHE, DIMENSIONS, MiniLM
from pages import replace_table

from kagent_memory.stores.vector_index import ScopeVectors, search

LIMIT = 200
ASKED = 300
ROUNDS = 60
Vectors = npt.NDArray[np.float32]
Finder = Callable[[Vectors], list[str]]


def paragraphs() -> Iterator[str]:
    """Paragraphs of docstrings, from files in the same chance order at every run."""
    seen: set[str] = set()
    files = sorted(path for name in ("stdlib", "purelib") for path in Path(sysconfig.get_path(name)).rglob("*.py"))
    random.Random(1).shuffle(files)
    for path in files:
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, ValueError, RecursionError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                for paragraph in (ast.get_docstring(node) or "").split("\n\n"):
                    text = " ".join(paragraph.split())
                    if 40 <= len(text) <= 240 and ">>>" not in text and text[0].isalpha() and text not in seen:
                        seen.add(text)
                        yield text


def grown(vectors: Vectors, size: int, chance: np.random.Generator) -> Vectors:
    """So many vectors, real ones first."""
    more = max(0, size - len(vectors))
    first, second = vectors[chance.integers(len(vectors), size=(2, more))]
    made = first + second / 3 + 0.02 * chance.standard_normal(first.shape).astype(np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return np.concatenate([vectors[chance.permutation(len(vectors))[:size]], made])


def in_memory(vectors: Vectors) -> Mapping[str, Finder]:
    held = ScopeVectors(DIMENSIONS)
    held.take([f"{number:08}" for number in range(len(vectors))], vectors.astype(np.float16))

    def finder(above: int) -> Finder:
        return lambda query: [id for id, _ in search(held, [query], LIMIT, None, approximate_above=above)[0]]

    return {"exact": finder(0), "approximate": finder(1)}


def hnsw(connection: psycopg.Connection, vectors: Vectors) -> Finder:
    """An index of pgvector over the same vectors."""
    connection.execute("DROP TABLE IF EXISTS near")
    connection.execute(f"CREATE TABLE near (id text, embedding halfvec({DIMENSIONS}))")
    with connection.cursor().copy("COPY near FROM STDIN") as copy:
        for number, vector in enumerate(vectors):
            copy.write_row((f"{number:08}", str(vector.tolist())))
    connection.execute("SET maintenance_work_mem = '1GB'")
    connection.execute("CREATE INDEX ON near USING hnsw (embedding halfvec_cosine_ops)")
    connection.execute(f"SET hnsw.ef_search = {LIMIT}")
    connection.execute("SET enable_seqscan = off")
    ask = f"SELECT id FROM near ORDER BY embedding <=> %s::halfvec LIMIT {LIMIT}"
    return lambda query: [id for (id,) in connection.execute(ask, [str(query.tolist())], prepare=True)]


def measured(finders: Mapping[str, Finder], queries: Vectors) -> Mapping[str, list[float]]:
    """Of each finder: milliseconds, recall@10, recall@100."""
    milliseconds = dict.fromkeys(finders, np.inf)
    for query in queries[:ROUNDS]:
        for name, find in finders.items():
            start = time.perf_counter()
            find(query)
            milliseconds[name] = min(milliseconds[name], (time.perf_counter() - start) * 1000)
    shared = {name: np.zeros(2) for name in finders}
    for query in queries:
        nearest = finders["exact"](query)
        for name, find in finders.items():
            found = find(query)
            shared[name] += [len({*found[:count]} & {*nearest[:count]}) / count for count in (10, 100)]
    return {name: [milliseconds[name], *shared[name] / len(queries)] for name in finders}


async def main(options: argparse.Namespace) -> None:
    embedder, chance = MiniLM(options.cache), np.random.default_rng(0)
    talks = [one for path in options.data for one in conversations(path, prefix=False)]
    turns = {f"{note.author}: {note.text}" for talk in talks for note in talk.notes}
    asked = sorted({one.question for talk in talks for one in talk.asked})
    documents = list(islice(paragraphs(), options.paragraphs + ASKED))
    said, about = [await embedder.embed(texts, kind="document") for texts in (sorted(turns), documents)]
    questions = (await embedder.embed(asked, kind="query"))[chance.permutation(len(asked))[:ASKED]]
    kinds = {
        "on topic": (np.concatenate([said, about[ASKED:]]), np.concatenate([questions, about[:ASKED]])),
        "off topic": (about[ASKED:], questions),
    }
    heads = ["exact: ms", *(f"{name}: ms, recall@10, @100" for name in ["approximate", "HNSW"][: 1 + options.hnsw])]
    made = [f"| {' | '.join(['memories searched in memory', 'questions', *heads])} |", "|---" * (2 + len(heads)) + "|"]
    with private_postgres(None) as uri, psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        for size in options.sizes:
            for kind, (vectors, queries) in kinds.items():
                scope = grown(vectors, size, chance)
                finders = {**in_memory(scope), **({"HNSW": hnsw(connection, scope)} if options.hnsw else {})}
                (exact, *_), *others = measured(finders, chance.permutation(queries)).values()
                cells = [f"{exact:.1f}", *(f"{spent:.1f}, {ten:.3f}, {all:.3f}" for spent, ten, all in others)]
                made.append(f"| {size:,} | {kind} | " + " | ".join(cells) + " |")
                print(made[-1], flush=True)
    if options.markdown:
        replace_table(options.markdown, made, f"{len(said):,} turns, {len(about) - ASKED:,} paragraphs")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+", help="locomo.json, realtalk.json")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help="where embeddings are kept")
    parser.add_argument("--paragraphs", type=int, default=35_000)
    parser.add_argument("--sizes", type=int, nargs="+", default=[5_000, 20_000, 50_000, 100_000])
    parser.add_argument("--hnsw", action="store_true", help="pgvector's HNSW as well, ef_search 200, privately")
    parser.add_argument("--markdown", type=Path, help="the page whose table is replaced")
    asyncio.run(main(parser.parse_args()))
