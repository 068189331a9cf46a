"""A gate that tells messages worth a search from greetings."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from .query_words import GENERAL, PERSONAL, SMALL_TALK, bare, plain, wide

__all__ = ["SMALL_TALK", "Gate", "WordGate", "is_known"]

MAX_CHARS = 300


class Gate(Protocol):
    """Decides before a prefetch whether a message is worth a search. Any object of this shape will
    do.
    """

    def searches(self, text: str, *, tool: bool = False, is_fact: bool | None = None) -> bool:
        """Return True to search for `text`.

        Args:
            text: what the user says.
            tool: the caller says that it is meant for a tool.
            is_fact: the caller says that it asks for general knowledge (True), or that it does not
                (False).
        """
        ...


def is_known(
    terms: Sequence[str], names: Collection[AbstractSet[str]], held: Collection[str]
) -> bool:
    """Return True if memories hold a name of a query, or most of its words that are not numbers.

    Args:
        terms: of the query, without stop words.
        names: the terms of each of its names and identifiers.
        held: those of the terms that memories hold.
    """
    words = [term for term in terms if not term.isdecimal()]
    return any(name <= set(held) for name in names) or 2 * sum(
        word in held for word in words
    ) > len(words)


@dataclass(frozen=True)
class WordGate:
    """Passes whatever is not small talk, general knowledge, or meant for a tool.

    When in doubt it searches: a needless search costs milliseconds, a missed one the answer. A
    message of more than 300 characters is always worth one. Words alone cannot tell "Who was Albert
    Einstein?" from "Who was Anna Berg?"; a caller who can says `is_fact`.

    Attributes:
        small_talk: phrases; a message made of nothing else is not searched.
        general: regular expressions of a whole question that anybody's encyclopedia answers.
        personal: words that make such a question personal after all ("what is my …").
    """

    small_talk: Sequence[str] = SMALL_TALK
    general: Sequence[str] = GENERAL
    personal: Sequence[str] = PERSONAL

    def searches(self, text: str, *, tool: bool = False, is_fact: bool | None = None) -> bool:
        """False for tool queries, small talk, and general questions without a personal word.

        Which questions are general is told by the patterns, unless `is_fact` says so.
        """
        if tool:
            return False
        if is_fact:
            return bool(self._own.search(plain(text)))
        if len(text.strip()) > MAX_CHARS:
            return True
        folded = plain(text)
        if not folded or self._chatting.fullmatch(folded):
            return False
        return is_fact is False or not self.is_general(text) or bool(self._own.search(folded))

    def is_general(self, text: str) -> bool:
        """Return True if the text has the form of a question that an encyclopedia answers."""
        question = bare(" ".join(text.replace("’", "'").split()))
        return bool(self._common.fullmatch(question[:1].lower() + question[1:]))

    @cached_property
    def _chatting(self) -> re.Pattern[str]:
        phrases = sorted((plain(phrase) for phrase in self.small_talk), key=len, reverse=True)
        each = "|".join(
            re.escape(phrase) + (r"\W*" if wide(phrase) else r"(?:\W+|$)") for phrase in phrases
        )
        # Possessive, for phrases are made of phrases ("bye bye"): trying every way to cut a long
        # message never ends.
        return re.compile(rf"(?:{each or '(?!)'})++")

    @cached_property
    def _common(self) -> re.Pattern[str]:
        return re.compile("|".join(f"(?:{pattern})" for pattern in self.general) or "(?!)")

    @cached_property
    def _own(self) -> re.Pattern[str]:
        words = {word: re.escape(word) for word in self.personal}
        forms = (form if wide(word) else rf"\b{form}\b" for word, form in words.items())
        return re.compile("|".join(forms) or "(?!)")
