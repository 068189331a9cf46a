"""One tokenizer for all stores: the index terms of a memory, the search terms of a query, a text's identity."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence

MAX_TERM_CHARS = 64
_WORD = re.compile(r"\w+", re.UNICODE)


def tokens(text: str) -> list[str]:
    """The terms of a text in their order, as they are indexed and searched."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return [word[:MAX_TERM_CHARS] for word in _WORD.findall(folded)]


def index_terms(content: str, author: str | None = None) -> Mapping[str, int]:
    """Term → count of what is stored for one memory; the author's name counts as one of its words."""
    counts = Counter(tokens(content))
    for term in tokens(author or ""):
        counts.setdefault(term, 1)
    return counts


def query_terms(text: str) -> Sequence[str]:
    """The distinct terms a query is searched by, in their order."""
    return list(dict.fromkeys(tokens(text)))


def normalised(text: str) -> str:
    """The text as compared for equality: NFKC, case folded, white space and closing punctuation aside."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(".!… ")


def identity(content: str, *, verbatim: bool, event_ids: Sequence[str] = ()) -> bytes:
    """16 bytes that two memories share when they are the same one.

    Facts are the same by their normalised text; verbatim turns by their text and their event, since the same words
    said twice are two turns.
    """
    digest = hashlib.blake2b(digest_size=16, person=b"turn" if verbatim else b"fact")
    digest.update((content if verbatim else normalised(content)).encode())
    for event_id in event_ids if verbatim else ():
        raw = event_id.encode()
        digest.update(b"\0" + len(raw).to_bytes(8, "big") + raw)
    return digest.digest()
