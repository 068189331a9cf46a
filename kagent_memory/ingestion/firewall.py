"""The recall-loop firewall: what memory said is not learnt again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ..language.guard import marks, new_in
from ..language.tokenizer import STOP_WORDS, normalised, tokens
from ..records import Message

COVERED = 0.8  # of the telling words, in order: what counts as the same said again
_SENTENCE = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n+")
_LEAST_CHARS = 3
# An agent that hands a memory on says these around it; they tell nothing of what is remembered.
_HANDING_ON_WORDS = """
    user users assistant remember recall recalled mention mentioned told tell said say noted note memory memories
    earlier previously previous before conversation past last stored saved saw according based record records recorded
    information history indeed course happy help hello hi welcome back again glad shared share
"""
_HANDING_ON = frozenset(tokens(_HANDING_ON_WORDS))
_LONG = 250_000  # word pairs; texts beyond are compared without regard to their order, for the order takes all pairs


@dataclass(frozen=True, slots=True)
class _Known:
    text: str
    key: str
    id: str | None
    terms: tuple[str, ...]


def mask_recalled(
    messages: Sequence[Message], known: Sequence[tuple[str, str]]
) -> tuple[list[Message], tuple[str, ...]]:
    """The messages without what memory had said, and the ids of the memories that were said again.

    A tool's answer that holds recalled texts goes whole. Of what agents and tools say, every sentence goes that is a
    near-verbatim echo of something recalled or known: at least 80 % of the telling words of the one in the other, in
    their order (in any order when it was recalled in the same turn), and nothing new among numbers, dates, units,
    names, identifiers or denials. What the user says stays, but for an injected block that fills whole lines, and for
    the exact repeat of what memory said in the same turn.
    Messages that nothing is left of are left out.

    Args:
        messages: a transcript in its order.
        known: (id, content) of memories that may be echoed.
    """
    recalled = list(dict.fromkeys(text for message in messages for text in message.recalled if text.strip()))
    memory = _Memory(known, recalled)
    left: list[Message] = []
    for turn in _turns(messages):
        texts = [text for message in turn for text in message.recalled]
        said = {normalised(text) for text in (*texts, *_lines(texts))}
        for message in turn:
            text = memory.without_recalled(message, said)
            if text.strip():
                left.append(message if text == message.text else replace(message, text=text.strip()))
    return left, tuple(memory.echoed)


def _turns(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """The messages from one of the user's to before the next."""
    turn: list[Message] = []
    for message in messages:
        if message.role == "user" and turn:
            yield turn
            turn = []
        turn.append(message)
    if turn:
        yield turn


class _Memory:
    """What was recalled and what is known, ready to be compared with sentences."""

    def __init__(self, known: Iterable[tuple[str, str]], recalled: Sequence[str]) -> None:
        self.echoed: dict[str, None] = {}
        ids = {normalised(content): id for id, content in known}
        contents = dict.fromkeys((*(content for _, content in known), *recalled, *_lines(recalled)))
        keyed = ((text, normalised(text)) for text in contents)
        self._all = [_Known(text, key, ids.get(key), _telling(text)) for text, key in keyed]
        self._by_term: dict[str, list[int]] = {}
        for number, entry in enumerate(self._all):
            for term in set(entry.terms):
                self._by_term.setdefault(term, []).append(number)

    def without_recalled(self, message: Message, said: set[str]) -> str:
        if message.role == "user":
            return self._users(message, said)
        if message.role == "tool" and message.recalled:
            self._note(message.recalled)
            return ""
        pieces = _pieces(message.text)
        return "".join(piece for piece in pieces if not self._is_echo(piece, said))

    def _users(self, message: Message, said: set[str]) -> str:
        if normalised(message.text) in said:
            self._note([message.text])
            return ""
        text = message.text
        for block in message.recalled:
            if len(block.strip()) > _LEAST_CHARS:
                text = _without_lines(text, block)
        return text

    def _note(self, texts: Iterable[str]) -> None:
        """Takes note of the memories that these texts are, word for word or as lines."""
        wanted = {normalised(text) for text in (*texts, *_lines(texts))}
        for entry in self._all:
            if entry.id is not None and entry.key in wanted:
                self.echoed[entry.id] = None

    def _is_echo(self, sentence: str, said: set[str]) -> bool:
        terms = _telling(sentence)
        if not terms:
            return False
        explained: set[int] = set()
        sources: list[_Known] = []
        denies = marks(sentence)["negation"]
        for entry in self._candidates(terms):
            if marks(entry.text)["negation"] and not denies:
                continue
            places = _common_places(terms, entry.terms, ordered=entry.key not in said)
            least = min(len(terms), len(entry.terms)) if len(terms) > 1 else len(entry.terms)
            if len(places) >= COVERED * least:
                explained.update(places)
                sources.append(entry)
        if len(explained) < COVERED * len(terms) or new_in(sentence, "\n".join(entry.text for entry in sources)):
            return False
        self.echoed.update((entry.id, None) for entry in sources if entry.id is not None)
        return True

    def _candidates(self, terms: Sequence[str]) -> Iterator[_Known]:
        shared: dict[int, int] = {}
        for term in set(terms):
            for number in self._by_term.get(term, ()):
                shared[number] = shared.get(number, 0) + 1
        for number, count in shared.items():
            entry = self._all[number]
            if count >= COVERED * min(len(set(terms)), len(set(entry.terms))):
                yield entry


def _lines(texts: Iterable[str]) -> list[str]:
    return [line.strip() for text in texts if "\n" in text for line in text.splitlines() if line.strip()]


def _pieces(text: str) -> list[str]:
    """The sentences of a text with the white space behind them."""
    ends = [match.end() for match in _SENTENCE.finditer(text)]
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]


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


def _telling(text: str) -> tuple[str, ...]:
    return tuple(term for term in tokens(text) if term not in STOP_WORDS and term not in _HANDING_ON)


def _common_places(terms: Sequence[str], others: Sequence[str], *, ordered: bool) -> list[int]:
    """Where in `terms` their longest common subsequence with `others` stands; unordered, all that both hold."""
    shared = set(terms) & set(others)
    places = [place for place, term in enumerate(terms) if term in shared]
    ours, theirs = [terms[place] for place in places], [term for term in others if term in shared]
    if not ordered or ours == theirs or len(ours) * len(theirs) > _LONG:
        return places
    lengths = [[0] * (len(theirs) + 1) for _ in range(len(ours) + 1)]
    for i in range(len(ours) - 1, -1, -1):
        for j in range(len(theirs) - 1, -1, -1):
            same = ours[i] == theirs[j]
            lengths[i][j] = lengths[i + 1][j + 1] + 1 if same else max(lengths[i + 1][j], lengths[i][j + 1])
    common: list[int] = []
    i = j = 0
    while i < len(ours) and j < len(theirs):
        if ours[i] == theirs[j]:
            common.append(places[i])
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            i += 1
        else:
            j += 1
    return common
