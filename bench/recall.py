r"""Measure evidence recall on conversations: how many of a question's turns are found.

    python bench/recall.py locomo10.json realtalk.json beam.json \
        [--pgserver] [--only hybrid] [--out results]

Each turn is one memory of one user.

Asks our service, filled by `add_memory` and, as agents fill it, by `add_session_to_memory`; plain
cosine of the same vectors; Okapi BM25; and ADK's own two services. In conversations between `user`
and `assistant` exchanges are counted beside messages: a user's message with the answers to it,
found when one of its messages is.

None of the data sets is part of this repository: LoCoMo (Maharana et al. 2024, "Evaluating Very
Long-Term Conversational Memory of LLM Agents"), REALTALK (Lee et al. 2025) and BEAM (Tavakoli et
al. 2025, arXiv 2510.27246), all in LoCoMo's shape.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from conversations import Conversation, conversations, exchanges
from measures import Answer, recall_at
from minilm import DEFAULT_CACHE, MiniLM
from report import compare, embed_all, show, write
from systems import catalogue

from kagent_memory.models.embedding import open_embedder
from kagent_memory.settings import MemorySettings

Results = Mapping[str, Sequence[Answer]]


async def run(options: argparse.Namespace) -> None:
    """Ask every system every question of every set, and print the tables."""
    embedder = open_embedder(options.embedding, MemorySettings()) or MiniLM(
        options.cache, options.model_python
    )
    uris = [
        "libsql:///{folder}/memory.db",
        *(["pgserver:///{folder}/postgres"] if options.pgserver else []),
    ]
    systems = catalogue([*uris, *options.uri], embedder)
    chosen = {
        name: opener for name, opener in systems.items() if not options.only or options.only in name
    }
    columns: dict[str, dict[str, str]] = {}
    for path in options.data:
        talks = conversations(path, prefix=options.prefix)
        users = {talk.user: (talk.notes, talk.questions) for talk in talks}
        await embed_all(embedder, users)
        results = await compare(chosen, users)
        if options.details:
            show(results)
        if options.out:
            options.out.mkdir(parents=True, exist_ok=True)
            write(options.out / path.name, results)
        columns |= {f"{path.stem}{unit}": cells for unit, cells in _columns(results, talks).items()}
    print("\n| recall@5 / @10 | " + " | ".join(columns) + " |\n|" + "---|" * (len(columns) + 1))
    for name in chosen:
        print("| " + " | ".join([name, *(cells[name] for cells in columns.values())]) + " |")


def _columns(results: Results, talks: Sequence[Conversation]) -> dict[str, dict[str, str]]:
    """Return recall@5 and @10 of each system by unit: turns, and exchanges if there are any."""
    columns = {"": {name: _cell(answers) for name, answers in results.items()}}
    by_user = {talk.user: exchanges(talk) for talk in talks}
    if all(by_user.values()):
        grouped = {
            name: [_by_exchange(answer, by_user) for answer in answers]
            for name, answers in results.items()
        }
        columns[", exchanges"] = {name: _cell(answers) for name, answers in grouped.items()}
    return columns


def _by_exchange(answer: Answer, by_user: Mapping[str, Mapping[str, str]]) -> Answer:
    exchange = by_user[answer.group]
    ranked = tuple(exchange[key] for key in answer.ranked)
    return Answer(
        answer.group, answer.category, ranked, frozenset(exchange[key] for key in answer.evidence)
    )


def _cell(answers: Sequence[Answer]) -> str:
    return " / ".join(f"{recall_at(k, answers):.3f}".removeprefix("0") for k in (5, 10))


def parsed() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="+", help="JSON files in LoCoMo's shape")
    parser.add_argument(
        "--cache", type=Path, default=DEFAULT_CACHE, help="where embeddings are kept"
    )
    parser.add_argument("--model-python", help="a Python that has MiniLM, where this one lacks it")
    parser.add_argument(
        "--embedding", help="an embedder as embedding= names it; none: MiniLM, kept in --cache"
    )
    parser.add_argument(
        "--uri",
        action="append",
        default=[],
        help="another store; {folder} becomes a temporary folder",
    )
    parser.add_argument(
        "--pgserver", action="store_true", help="also on a private PostgreSQL (extra [pgserver])"
    )
    parser.add_argument(
        "--prefix", action="store_true", help="store 'Speaker: text' instead of text with an author"
    )
    parser.add_argument("--only", default="", help="only systems whose name holds this")
    parser.add_argument(
        "--details", action="store_true", help="all measures, by category and by conversation"
    )
    parser.add_argument("--out", type=Path, help="a folder for the figures as JSON, for plot.py")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(run(parsed()))
