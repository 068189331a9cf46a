"""The recall-loop firewall: what memory said is not learnt again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from ..language.guard import adds
from ..language.handing_on import core_of, telling_terms
from ..language.tokenizer import normalised
from ..records import Message
from .extraction.splitting import SENTENCE_END

_PART = re.compile(r"[,;:—–](?=\s)|[，；、]|\s(?=(?:and|but|while|whereas|although|though|und|aber|et|mais|y|pero)\s)")
_NAMED = re.compile(
    r"\b(?:name is|name's|user is called|user is named|I am called|I'm called|call me)\s"
    r"([A-Z][\w'’-]{1,30}(?:\s[A-Z][\w'’-]{1,30})?)"
)
_LEAST_CHARS = 3
_LEAST_TERMS = 2  # of a part that is compared by itself
_WINDOW = 500  # characters that are compared at once
_RAREST = 3  # terms of a sentence, by which statements are looked up that may hold it
_MOST_HOLDERS = 128  # statements that are looked at for each of these
_MOST_COMPARED = 6
_HELD = 0.8  # of the terms of a text of several sentences that one sentence must hold to repeat them all


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
class _Statement:
    """A sentence of something known, or the whole of it."""

    text: str
    terms: frozenset[str]
    ids: frozenset[str]
    beside: str
    whole: bool = False


def mask_recalled(
    messages: Sequence[Message], known: Sequence[KnownMemory], *, names: Iterable[str] = ()
) -> tuple[list[Message], tuple[str, ...]]:
    """The messages without what memory had said, and the ids of the memories that were said again.

    A tool's answer that holds recalled texts goes whole. Of what agents and tools say, every sentence goes that says
    nothing beyond something recalled or known, whatever courtesies, names and dates of telling stand around it: no
    other word that tells, number, date, unit, name, identifier, denial or order. What the user says stays, but for an
    injected block that fills whole lines, and for the exact repeat of what memory said in the same turn.
    Messages that nothing is left of are left out.

    Args:
        messages: a transcript in its order.
        known: memories that may be echoed.
        names: what the user is called.
    """
    recalled = list(dict.fromkeys(text for message in messages for text in message.recalled if text.strip()))
    statements = _Statements(known, recalled, _names(messages, known, recalled, names))
    left: list[Message] = []
    turns = [number for number, message in enumerate(messages) if number and message.role == "user"]
    for start, end in pairwise((0, *turns, len(messages))):
        turn = messages[start:end]
        texts = [text for message in turn for text in message.recalled]
        handed_over = {normalised(text) for text in (*texts, *_lines(texts))}
        for message in turn:
            text = _unmasked(message, statements, handed_over)
            if text.strip():
                left.append(message if text == message.text else replace(message, text=text.strip()))
    return left, tuple(statements.echoed)


def _unmasked(message: Message, statements: _Statements, handed_over: set[str]) -> str:
    """What a message says that is not of memory."""
    if message.role == "tool" and message.recalled:
        statements.note(message.recalled)
        return ""
    if message.role != "user":
        pieces = sentences_of(message.text)
        left = [piece for piece in pieces if not statements.hold(piece)]
        if len(left) < len(pieces) and not any(statements.core(piece) for piece in left):
            return ""
        return "".join(left)
    if normalised(message.text) in handed_over:
        statements.note([message.text])
        return ""
    text = message.text
    for block in message.recalled:
        if len(block.strip()) > _LEAST_CHARS:
            text = _without_lines(text, block)
    return text


class _Statements:
    """What was recalled and what is known, sentence by sentence, ready to be compared with others.

    Every sentence is compared with a bounded number of bounded statements, so that the work is linear.
    """

    def __init__(self, known: Sequence[KnownMemory], recalled: Sequence[str], names: frozenset[str]) -> None:
        self.echoed: dict[str, None] = {}
        self._names = names
        self._ids: dict[str, str] = {normalised(memory.text): memory.id for memory in known}
        self._all: list[_Statement] = []
        self._by_term: dict[str, list[int]] = {}
        self._by_key: dict[str, int] = {}
        self._cores: dict[str, str] = {}
        self._holds: dict[str, bool] = {}
        called = " ".join(name.capitalize() for name in sorted(names))
        for memory in known:
            self._add(memory.text, frozenset((memory.id,)), f"{memory.beside} {called}".strip())
        for text in recalled:
            self._add(text, frozenset(), called)

    def _add(self, text: str, ids: frozenset[str], beside: str) -> None:
        pieces: list[str] = []
        for sentence in dict.fromkeys(_split(SENTENCE_END, text)):
            if len(sentence) <= _WINDOW:
                pieces.append(sentence)
            else:  # every part that is shorter than the window is within one of two neighbours
                pieces += (first + second for first, second in pairwise(_cut(sentence, _WINDOW)))
        for piece in pieces:
            self._keep(self.core(piece), ids, beside)
        if len(pieces) > 1 and len(text) <= _WINDOW:
            self._keep(text, ids, beside, whole=True)

    def _keep(self, text: str, ids: frozenset[str], beside: str, *, whole: bool = False) -> None:
        key = normalised(text)
        if not key:
            return
        number = self._by_key.setdefault(key, len(self._all))
        if number < len(self._all):
            former = self._all[number]
            days = (
                former.beside
                if beside in former.beside or len(former.beside) > _WINDOW
                else f"{former.beside} {beside}"
            )
            self._all[number] = replace(former, ids=former.ids | ids, beside=days)
            return
        terms = frozenset(telling_terms(text))
        self._all.append(_Statement(text, terms, ids, beside, whole))
        for term in terms:
            self._by_term.setdefault(term, []).append(number)

    def note(self, texts: Iterable[str]) -> None:
        """Takes note of the memories that these texts are, word for word or as lines."""
        for text in (*texts, *_lines(texts)):
            if (id := self._ids.get(normalised(text))) is not None:
                self.echoed[id] = None

    def core(self, piece: str) -> str:
        """What a sentence says of anything that could be remembered."""
        if piece not in self._cores:
            self._cores[piece] = core_of(piece, self._names)
        return self._cores[piece]

    def hold(self, piece: str) -> bool:
        """Whether a sentence says nothing beyond what is known; the memories that say it are noted."""
        core = self.core(piece)
        if not core:
            return False
        if core not in self._holds:
            sources = self._sources(core) or self._sources_of_parts(core)
            self._holds[core] = bool(sources)
            self.echoed.update((id, None) for source in sources for id in sorted(source.ids))
        return self._holds[core]

    def _sources_of_parts(self, core: str) -> list[_Statement]:
        """What says all of it when each part of the sentence has a source of its own; else nothing."""
        parts = [""]
        for part in _split(_PART, core):
            full = len(telling_terms(parts[-1])) >= _LEAST_TERMS
            parts = [*parts, part] if full else [*parts[:-1], parts[-1] + part]
        if len(parts) > 1 and len(telling_terms(parts[-1])) < _LEAST_TERMS:
            parts[-2:] = ["".join(parts[-2:])]
        cores = [core_of(part.strip(" ,;:—–"), self._names) for part in parts] if len(parts) > 1 else []
        each = [self._sources(part) for part in cores if part]
        return [source for sources in each for source in sources] if all(each) else []

    def _sources(self, text: str) -> list[_Statement]:
        """A statement that says all of it, if there is one."""
        number = self._by_key.get(normalised(text))
        if number is not None:
            return [self._all[number]]
        terms = frozenset(telling_terms(text))
        held = sorted((term for term in terms if term in self._by_term), key=lambda term: len(self._by_term[term]))
        shared: dict[int, int] = {}
        for term in held[:_RAREST]:
            for number in self._by_term[term][-_MOST_HOLDERS:]:
                if number not in shared:
                    shared[number] = len(terms & self._all[number].terms)
        nearest = sorted(shared, key=lambda number: (-shared[number], len(self._all[number].terms)))
        for number in nearest[:_MOST_COMPARED]:
            source = self._all[number]
            least = _HELD * len(source.terms) if source.whole or len(terms) < _LEAST_TERMS else 1
            if shared[number] >= least and not adds(text, source.text, source.beside):
                return [source]
        return []


def _names(
    messages: Sequence[Message], known: Sequence[KnownMemory], recalled: Sequence[str], names: Iterable[str]
) -> frozenset[str]:
    """What the user is called, by what is known, and by what they say themselves."""
    said = (message.text for message in messages if message.role == "user")
    texts = (*(memory.text for memory in known), *recalled, *said)
    called = (name.group(1) for text in texts for name in _NAMED.finditer(text))
    return frozenset(word.strip("'’").casefold() for name in (*called, *names) for word in name.split()[:4])


def _lines(texts: Iterable[str]) -> list[str]:
    return [line.strip() for text in texts if "\n" in text for line in text.splitlines() if line.strip()]


def _split(expression: re.Pattern[str], text: str) -> list[str]:
    """The parts of a text with what separates them behind each."""
    ends = [match.end() for match in expression.finditer(text)]
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True) if start < end]


def sentences_of(text: str) -> list[str]:
    """The sentences of a text with the white space behind them; what is too long to be one, in parts."""
    sentences = _split(SENTENCE_END, text)
    return [part for one in sentences for part in (_cut(one, _WINDOW) if len(one) > _WINDOW else (one,))]


def _cut(text: str, size: int) -> Iterator[str]:
    """The text in parts of at most so many characters, cut after a blank where there is one."""
    at = 0
    while len(text) - at > size:
        end = text.rfind(" ", at, at + size) + 1 or at + size
        yield text[at:end]
        at = end
    yield text[at:]


def _without_lines(text: str, block: str) -> str:
    """The text without the block wherever it fills whole lines."""
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
