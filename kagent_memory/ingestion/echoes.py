"""Remove echoes: an agent or tool that repeats a memory teaches nothing new.

Recalled texts are removed before a transcript is queued, stored memories before its facts are
extracted.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache, lru_cache
from heapq import nsmallest
from itertools import chain
from typing import NamedTuple, TypeAlias

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
_DENIAL = "-"  # no word has this term
_STEM = 4  # letters that the forms of a word share: "wohnst", "wohnt"
_MAX_SOURCES = 3  # known sentences that one sentence may combine
_MAX_RARE = 4  # terms whose known sentences are compared, the rarest
_MAX_HOLDERS = 32  # known sentences compared for a term
_MIN_SHARED = 0.4  # of the content words of a text

Repeats: TypeAlias = Mapping[str, Collection[str]]
"""By event id the ids of the memories that an agent may have repeated in other words."""


class _Sentence(NamedTuple):
    """The words of a sentence that carry its meaning.

    Attributes:
        order: its content words in order, and `_DENIAL` if it denies, ends or limits something.
        terms: the same as a set.
        apart: content words alone between commas, such as the name of the person addressed.
    """

    order: tuple[str, ...]
    terms: frozenset[str]
    apart: frozenset[str]


def mask_recalled(messages: Sequence[Message], statements: Statements) -> list[Message]:
    """Return the messages without echoes of recalled texts and known statements.

    A tool's answer with recalled texts is removed as a whole. Of other texts of agents and tools, a
    sentence is removed if all its content words were recalled, in its order, and it denies the
    same. The user's text stays, even a literal repeat, except for injected blocks beside other
    lines. A message with nothing left has an empty text.

    Args:
        messages: a transcript in its order.
        statements: the known statements; the recalled texts of the messages are added to them.
    """
    for recalled in chain.from_iterable(message.recalled for message in messages):
        statements.add(recalled)
    return [
        message
        if (text := unmasked(message, statements)) == message.text
        else replace(message, text=text.strip())
        for message in messages
    ]


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
    return "".join(left) if left == pieces or any(map(content_terms, left)) else ""


class Statements:
    """An index of known sentences by their content words, to find out if a sentence echoes them.

    It compares a sentence with a bounded number of them, so that the work is linear.
    """

    def __init__(self, memories: Iterable[Memory] = ()) -> None:
        self._by_term = defaultdict[str, list[_Sentence]](list)
        self._memories = defaultdict[_Sentence, list[Memory]](list)
        for memory in memories:
            self.add_memory(memory)

    def add(self, text: str, said_by: Sequence[Memory] = ()) -> None:
        """Add the sentences of a text, which memories may say."""
        for sentence in map(_sentence, sentences_of(text)):
            for term in sentence.terms if sentence not in self._memories else ():
                self._by_term[term].append(sentence)
            self._memories[sentence] += said_by

    def add_memory(self, memory: Memory) -> None:
        """Add a memory. A turn of an agent is ignored: the same words said twice are two turns."""
        if not (memory.verbatim and memory.origin == "agent"):
            self.add(memory.content, [memory])
            self._by_term.update({day: [] for day in _days(memory) - self._by_term.keys()})

    def hold(self, piece: str) -> bool:
        """Return True if a sentence is an echo of known ones, with their words in their order."""
        # most sentences hold a new word; a label may hold any, and "3，500" is a word or two
        words = () if "[" in piece or "，" in piece else piece.split()
        if any(
            term not in self._by_term and not _is_minor(term)
            for word in words
            for term in _word(word, True)
        ):
            return False
        order, terms, apart = _sentence(piece)
        claim = terms - (apart & self._by_term.keys()) or terms  # without the addressee's name
        sources = self._repeated(claim)
        # "You like tea." echoes only a sentence that says no more
        is_part = len(terms) == 1 and sources[:1] != [_sentence(piece)]
        added = claim - {term for source in sources for term in source.terms}
        memories = chain.from_iterable(self._memories[source] for source in sources if added)
        is_dated = added.issubset(chain.from_iterable(map(_days, memories)))
        in_order = all(
            [term for term in order if term in source.terms]
            == [term for term in source.order if term in terms or term == _DENIAL]
            for source in sources
        )
        return bool(sources) and not is_part and in_order and is_dated

    def repeated(self, text: str) -> set[str]:
        """Return the ids of the memories that a text may repeat in other words.

        They hold at least two fifths of its content words, and two words. A text with a number, a
        name or a denial that they do not hold says more, and repeats none.
        """
        if not self._by_term:
            return set()
        terms = content_terms(text)
        sources = self._repeated(terms, min_words=1)
        source_terms = {term for source in sources for term in source.terms}
        added = terms - source_terms
        says_more = (_DENIAL in terms) != (_DENIAL in source_terms) or any(
            not added.isdisjoint(_word(word, True))
            for piece in sentences_of(text)
            for word in piece.split()[1:]
            if (first := word.strip(EDGES)[:1]).isupper() or first.isdigit()
        )
        if says_more or len(terms - added) < max(2, _MIN_SHARED * len(terms)):
            return set()
        return {memory.id for source in sources for memory in self._memories[source]}

    def _repeated(self, terms: frozenset[str], *, min_words: int = 2) -> Sequence[_Sentence]:
        """Return the known sentences that together cover most of a sentence, each at least
        `min_words` of its content words.
        """
        sources: list[_Sentence] = []
        words = len(terms)
        while terms and len(sources) < _MAX_SOURCES:
            # sorted: ties break alike in every process
            known = filter(None, map(self._by_term.get, sorted(terms)))
            rarest = nsmallest(_MAX_RARE, known, key=len)
            candidates = chain.from_iterable(group[-_MAX_HOLDERS:] for group in rarest)
            best = max(
                candidates,
                key=lambda source: (len(terms & source.terms), -len(source.terms)),
                default=None,
            )
            if best is None or len(terms & best.terms) < min(min_words, len(best.terms), words):
                break
            sources.append(best)
            terms -= best.terms
        return sources


@lru_cache(maxsize=1 << 15)
def _word(chunk: str, is_plain: bool) -> tuple[str, ...]:
    """Return the terms of a word in a clause, cut to the part that its forms share.

    Its capital may turn a function word into a name, unless the word is plain: the first of its
    clause, or in small letters.
    """
    ignored = _ignored_words(not is_plain and chunk.strip(EDGES)[:1].isupper())
    terms = tokens(chunk)  # as in a search: punctuation at its edges is no part of a term
    denial = () if denying_terms().isdisjoint(terms) else (_DENIAL,)
    return (*denial, *(_key(term) for term in terms if term not in ignored))


@lru_cache(maxsize=1 << 13)
def _sentence(text: str) -> _Sentence:
    """Return the content words of a sentence."""
    order: dict[str, None] = {}
    apart: set[str] = set()
    bare = _LABEL.sub(" ", text) if "[" in text else text
    for clause in _CLAUSE_END.split(bare):
        words = dict.fromkeys(
            key
            for n, chunk in enumerate(clause.split())
            for key in _word(chunk, not n or chunk.islower())
        )
        if not all(map(_is_minor, words)):  # "1.", "No problem,"
            order |= words
            if len(words) == 1:
                apart.update(words)
    return _Sentence(tuple(order), frozenset(order), frozenset(apart))


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
def _ignored_words(may_be_name: bool) -> frozenset[str]:
    """Return the words that an echo may add: English stop words, words of telling, courtesy and
    denial, and all languages' function words unless they may be names. Words with an opposite, such
    as "before", are none of them.
    """
    lists = table("echo_words")
    words = (
        lists["idle"] if may_be_name else " ".join((lists["idle"], *all_words("function_words")))
    )
    return STOP_WORDS.union(denying_terms(), tokens(words)).difference(tokens(lists["telling"]))


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
) -> tuple[list[Message], Repeats]:
    """Return the messages without echoes of stored memories, and by event id the ids of the
    memories that the rest of a message may repeat in other words.

    Args:
        store: the store of the memories.
        scope: their scope.
        messages: a transcript in its order, each with a text.
        now: the current time (aware UTC).
    """
    texts = [message.text for message in messages if message.role != "user"]
    if not texts:
        return list(messages), {}
    view = await store.view(scope, now=now)
    matches = await view.texts(texts, limit=CANDIDATES)
    hits = (view.index.ids_of(of_query.matches.rows) for of_query in matches)
    recalled = await view.memories(list(dict.fromkeys(chain.from_iterable(hits))))

    def compared() -> tuple[list[Message], Repeats]:
        statements = Statements(recalled.values())
        facts = Statements(memory for memory in recalled.values() if not memory.verbatim)
        news = [message for message in mask_recalled(messages, statements) if message.text.strip()]
        counts = Counter(message.event_id for message in news)
        # what a caller labelled stays a memory of its own, and so does each text of several
        return news, {
            message.event_id: facts.repeated(message.text)
            for message in news
            if message.role == "agent" and not message.fields and counts[message.event_id] == 1
        }

    return await run_in_thread(LONG, compared)


def _days(memory: Memory) -> set[str]:
    """Return the terms of a memory's days in all the forms in which they are written beside it."""
    times = filter(None, {memory.happened_at, memory.said_at, memory.created_at})
    return {term for at in times for term in _day_terms(at)}


@lru_cache(maxsize=1 << 10)
def _day_terms(at: datetime) -> Sequence[str]:
    day = at.day
    forms = f"{at:%Y-%m-%d, %H:%M, %A, %B %Y} {day} {day}st {day}nd {day}rd {day}th"
    return [*map(_key, tokens(forms))]
