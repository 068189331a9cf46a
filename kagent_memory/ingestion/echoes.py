"""Echoes: what memory said is not learnt again when agents and tools repeat it.

What memory handed over goes before a transcript is queued, what memory holds before it is
extracted.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, lru_cache, partial
from itertools import chain
from typing import NamedTuple

from ..concurrency import run_in_thread
from ..language.tokenizer import EDGES, STOP_WORDS, denying_terms, normalised, query_terms, tokens
from ..language.word_lists import all_words, table
from ..records import Memory, Message, Scope
from ..stores.base import MemoryStore
from ..stores.view import texts as search_texts
from .splitting import sentences_of

CANDIDATES = 100  # memories that a message may repeat
# of the days of a month; else "th"
ORDINALS = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}
_CLAUSE_END = re.compile(r"[,;:—–!](?=\s)|[，；、！]|\s-\s")
# as recalled memories are shown with
_LABEL = re.compile(r"\[[^\[\]\n]{0,20}\d{4}-\d\d-\d\d[^\[\]\n]{0,80}\]")
_MARK = re.compile(r"\d|\w[./_:@\\#+]\w")
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
_DENIAL = "not"
_LEAST_CHARS = 3
_STEM = 4  # letters that the forms of a word share: "wohnst", "wohnt"
_MOST_SOURCES = 3  # memories that one sentence may repeat
_RAREST = 4  # terms of a sentence by which sources are looked up
_MOST_COMPARED = 8
_MOST_HOLDERS = 32  # sources that are looked at for each of these
MOST = 0.8
"""Share of the content words of a sentence, or of a recalled text, that makes one an echo of the
other.
"""
HALF = 0.5
"""Share of a sentence's content words that must be recalled where it holds a whole recalled
text.
"""


class KnownMemory(NamedTuple):
    """A memory that may be echoed.

    Attributes:
        id: its id.
        text: its content.
        beside: what an echo may name with it, such as the days on which it was said and stored.
    """

    id: str
    text: str
    beside: str = ""


@dataclass(frozen=True, slots=True)
class _Sentence:
    """What a sentence says, by its words.

    Attributes:
        content: its content words in order, clause by clause.
        terms: all of them.
        marks: its numbers, identifiers, names and denials, which no echo adds.
    """

    content: tuple[tuple[str, ...], ...]
    terms: frozenset[str]
    marks: frozenset[str]


@dataclass(slots=True)
class _Source:
    """A sentence of something known, and the memories that say it."""

    terms: frozenset[str]
    marks: frozenset[str]
    ids: dict[str, None]


def mask_recalled(
    messages: Sequence[Message], known: Sequence[KnownMemory], *, names: Iterable[str] = ()
) -> tuple[list[Message], tuple[str, ...]]:
    """Return the messages without what memory had said, and the ids of the memories said again.

    A tool's answer that holds recalled texts goes whole. Of what agents and tools say, every
    sentence goes that is an echo: four of five of its content words were recalled, or it holds four
    of five of a recalled text's and not as many others, no clause of it says something new beside
    them, and it adds no number, identifier, name or denial. What the user says stays, also a repeat
    word for word; only a block that was injected beside other lines goes. Messages that nothing is
    left of are left out.

    Args:
        messages: a transcript in its order.
        known: memories that may be echoed.
        names: what the user is called.
    """
    recalled = list(
        dict.fromkeys(text for message in messages for text in message.recalled if text.strip())
    )
    statements = _Statements(known, recalled, names)
    left: list[Message] = []
    for message in messages:
        text = _unmasked(message, statements)
        if text.strip():
            left.append(message if text == message.text else replace(message, text=text.strip()))
    return left, tuple(statements.echoed)


def _unmasked(message: Message, statements: _Statements) -> str:
    """Return what a message says that is not of memory."""
    if message.role == "tool" and message.recalled:
        statements.note(message.recalled)
        return ""
    if message.role != "user":
        if statements.is_empty:
            return message.text
        pieces = list(sentences_of(message.text))
        left = [piece for piece in pieces if not statements.hold(piece)]
        if len(left) < len(pieces) and not any(_sentence(piece).content for piece in left):
            return ""
        return "".join(left)
    text = message.text
    for block in message.recalled:
        if len(block.strip()) > _LEAST_CHARS:
            text = _without_lines(text, block)
    return text if text.strip() else message.text


class _Statements:
    """What was recalled and what is known, by the content words of its sentences.

    A sentence is compared with a bounded number of sources, so that the work is linear.
    """

    def __init__(
        self, known: Sequence[KnownMemory], recalled: Sequence[str], names: Iterable[str]
    ) -> None:
        self.echoed: dict[str, None] = {}
        self._ids: dict[str, str] = {normalised(memory.text): memory.id for memory in known}
        self._sources: list[_Source] = []
        self._by_words: dict[frozenset[str], _Source] = {}
        self._by_term: dict[str, list[int]] = {}
        self._called = frozenset(key for name in names for key in map(_key, tokens(name)))
        for memory in known:
            self._add(memory.text, memory.id, frozenset(map(_key, tokens(memory.beside))))
        for text in recalled:
            self._add(text, "", frozenset())

    @property
    def is_empty(self) -> bool:
        """Return True if nothing is known."""
        return not self._sources

    def _add(self, text: str, id: str, beside: frozenset[str]) -> None:
        sentences = [_sentence(piece) for piece in sentences_of(text)]
        for sentence in sentences:
            if not (terms := sentence.terms):
                continue
            source = self._by_words.get(terms)
            if source is None:
                source = self._by_words[terms] = _Source(terms, frozenset(), {})
                for term in terms:
                    self._by_term.setdefault(term, []).append(len(self._sources))
                self._sources.append(source)
            source.marks |= sentence.marks | beside
            if id:
                source.ids[id] = None

    def note(self, texts: Iterable[str]) -> None:
        """Take note of the memories that these texts are, word for word or as lines."""
        for text in (*texts, *_lines(texts)):
            if (id := self._ids.get(normalised(text))) is not None:
                self.echoed[id] = None

    def hold(self, piece: str) -> bool:
        """Return True for a sentence that is an echo; take note of the memories that it repeats."""
        sentence = _sentence(piece)
        if len(sentence.terms) > 1:
            sources = self._repeated(sentence)
        else:  # "You like tea." repeats only what says no more; a word alone, such as "Dr.", nothing  # noqa: E501
            same = self._by_words.get(sentence.terms)
            sources = [same] if same is not None and len(tokens(piece)) > 1 else []
        if not sources:
            return False
        held = frozenset[str]().union(*(source.terms for source in sources))
        terms = sentence.terms
        vocative = (
            clause[0]
            for clause in sentence.content
            if len(clause) == 1 and clause[0] in self._by_term
        )
        known = held.union(self._called, vocative, *(source.marks for source in sources))
        shared = len(terms & known)
        holds_whole = all(len(terms & one.terms) >= MOST * len(one.terms) for one in sources)
        least = HALF if holds_whole else MOST
        denied = _DENIAL in sentence.marks
        if denied != any(_DENIAL in source.marks for source in sources):
            return False
        if shared < least * len(terms) or not sentence.marks <= known or _mixes(sentence, known):
            return False
        self.echoed.update((id, None) for source in sources for id in source.ids)
        return True

    def _repeated(self, sentence: _Sentence) -> list[_Source]:
        """Return the sources that hold most of a sentence, each at least two of its content
        words.
        """
        rest = sentence.terms
        found: list[_Source] = []
        while rest and len(found) < _MOST_SOURCES:
            holders = sorted(
                (self._by_term[term] for term in rest if term in self._by_term), key=len
            )
            shared = Counter(
                chain.from_iterable(some[-_MOST_HOLDERS:] for some in holders[:_RAREST])
            )
            if not shared:
                break
            candidates = [number for number, _ in shared.most_common(_MOST_COMPARED)]
            overlap = [len(rest & self._sources[number].terms) for number in candidates]
            most = max(overlap)
            equals = [
                number for number, held in zip(candidates, overlap, strict=True) if held == most
            ]
            number = min(equals, key=lambda number: len(self._sources[number].terms))
            if found and most < min(2, len(self._sources[number].terms)):
                break
            found.append(self._sources[number])
            rest -= self._sources[number].terms
        return found


def _mixes(sentence: _Sentence, known: frozenset[str]) -> bool:
    """Return True if a clause, or the last one, says something new beside what is known.

    Characters of scripts without spaces do not count: they are parts of words.
    """
    told = [clause for clause in sentence.content if not known.isdisjoint(clause)]
    return any(term not in known and term < _FIRST_UNSPACED for clause in told for term in clause)


class _Word(NamedTuple):
    """What a word is to an echo.

    Attributes:
        keys: what its forms share, of what tells; `name` where it may be one, behind a clause's
            first word.
        told: it is a number, an identifier or begins with a capital.
        denies: it denies, ends or limits what is said.
    """

    keys: tuple[str, ...]
    name: tuple[str, ...]
    told: bool
    denies: bool


_IDLE = _Word((), (), told=False, denies=False)


@lru_cache(maxsize=1 << 15)
def _word(chunk: str) -> _Word:
    """Return what a word is, without the punctuation around it."""
    word = chunk.strip(EDGES)
    small = word.lower()
    if small in _idle() and small not in denying_terms() and (small == word or small in _telling()):
        return _IDLE
    terms = tokens(chunk)  # as it was searched for: what its edges hold is no part of a term
    capital = word[:1].isupper()
    telling = tuple(_key(term) for term in terms if term not in _idle())
    names = tuple(_key(term) for term in terms if term not in _telling())
    told = capital or word != word.lower() or _MARK.search(word) is not None
    return _Word(
        telling,
        names if capital and len(word) > 1 else telling,
        told,
        not denying_terms().isdisjoint(terms),
    )


@lru_cache(maxsize=1 << 13)
def _sentence(text: str) -> _Sentence:
    """Return what a sentence says."""
    clauses: list[tuple[str, ...]] = []
    marks: set[str] = set()
    bare = _LABEL.sub(" ", text) if "[" in text else text
    bare = bare if bare.isascii() else _IDLE_PHRASES.sub(" ", bare)
    for clause in _CLAUSE_END.split(bare):
        content, told = list[str](), set[str]()
        for place, word in enumerate(map(_word, clause.split())):
            keys = word.name if place else word.keys
            content += keys
            if word.told:
                told.update(keys)
            if word.denies:
                told.add(_DENIAL)
        if not all(map(_is_number, content)):  # "1.", "Fact 2:"
            clauses.append(tuple(content))
            marks |= told
    terms = frozenset(term for clause in clauses for term in clause)
    return _Sentence(tuple(clauses), terms, frozenset(marks))


def content_terms(sentence: str) -> frozenset[str]:
    """Return the content words of a sentence, by what their forms share."""
    return _sentence(sentence).terms


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


def _lines(texts: Iterable[str]) -> list[str]:
    return [
        line.strip() for text in texts if "\n" in text for line in text.splitlines() if line.strip()
    ]


def _without_lines(text: str, block: str) -> str:
    """Return the text without the block wherever it fills whole lines."""
    lines = text.split("\n")
    bare = "\n".join(("", *(line.strip(" \t") for line in lines), ""))
    wanted = "\n".join(("", *(line.strip(" \t") for line in block.strip().split("\n")), ""))
    height = wanted.count("\n") - 1
    left: list[str] = []
    done = at = number = 0
    while (place := bare.find(wanted, at)) >= 0:
        number += bare.count("\n", at, place)
        left += lines[done:number]
        done = number + height
        at, number = place + len(wanted) - 1, done
    return "\n".join((*left, *lines[done:])) if done else text


def without_handed(messages: Sequence[Message]) -> list[Message]:
    """Return the messages without echoes of what memory handed over in them.

    One of which nothing is left has no text.
    """
    numbered = [replace(message, event_id=str(number)) for number, message in enumerate(messages)]
    left, _ = mask_recalled(numbered, ())
    texts = {message.event_id: message.text for message in left}
    return [
        replace(message, text=texts.get(str(number), "")) for number, message in enumerate(messages)
    ]


async def without_recalled(
    store: MemoryStore,
    scope: Scope,
    messages: Sequence[Message],
    *,
    handed: Collection[str] = (),
    now: datetime,
) -> tuple[list[Message], tuple[str, ...]]:
    """Return the messages without echoes of memory, and the ids of the memories said again.

    Args:
        store: whose memories.
        scope: of whom.
        messages: a transcript in its order.
        handed: what memory handed over in it, as `handed_key`.
        now: when.
    """
    said = [message.text for message in messages if message.role != "user" and message.text.strip()]
    if not said:
        return list(messages), ()
    queries = await run_in_thread(sum(map(len, said)), partial(_queries, said))
    view = store.view(scope, now=now)
    matches = await search_texts(view, queries, limit=CANDIDATES)
    ids = dict.fromkeys(id for of_query in matches for id in of_query.matches)
    held = await view.memories(list(ids))
    memories = _learnt(held.values())
    known = known_memories(memories)
    size = sum(len(message.text) for message in messages) + sum(
        len(memory.text) for memory in known
    )
    left, echoed = await run_in_thread(
        size, partial(mask_recalled, messages, known, names=(scope.user,))
    )
    again = (
        memory.id for memory in memories if handed and handed_key(scope, memory.content) in handed
    )
    return left, tuple(dict.fromkeys((*echoed, *again)))


def handed_key(scope: Scope, text: str) -> str:
    """Return a hash of a text's words that differs in every scope, to stand for it in a payload."""
    return hashlib.blake2b(normalised(text).encode(), key=scope.id, digest_size=12).hexdigest()


