"""Evidence recall on LoCoMo: each turn is one memory of one user; how many of a question's evidence turns are found?

    python bench/locomo.py locomo10.json [--pgserver] [--only hybrid] [--out results.json]

Takes REALTALK in the same shape; there a turn has a time of its own (`at`).

The data set (Maharana et al. 2024, "Evaluating Very Long-Term Conversational Memory of LLM Agents") is not part of this
repository. Its categories: 1 multi-hop, 2 temporal, 3 open-domain, 4 single-hop, 5 adversarial.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from conversations import conversations
from minilm import DEFAULT_CACHE, MiniLM
from report import compare, embed_all, show, write
from systems import catalogue

from kagent_memory.models.embedding import open_embedder
from kagent_memory.settings import MemorySettings


async def run(options: argparse.Namespace) -> None:
    users = {one.user: (one.notes, one.asked) for one in conversations(options.data, prefix=options.prefix)}
    embedder = open_embedder(options.embedding, MemorySettings()) or MiniLM(options.cache)
    await embed_all(embedder, users)
    uris = ["libsql:///{folder}/memory.db", *(["pgserver:///{folder}/postgres"] if options.pgserver else [])]
    systems = catalogue([*uris, *options.uri], embedder)
    chosen = {name: opener for name, opener in systems.items() if not options.only or options.only in name}
    results = await compare(chosen, users)
    show(results)
    if options.out:
        write(options.out, results)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a LoCoMo JSON file")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help="where embeddings are kept")
    parser.add_argument("--embedding", help="an embedder as embedding= names it; none: MiniLM, kept in --cache")
    parser.add_argument("--uri", action="append", default=[], help="another store; {folder} becomes a temporary folder")
    parser.add_argument("--pgserver", action="store_true", help="also on a private PostgreSQL (extra [pgserver])")
    parser.add_argument("--prefix", action="store_true", help="store 'Speaker: text' instead of text with an author")
    parser.add_argument("--only", default="", help="only systems whose name holds this")
    parser.add_argument("--out", type=Path, help="write the figures as JSON, for plot.py")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(run(parsed()))
