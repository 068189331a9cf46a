"""Remove echoes: an agent or tool that repeats a memory teaches nothing new.

Recalled texts are removed before a transcript is queued, stored memories before its facts are
extracted.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache, lru_cache
from heapq import nsmallest
from itertools import chain
from typing import NamedTuple

from ..concurrency import LONG, run_in_thread
from ..language.tokenizer import EDGES, STOP_WORDS, denying_terms, tokens
from ..language.word_lists import all_words, table
from ..records import Memory, Message, Scope
from ..stores.base import MemoryStore
from .splitting import sentences_of

CANDIDATES = 100  # memories that a message is compared with
_CLAUSE_END = re.compile(r"[,;:—–!](?=\s)|[，；、！]|\s-\s")
# the label that a recalled memory is shown with
_LABEL = re.compile(r"\[[^\[\]\n]{0,20}\d{4}-\d\d-\d\d[^\[\]\n]{0,80}\]")
_FIRST_UNSPACED = "\u0e00"  # Thai; Chinese, Japanese and Korean come after it
_IDLE_PHRASES = re.compile(  # of scripts without spaces, the longest first
    "|".join(
        sorted(
            (word for word in table("echo_words")["idle"].split() if word >= _FIRST_UNSPACED),
            key=len,
            reverse=True,
        )
    )
)
_DENIAL = "-"  # no word has this term
_STEM = 4  # letters that the forms of a word share: "wohnst", "wohnt"
_MAX_SOURCES = 3  # known sentences that one sentence may combine
_MAX_HOLDERS = 32  # known sentences compared for a term


class _Sentence(NamedTuple):
    """The words of a sentence that carry its meaning.

    Attributes:
        terms: its content words, and `_DENIAL` if it denies, ends or limits something.
        apart: content words alone between commas, such as the name of the person addressed.
    """

    terms: frozenset[str]
    apart: frozenset[str]


def mask_recalled(messages: Sequence[Message], memories: Iterable[Memory] = ()) -> list[Message]:
    """Return the messages without echoes of recalled texts and memories.

    A tool's answer with recalled texts is removed as a whole. Of other texts of agents and tools, a
    sentence is removed if all its content words were recalled and it denies the same. The user's
    text stays, even a literal repeat, except for injected blocks beside other lines. A message with
    nothing left has an empty text.

    Args:
        messages: a transcript in its order.
        memories: the memories that may be echoed.
    """
    statements = Statements()
    for memory in memories:
        statements.add_memory(memory)
    for recalled in chain.from_iterable(message.recalled for message in messages):
        statements.add(recalled)
    masked_messages: list[Message] = []
    for message in messages:
        text = unmasked(message, statements)
        masked_messages.append(
            message if text == message.text else replace(message, text=text.strip())
        )
    return masked_messages


def unmasked(message: Message, statements: Statements) -> str:
    """Return a message's text without echoes of statements."""
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


class Statements:
    """An index of known sentences by their content words, to find out if a sentence echoes them.

    It compares a sentence with a bounded number of them, so that the work is linear.
    """

    def __init__(self) -> None:
        self._annotations = defaultdict[frozenset[str], set[str]](set)
        self._days = set[str]()
        self._by_term = defaultdict[str, list[frozenset[str]]](list)

    def add(self, text: str, annotation: str = "") -> None:
        """Add the sentences of a text.

        Args:
            text: the text.
            annotation: words that an echo may add to them, such as days.
        """
        named = {_key(term) for term in tokens(annotation)}
        self._days |= named
        for terms, _ in map(_sentence, sentences_of(text)):
            for term in terms if terms not in self._annotations else ():
                self._by_term[term].append(terms)
            self._annotations[terms] |= named

    def add_memory(self, memory: Memory) -> None:
        """Add a memory. A turn of an agent is ignored: the same words said twice are two turns."""
        if not (memory.verbatim and memory.origin == "agent"):
            self.add(memory.content, _days(memory))

    def hold(self, piece: str) -> bool:
        """Return True if a sentence is an echo of known ones.

        In scripts without spaces terms are parts of words, and one in four may differ.
        """
        # most sentences hold a new word; a label may hold any, and "3，500" is a word or two
        words = () if "[" in piece or "，" in piece else piece.split()
        if any(
            term not in self._by_term
            and term not in self._days
            and term < _FIRST_UNSPACED
            and not _is_minor(term)
            for word in words
            for term in _word(word, True)
        ):
            return False
        terms, apart = _sentence(piece)
        parts = {term for term in terms if term >= _FIRST_UNSPACED}
        # "You like tea." echoes only a sentence that says no more; a bare word such as "Dr." none
        is_bare = len(terms) == 1 and (terms not in self._annotations or len(piece.split()) == 1)
        claim = terms - (apart & self._by_term.keys()) or terms  # without the addressee's name
        max_foreign = len(terms & self._days) + len(parts) // 4  # words of no source, at most
        if is_bare or not (sources := self._repeated(claim, max_foreign)):
            return False
        source_terms = frozenset[str]().union(
            *sources, *(self._annotations[source] for source in sources)
        )
        additions = claim - source_terms
        denies_alike = (_DENIAL in terms) == (_DENIAL in source_terms)
        return denies_alike and additions <= parts and 4 * len(additions) <= len(parts)

    def _repeated(self, terms: frozenset[str], max_foreign: int) -> Sequence[frozenset[str]]:
        """Return the known sentences that together cover most of a sentence, each at least two of
        its content words.
        """
        sources: list[frozenset[str]] = []
        words = len(terms)
        while terms and len(sources) < _MAX_SOURCES:
            # sorted: ties break alike in every process
            holders = (self._by_term[term] for term in sorted(terms) if term in self._by_term)
            rarest = nsmallest(max_foreign + 1, holders, key=len)  # one of them is of a source
            candidates = chain.from_iterable(group[-_MAX_HOLDERS:] for group in rarest)
            best = max(
                candidates, key=lambda source: (len(terms & source), -len(source)), default=None
            )
            if best is None or len(terms & best) < min(2, len(best), words):
                break
            sources.append(best)
            terms -= best
        return sources


