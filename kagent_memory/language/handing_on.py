"""Takes off what is said around a fact that is handed on: "No problem, Ada: as you told me on Monday, …, right?"."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import cache

from . import tables
from .tokenizer import STOP_WORDS, tokens
from .vocabulary import conversation

_CHUNK = re.compile(r"\S+")
_LABEL = re.compile(r"\[[^\[\]\n]{0,20}\d{4}-\d\d-\d\d[^\[\]\n]{0,80}\]")
_MARKER = re.compile(r"\(?#?\d{1,3}[.):](?=\s|\Z)")
_DATED = re.compile(r"#?\d{1,4}(?:[-./]\d{1,2}(?:[-./]\d{1,4})?)?(?:st|nd|rd|th)?")
_MARKUP = ' \t\r\n*_>`"“”„«»‹›•·-–—'
_QUOTES = ' \t\r\n*_`"“”„«»‹›'
_EDGES = "\"'“”‘’«»„()[]{}<>*_`~,;:!?…¿¡.。、，：！？-–—"
_DELIMITERS = frozenset(",;:.!?…—–-，。：！？、")
_LONGEST = 16  # words of what is said in front of a fact or behind it
_MOST_LAYERS = 8  # of courtesies and the like on either side
_JOINERS = frozenset(conversation.JOINERS.split())
_CONNECTORS = frozenset(conversation.CONNECTORS.split())
_SUBJECTS = frozenset(conversation.SUBJECTS.split())
_DENIALS = frozenset(conversation.DENIALS.split())
_HARMLESS_DENIED = frozenset(conversation.HARMLESS_DENIED.split())
_ASKING = frozenset(conversation.ASKING.split())
_SECOND_PERSON = frozenset(conversation.SECOND_PERSON.split())
_GREETINGS = frozenset(conversation.GREETINGS.split())
_TELLING = frozenset(conversation.TELLING.split())
_AROUND = frozenset(conversation.AROUND.split())
_TURNING = frozenset(conversation.TURNING.split())
_PRAISE = frozenset(conversation.PRAISE.split())
_TAG_VERBS = frozenset(conversation.TAG_VERBS.split())
_TAG_SUBJECTS = frozenset(conversation.TAG_SUBJECTS.split())
_COURTESIES = frozenset(" ".join(phrase.split()) for phrase in conversation.COURTESIES.split("|"))


def core_of(sentence: str, names: Collection[str] = ()) -> str:
    """A sentence without markers, courtesies, the user's name, and by whom and when it was told; "" if that is all.

    Args:
        sentence: what somebody says.
        names: what the user is called, in small letters.
    """
    text = sentence.strip().strip(_QUOTES)
    for shortened in (_without_beginning, _without_end):
        for _ in range(_MOST_LAYERS):
            shorter = shortened(text, names)
            if shorter == text:
                break
            text = shorter
    return text


def telling_terms(text: str) -> list[str]:
    """The terms of a text that tell something of what is remembered."""
    return [term for term in tokens(text) if term not in STOP_WORDS and term not in _idle_terms()]


def is_idle(word: str) -> bool:
    """Whether a word, or its stem, is one of those that are said around a fact."""
    return word in _idle_terms() or word in _TELLING


def is_turning(word: str) -> bool:
    """Whether a small word turns what is said into something else."""
    return word in _TURNING


def is_praise(word: str) -> bool:
    """Whether a word only praises what it stands beside."""
    return word in _PRAISE


def _without_beginning(text: str, names: Collection[str]) -> str:
    text = text.lstrip(_MARKUP)
    for mark in (_LABEL, _MARKER):
        if found := mark.match(text):
            return text[found.end() :].lstrip(" :,-–—")
    text = text.lstrip("([{")
    words = _words(text[:400])[:_LONGEST]
    lows = [low for low, _, _ in words]
    for size in range(min(6, len(words)), 0, -1):
        last = words[size - 1]
        ends = _ends(text, words, size - 1)
        if " ".join(lows[:size]) in _COURTESIES and (ends or (size == 1 and last[0] in _JOINERS)):
            return text[last[2] :].lstrip(" ,;:.!?…—–-")
    if size := _vocative(text, words, names):
        return text[words[size - 1][2] :].lstrip(" ,;:.!?…—–-")
    cut = _frame(text, words, names)
    return text[words[cut - 1][2] :].lstrip(" ,;:.!?…—–-") if cut else text


def _vocative(text: str, words: Sequence[tuple[str, int, int]], names: Collection[str]) -> int:
    """How many words at the beginning only address the user: "Hi Ada," and "Ada, you …"."""
    begin = int(bool(words) and words[0][0] in _GREETINGS)
    for end in range(begin, min(begin + 3, len(words))):
        low, start, _ = words[end]
        if not text[start : start + 1].isupper() and low not in names:
            return 0
        if not _ends(text, words, end):
            continue
        called = all(low in names for low, _, _ in words[begin : end + 1])
        addressed = end + 1 < len(words) and words[end + 1][0] in _SECOND_PERSON
        return end + 1 if begin or called or addressed or (end + 1 == len(words) == 1 and called) else 0
    return 0


def _frame(text: str, words: Sequence[tuple[str, int, int]], names: Collection[str]) -> int:
    """How many words at the beginning say who told it, to whom and when, and that it is remembered."""
    told = dated = 0
    for place, (low, _, _) in enumerate(words):
        cut = 0
        if told and (low in _CONNECTORS or low in _SUBJECTS):
            cut = place + (low in _CONNECTORS)
        elif low and not _is_around(low) and low not in names:
            speaks = any(low.split("'")[0] in ("you", "i", "we") for low, _, _ in words[:told])
            return told if 0 < dated < told and speaks and not _denies(words[:told]) else 0
        elif low in _TELLING:
            told = place + 1
        elif not dated and low not in _AROUND and _is_dated(low):
            dated = place + 1
        if told and not cut and _ends(text, words, place):
            cut = place + 1
        if cut:
            return cut if _may_deny(words[:cut]) else 0
    return 0


def _is_around(low: str) -> bool:
    """Whether a word may stand in what is said of when, by whom and how often something was told."""
    return low in _TELLING or low in _AROUND or low.split("'")[0] in _AROUND or low in _DENIALS or _is_dated(low)


def _denies(words: Sequence[tuple[str, int, int]]) -> bool:
    return any(low in _DENIALS and low not in _AROUND for low, _, _ in words)


def _may_deny(words: Sequence[tuple[str, int, int]]) -> bool:
    """Whether what is denied is nothing of the fact: "I haven't forgotten that …", "didn't you say …"."""
    lows = {low for low, _, _ in words}
    return not _denies(words) or not lows.isdisjoint(_HARMLESS_DENIED) or (words[0][0] in _ASKING and "you" in lows)


def _without_end(text: str, names: Collection[str]) -> str:
    bare = text.rstrip(_QUOTES + ".!?…。！？ ")
    if bare[-1:] in ")]":
        start = max(bare.rfind("("), bare.rfind("["))
        if start >= 0 and _is_aside(bare[start + 1 : -1], names, bracketed=True):
            return bare[:start].rstrip(_QUOTES + " ,;:—–-")
    for mark in (",", "，", ";", " - ", " – ", " — ", "—", "? ", "、"):
        start = bare.rfind(mark)
        if start >= 0 and _is_aside(bare[start + len(mark) :], names):
            return bare[:start].rstrip()
    return bare if text[-1:] in _QUOTES else text


def _is_aside(text: str, names: Collection[str], *, bracketed: bool = False) -> bool:
    """Whether what stands behind a fact is no part of it: "right?", "don't you?", "Ada", "as you told me on Monday"."""
    words = _words(text)
    if not words or len(words) > _LONGEST:
        return not words
    lows = [low for low, _, _ in words]
    if " ".join(lows) in _COURTESIES or all(low in names or low == "dear" for low in lows):
        return True
    if len(lows) == 2 and lows[0] in _TAG_VERBS and lows[1] in _TAG_SUBJECTS:
        return True
    told = any(low in _TELLING for low in lows) and (bracketed or not _is_dated(lows[0]))
    return told and all(map(_is_around, lows)) and _may_deny(words)


def _words(text: str) -> list[tuple[str, int, int]]:
    """(the word in small letters without punctuation, where it begins, where what follows it directly ends)."""
    found: list[tuple[str, int, int]] = []
    for chunk in _CHUNK.finditer(text):
        low = chunk.group().strip(_EDGES).casefold().replace("’", "'")
        found.append((low, chunk.start(), chunk.end()))
    return found


def _ends(text: str, words: Sequence[tuple[str, int, int]], place: int) -> bool:
    """Whether a pause follows the word, or nothing."""
    _, _, end = words[place]
    behind = text[end:].lstrip()[:1] if end < len(text) else ""
    return text[end - 1 : end] in _DELIMITERS or not text[end : end + 40].strip() or behind in ("—", "–", "-", ":")


def _is_dated(low: str) -> bool:
    if _DATED.fullmatch(low):
        return True
    word = tables.lexeme(low, frozenset(("en",)))
    return word.date is not None or word.number is not None


@cache
def _idle_terms() -> frozenset[str]:
    words = f"{conversation.TELLING} {conversation.PRAISE} user users assistant earlier previously again back welcome"
    return frozenset(tokens(words)) - frozenset(tokens("history question questions point points message messages"))
