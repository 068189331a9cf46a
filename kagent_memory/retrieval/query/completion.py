"""Vague follow-ups completed from what was said before; on wish rewritten by a model."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import BaseModel

from ...language.tokenizer import STOP_WORDS, tokens
from ...models.llm import Llm
from ...models.prompts import filled, prompt
from ...models.prompts.escaping import escaped, unescaped
from .query_words import (
    ASKING,
    CONTINUATIONS,
    CONTINUING,
    POINTERS,
    POINTERS_UNSPACED,
    POLITE_ENDINGS,
    bare,
    plain,
    wide,
)

EARLIER_TURNS = 3
EARLIER_CHARS = 300
FEW_WORDS = 6
MAX_ANSWER_CHARS = 2_000
FEW_CHARS = 4
_NAMING = frozenset("@_/")  # signs within what names something
_POINTING = re.compile("|".join(map(re.escape, POINTERS_UNSPACED)))
_POLITE = re.compile(rf"(?:{'|'.join(POLITE_ENDINGS)})$")


def complete(text: str, earlier: Sequence[str]) -> str:
    """A vague or short follow-up ("how much?") with the last three user turns before it; anything
    else as it is.

    Args:
        text: what the user says now.
        earlier: the user's turns before it, oldest first. Turns without a telling word are passed
            over.
    """
    if not is_vague(text):
        return text
    telling = [turn.strip()[:EARLIER_CHARS] for turn in earlier[-EARLIER_TURNS:] if _telling(turn)]
    return "\n".join([*telling, text])


def is_vague(text: str) -> bool:
    """Return True if a text says too little of what it is about to be searched alone."""
    if len(text) > EARLIER_CHARS:
        return False
    if wide(text):
        unspaced = bare(text)
        is_pointing = len(unspaced) <= 2 * FEW_CHARS and bool(_POINTING.match(unspaced))
        return is_pointing or len(_POLITE.sub("", unspaced)) <= FEW_CHARS
    folded = plain(text)
    words = folded.split()
    telling = _telling(
        " ".join(word for word in words if word not in ASKING and word not in POINTERS)
    )
    if not telling:
        return True
    if any(map(str.isdigit, folded)) or not _NAMING.isdisjoint(folded):
        return False
    if len(words) <= FEW_WORDS and (words[0] in CONTINUING or folded.startswith(CONTINUATIONS)):
        return True
    if not POINTERS.isdisjoint(words):
        return len(telling) <= 2 and len(words) <= 8
    return len(words) <= 2 and text.rstrip().endswith("?")


def _telling(text: str) -> list[str]:
    return [term for term in tokens(text) if term not in STOP_WORDS]


class SearchQuery(BaseModel):
    """Answer of the model that rewrites a query."""

    query: str


async def rewrite(llm: Llm, text: str, earlier: Sequence[str] = ()) -> str:
    """Return the text as a query that stands alone, or as it is if the model says nothing.

    Raises:
        ModelError: the model is away or answers what cannot be used.
    """
    asked = filled(
        prompt("rewrite_query"),
        message=escaped(text),
        earlier="\n".join(map(escaped, earlier[-EARLIER_TURNS:])),
    )
    answer = await llm.complete(asked, schema=SearchQuery)
    # as an embedder and a database take it: valid Unicode without NUL, not endless
    query = unescaped(answer.query[:MAX_ANSWER_CHARS]).encode(errors="replace").decode()
    return query.replace("\0", " ").strip() or text