@lru_cache(maxsize=1 << 15)
def _word(chunk: str, is_plain: bool) -> tuple[str, ...]:
    """Return the terms of a word in a clause, cut to the part that its forms share.

    Its capital may turn a function word into a name, unless the word is plain: the first of its
    clause, or in small letters.
    """
    may_be_name = not is_plain and chunk.strip(EDGES)[:1].isupper()
    ignored = _courtesy_words() if may_be_name else _addable_words()
    terms = tokens(chunk)  # as in a search: punctuation at its edges is no part of a term
    denial = () if denying_terms().isdisjoint(terms) else (_DENIAL,)
    return (*denial, *(_key(term) for term in terms if term not in ignored))


@lru_cache(maxsize=1 << 13)
def _sentence(text: str) -> _Sentence:
    """Return the content words of a sentence."""
    terms: set[str] = set()
    apart: set[str] = set()
    bare = _LABEL.sub(" ", text) if "[" in text else text
    bare = bare if bare.isascii() else _IDLE_PHRASES.sub(" ", bare)
    for clause in _CLAUSE_END.split(bare):
        words = {
            key
            for n, chunk in enumerate(clause.split())
            for key in _word(chunk, not n or chunk.islower())
        }
        if not all(map(_is_minor, words)):  # "1.", "No problem,"
            terms |= words
            if len(words) == 1:
                apart |= words
    return _Sentence(frozenset(terms), frozenset(apart))


def content_terms(text: str) -> frozenset[str]:
    """Return the content words of a text, cut to the part that their forms share."""
    return frozenset(chain.from_iterable(_sentence(piece).terms for piece in sentences_of(text)))


def _is_minor(term: str) -> bool:
    """Return True for a denial, and for a number that may be that of a list item."""
    return term == _DENIAL or (term.isdecimal() and len(term) < 4)


def _key(term: str) -> str:
    """Return the part that the forms of a word share; numbers and identifiers stay whole."""
    return term[:_STEM] if term.isalpha() else term


@cache
def _courtesy_words() -> frozenset[str]:
    """Return English stop words, and the words of telling, courtesy and denial in any language."""
    idle = table("echo_words")["idle"]
    return STOP_WORDS.union(denying_terms(), idle.split(), tokens(idle))


@cache
def _addable_words() -> frozenset[str]:
    """Return the words that an echo may add: courtesy words, and all languages' function words."""
    words = all_words("function_words")
    return _courtesy_words().union(words, tokens(" ".join(words)))


def _without_lines(text: str, block: str) -> str:
    """Return the text without each occurrence of the block that fills whole lines."""
    lines = (re.escape(line.strip(" \t")) for line in block.strip().split("\n"))
    # possessive: backtracking would try every division of blanks beside an empty line
    pattern = r"[ \t]*+\n[ \t]*+".join(lines)
    return re.sub(rf"(?m)^[ \t]*+{pattern}[ \t]*+(?:\n|\Z)", "", text)


async def without_recalled(
    store: MemoryStore,
    scope: Scope,
    messages: Sequence[Message],
    *,
    now: datetime,
) -> list[Message]:
    """Return the messages without echoes of stored memories.

    Args:
        store: the store of the memories.
        scope: their scope.
        messages: a transcript in its order, each with a text.
        now: the current time (aware UTC).
    """
    texts = [message.text for message in messages if message.role != "user"]
    if not texts:
        return list(messages)
    view = await store.view(scope, now=now)
    if not view.index.ids:
        return list(messages)
    matches = await view.texts(texts, limit=CANDIDATES)
    hits = (view.index.ids_of(of_query.matches.rows) for of_query in matches)
    recalled = await view.memories(list(dict.fromkeys(chain.from_iterable(hits))))
    masked_messages = await run_in_thread(LONG, mask_recalled, messages, recalled.values())
    return [message for message in masked_messages if message.text.strip()]


def _days(memory: Memory) -> str:
    """Return a memory's days in all the forms in which they are written beside it."""
    return " ".join(
        f"{at:%Y-%m-%d, %H:%M, %A, %B %Y} {at.day} {at.day}st {at.day}nd {at.day}rd {at.day}th"
        for at in (memory.happened_at, memory.said_at, memory.created_at)
        if at
    )