def known_memories(memories: Iterable[Memory]) -> list[KnownMemory]:
    """Return what an echo may be of: all memories but what an agent said itself."""
    return [
        KnownMemory(
            memory.id,
            memory.content,
            days_of((memory.happened_at, memory.said_at, memory.created_at)),
        )
        for memory in _learnt(memories)
    ]


def _learnt(memories: Iterable[Memory]) -> list[Memory]:
    """Leave out what an agent said itself: the same words twice are two turns."""
    return [memory for memory in memories if not (memory.verbatim and memory.origin == "agent")]


def days_of(times: Iterable[datetime | None]) -> str:
    """Return these days in all the ways in which they are written beside a memory."""
    days = dict.fromkeys((at.date(), at.strftime("%H:%M")) for at in times if at is not None)
    return " ".join(
        f"{day.isoformat()}, {time}, {day.day} {day:%B} {day.year}, "
        f"{day.day}{ORDINALS.get(day.day, 'th')}, {day:%A}, "
        f"{day.day}.{day.month}.{day.year}, {day.month}/{day.day}/{day.year}, "
        f"{day.day}/{day.month}/{day.year}."
        for day, time in days
    )


def _queries(texts: Sequence[str]) -> list[Sequence[str]]:
    """Return the terms of each text that is not empty of them."""
    return [terms for text in texts if (terms := query_terms(text))]
