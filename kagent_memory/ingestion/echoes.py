"""Echoes: what memory said is not learnt again when agents and tools repeat it.

What memory handed over goes before a transcript is queued, what memory holds before it is
extracted.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache, lru_cache
from itertools import chain
from typing import NamedTuple

from ..concurrency import run_in_thread
from ..language.tokenizer import EDGES, STOP_WORDS, denying_terms, tokens
from ..language.word_lists import all_words, table
from ..records import Memory, Message, Scope
from ..stores.base import MemoryStore
from .splitting import sentences_of

CANDIDATES = 100  # memories that a message may repeat
_CLAUSE_END = re.compile(r"[,;:—–!](?=\s)|[，；、！]|\s-\s")
# as recalled memories are shown with
_LABEL = re.compile(r"\[[^\[\]\n]{0,20}\d{4}-\d\d-\d\d[^\[\]\n]{0,80}\]")
_FIRST_UNSPACED = "\u0e00"  # Thai, and Chinese, Japanese and Korean behind it
_IDLE_PHRASES = re.compile(  # of scripts without spaces, the longest first
    "|".join(
        sorted(
            (word for word in table("echo_words")["idle"].split() if word >= _FIRST_UNSPACED),
            key=len,
            reverse=True,
        )
    )
)
_DENIAL = "-"  # no word is a term like this
_STEM = 4  # letters that the forms of a word share: "wohnst", "wohnt"
_MAX_SOURCES = 3  # known ones that one sentence may repeat
_MAX_HOLDERS = 32  # known sentences that are looked at for each term of a sentence


class _Sentence(NamedTuple):
    """Words of a sentence that tell what it says.

    Attributes:
        terms: its content words, and `_DENIAL` where it denies, ends or limits something.
        apart: those that stand alone between commas, as who is addressed does.
    """

    terms: frozenset[str]
    apart: frozenset[str]


def mask_recalled(messages: Sequence[Message], memories: Iterable[Memory] = ()) -> list[Message]:
    """Return the messages without what memory had said.

    A tool's answer that holds recalled texts goes whole. Of what agents and tools say, every
    sentence goes that is an echo: its content words were recalled, and it denies what they deny.
    What the user says stays, also a repeat word for word; only a block that was injected beside
    other lines goes. Messages that nothing is left of have no text.

    Args:
        messages: a transcript in its order.
        memories: those that may be echoed; what an agent said itself never is, as its same words
            twice are two turns.
    """
    statements = _Statements()
    for memory in memories:
        if not (memory.verbatim and memory.origin == "agent"):
            statements.add(memory.content, _days(memory))
    for recalled in dict.fromkeys(text for message in messages for text in message.recalled):
        statements.add(recalled)
    left: list[Message] = []
    for message in messages:
        text = _unmasked(message, statements)
        left.append(message if text == message.text else replace(message, text=text.strip()))
    return left


def _unmasked(message: Message, statements: _Statements) -> str:
    """Return what a message says that is not of memory."""
    if message.role == "user":
        text = message.text
        for block in filter(str.strip, message.recalled):
            text = _without_lines(text, block)
        return text if text.strip() else message.text
    if message.role == "tool" and message.recalled:
        return ""
    pieces = list(sentences_of(message.text))
    left = [piece for piece in pieces if not statements.hold(piece)]
    says_nothing = len(left) < len(pieces) and not any(map(content_terms, left))
    return "" if says_nothing else "".join(left)


class _Statements:
    """Known sentences by their content words.

    A sentence is compared with a bounded number of them, so that the work is linear.
    """

    def __init__(self) -> None:
        self._beside = defaultdict[frozenset[str], set[str]](set)
        self._words = set[str]()
        self._by_term = defaultdict[str, list[frozenset[str]]](list)

    def add(self, text: str, beside: str = "") -> None:
        """Add the sentences of a text, and what an echo may name with it, such as days."""
        named = {_key(term) for term in tokens(beside)}
        self._words |= named
        for terms, _ in map(_sentence, sentences_of(text)):
            for term in terms if terms not in self._beside else ():
                self._by_term[term].append(terms)
            self._beside[terms] |= named
            self._words |= terms

    def hold(self, piece: str) -> bool:
        """Return True for a sentence that is an echo.

        Scripts without spaces are read in parts of words, of which one in four may be another.
        """
        terms, apart = _sentence(piece)
        parts = {term for term in terms if term >= _FIRST_UNSPACED}
        if not terms - self._words <= parts:
            return False
        # "You like tea." repeats only what says no more; a word alone, such as "Dr.", nothing
        is_bare = len(terms) == 1 and (terms not in self._beside or len(piece.split()) == 1)
        told = terms - (apart & self._by_term.keys()) or terms  # but for who is addressed
        if is_bare or not (sources := self._repeated(told)):
            return False
        known = frozenset[str]().union(*sources, *(self._beside[source] for source in sources))
        added = told - known
        denies_alike = (_DENIAL in terms) == (_DENIAL in known)
        return denies_alike and added <= parts and 4 * len(added) <= len(parts)

    def _repeated(self, terms: frozenset[str]) -> Sequence[frozenset[str]]:
        """Return the known sentences that hold most of a sentence, each at least two of its content
        words.
        """
        sources: list[frozenset[str]] = []
        words = len(terms)
        while terms and len(sources) < _MAX_SOURCES:
            # a source holds the rarest word; of equal ones the same in every process
            holders = (self._by_term[term] for term in sorted(terms) if term in self._by_term)
            near = min(holders, key=len, default=list[frozenset[str]]())[-_MAX_HOLDERS:]
            best = max(near, key=lambda source: (len(terms & source), -len(source)), default=None)
            if best is None or len(terms & best) < min(2, len(best), words):
                break
            sources.append(best)
            terms -= best
        return sources


@lru_cache(maxsize=1 << 15)
def _word(chunk: str, is_first: bool) -> tuple[str, ...]:
    """Return what a word of a clause tells, by what its forms share.

    Behind the first word a capital may make a name of a function word.
    """
    may_be_name = not is_first and chunk.strip(EDGES)[:1].isupper()
    idle = _telling() if may_be_name else _idle()
    terms = tokens(chunk)  # as it was searched for: what its edges hold is no part of a term
    denial = () if denying_terms().isdisjoint(terms) else (_DENIAL,)
    return (*denial, *(_key(term) for term in terms if term not in idle))


@lru_cache(maxsize=1 << 13)
def _sentence(text: str) -> _Sentence:
    """Return what a sentence says."""
    terms: set[str] = set()
    apart: set[str] = set()
    bare = _LABEL.sub(" ", text) if "[" in text else text
    bare = bare if bare.isascii() else _IDLE_PHRASES.sub(" ", bare)
    for clause in _CLAUSE_END.split(bare):
        words = {key for n, chunk in enumerate(clause.split()) for key in _word(chunk, not n)}
        if not all(key == _DENIAL or _is_number(key) for key in words):  # "1.", "No problem,"
            terms |= words
            apart |= words if len(words) == 1 else set()
    return _Sentence(frozenset(terms), frozenset(apart))


def content_terms(text: str) -> frozenset[str]:
    """Return the content words of a text, by what their forms share."""
    return frozenset(chain.from_iterable(_sentence(piece).terms for piece in sentences_of(text)))


def _is_number(term: str) -> bool:
    """Return True for a number that may be one of a list."""
    return term.isdecimal() and len(term) < 4


def _key(term: str) -> str:
    """Return what the forms of a word share; numbers and identifiers stay whole."""
    return term[:_STEM] if term.isalpha() else term


@cache
def _telling() -> frozenset[str]:
    """Return English stop words, and the words of telling, courtesy and denial in any language."""
    idle = table("echo_words")["idle"].split()
    return STOP_WORDS.union(denying_terms(), idle, (term for word in idle for term in tokens(word)))


@cache
def _idle() -> frozenset[str]:
    """Return the words that an echo may add: `_telling` and function words of all languages."""
    words = all_words("function_words")
    return _telling().union(words, (term for word in words for term in tokens(word)))


def _without_lines(text: str, block: str) -> str:
    """Return the text without the block wherever it fills whole lines."""
    lines = (re.escape(line.strip(" \t")) for line in block.strip().split("\n"))
    # possessive: blanks beside an empty line would be tried in every division
    pattern = r"[ \t]*+\n[ \t]*+".join(lines)
    return re.sub(rf"(?m)^[ \t]*+{pattern}[ \t]*+(?:\n|\Z)", "", text)


async def without_recalled(
    store: MemoryStore,
    scope: Scope,
    messages: Sequence[Message],
    *,
    now: datetime,
) -> list[Message]:
    """Return the messages without echoes of memory.

    Args:
        store: whose memories.
        scope: of whom.
        messages: a transcript in its order.
        now: when.
    """
    said = [message.text for message in messages if message.role != "user" and message.text.strip()]
    if not said:
        return list(messages)
    view = await store.view(scope, now=now)
    matches = await view.texts(said, limit=CANDIDATES)
    found = (view.index.ids_of(of_query.matches.rows) for of_query in matches)
    recalled = await view.memories(list(dict.fromkeys(chain.from_iterable(found))))
    size = sum(map(len, said)) + sum(len(memory.content) for memory in recalled.values())
    left = await run_in_thread(size, mask_recalled, messages, recalled.values())
    return [message for message in left if message.text.strip()]


def _days(memory: Memory) -> str:
    """Return a memory's days in the ways in which they are written beside it."""
    return " ".join(
        f"{at:%Y-%m-%d, %H:%M, %A, %B %Y} {at.day} {at.day}st {at.day}nd {at.day}rd {at.day}th"
        for at in (memory.happened_at, memory.said_at, memory.created_at)
        if at is not None
    )
