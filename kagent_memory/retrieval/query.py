"""Decide before a prefetch whether a message is worth a search."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

from ..language.general_questions import GENERAL
from ..language.scripts import bare, plain, wide
from ..language.word_lists import QUERY_WORDS, table

MAX_CHARS = 300
SMALL_TALK: Final = tuple(" ".join(table("query_words")["small_talk"].split()).split(", "))
PERSONAL: Final = (
    QUERY_WORDS["first_person"] + QUERY_WORDS["first_person_unspaced"] + QUERY_WORDS["others"]
)


class Gate(Protocol):
    """An object that decides before a prefetch whether a message is worth a search."""

    def searches(self, text: str) -> bool:
        """Return True to search for `text`, a user's message."""
        ...


@dataclass(frozen=True)
class WordGate:
    """A gate that passes everything but small talk and general knowledge.

    When in doubt it searches: a needless search costs milliseconds, a missed one the answer.
    Messages of more than 300 characters always pass. Words alone cannot tell "Who was Albert
    Einstein?" from "Who was Anna Berg?", so it searches for both.

    Attributes:
        small_talk: phrases; a message made only of these is not searched.
        general: regular expressions of whole questions that an encyclopedia answers.
        personal: words that make such a question personal after all ("what is my …").
    """

    small_talk: Sequence[str] = SMALL_TALK
    general: Sequence[str] = GENERAL
    personal: Sequence[str] = PERSONAL

    def searches(self, text: str) -> bool:
        """Return False for small talk, and general questions without a personal word."""
        if len(text.strip()) > MAX_CHARS:
            return True
        folded = plain(text)
        if not folded or self._small_talk_pattern.fullmatch(folded):
            return False
        return not self.is_general(text) or bool(self._personal_pattern.search(folded))

    def is_general(self, text: str) -> bool:
        """Return True if the text has the form of a question that an encyclopedia answers."""
        question = bare(" ".join(text.replace("’", "'").split()))
        return bool(self._general_pattern.fullmatch(question[:1].lower() + question[1:]))

    @cached_property
    def _small_talk_pattern(self) -> re.Pattern[str]:
        phrases = sorted((plain(phrase) for phrase in self.small_talk), key=len, reverse=True)
        each = "|".join(
            re.escape(phrase) + (r"\W*" if wide(phrase) else r"(?:\W+|$)") for phrase in phrases
        )
        # Possessive, for phrases are made of phrases ("bye bye"): trying every way to cut a long
        # message never ends.
        return re.compile(rf"(?:{each or '(?!)'})++")

    @cached_property
    def _general_pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(f"(?:{pattern})" for pattern in self.general) or "(?!)")

    @cached_property
    def _personal_pattern(self) -> re.Pattern[str]:
        words = {word: re.escape(word) for word in self.personal}
        forms = (form if wide(word) else rf"\b{form}\b" for word, form in words.items())
        return re.compile("|".join(forms) or "(?!)")
