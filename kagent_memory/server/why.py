"""Why a memory was found, in words a person reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..records import Hit

SIGNS: Mapping[str, str] = {
    "match": "what it says itself",
    "window": "what was said around it",
    "answer": "it follows a question that matches",
    "session": "its whole conversation",
    "month": "it is from the month you name",
    "day": "it is from the day you name",
    "when": "it names a time, and you ask for one",
    "author": "it was said by somebody you name",
    "length": "how much it says",
    "question": "it only asks something",
    "opening": "its conversation began with it",
    "recency": "how recent it is",
    "importance": "how important it is",
    "deliveries": "how often agents were given it",
    "feedback": "whether it helped or misled",
    "standing": "how it was used so far",
    "rerank": "the reranker's judgement",
}


def sentences(hit: Hit) -> list[str]:
    """What found a memory."""
    why: Mapping[str, Any] = hit.why
    legs: Sequence[str] = why.get("legs", ())
    said: list[str] = []
    if "text" in legs:
        said.append(f"It shares words with your question; {_place(why.get('text_rank'))} by words.")
    if hit.cosine is not None:
        said.append(
            f"Its meaning is {hit.cosine:.0%} like your question's; {_place(why.get('vector_rank'))} by meaning."
        )
    if "date" in legs:
        said.append("It is from the time that your question names.")
    if not said:
        said.append("What stands beside it in its conversation matches your question.")
    return said


def _place(rank: object) -> str:
    return "the best match" if rank == 1 else f"number {rank}"


def contributions(hit: Hit) -> list[tuple[str, str]]:
    """What its score is made of, the largest first: what counts, and how much it gave or took."""
    scores: Mapping[str, float] = hit.why.get("scores", {})
    ordered = sorted(scores.items(), key=lambda pair: -abs(pair[1]))
    return [(SIGNS.get(name, name.replace("_", " ")), f"{value:+.3f}".replace("-", "−")) for name, value in ordered]
