"""Escape text for a prompt: readable, and unable to end a block, speak for somebody, or hide."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, cast

from ...language.word_lists import table
from . import FENCE

LINE_BREAK: Final = " / "

_LOOK_ALIKES = table("look_alikes")
_ANGLES, _TWINS = (
    str.maketrans(
        {alike: plain for plain, alikes in _LOOK_ALIKES[kind].items() for alike in alikes}
    )
    for kind in ("angles", "letters")
)
_LINE_BREAK = re.compile(r"\r\n?|[\u2028\u2029\u0085\v\f]")
_LATIN = re.compile(r"(?:LATIN|REGIONAL INDICATOR SYMBOL) .*\b([A-Z])(?: WITH .*)?$")
# Letters, marks and symbols that print nothing, beyond what the categories Cc, Cf, Cs, Co and Cn
# cover.
_INVISIBLE = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U0001d159"
)


def escaped(text: str, *, one_line: bool = False) -> str:
    """Escape a text so that it stays readable but is nothing more than data.

    Control, bidirectional and invisible characters are removed. Angle brackets and their
    look-alikes become entities. The fence's name, the labels of roles at the start of a line in any
    language, role tags and turn tokens are broken up. Line breaks stay unless `one_line`.
    """
    unified = _LINE_BREAK.sub("\n", text)
    plain = "".join(map(_printed, unified)).translate(_ANGLES)
    visible = _visible(plain)
    for form, replacements in _FORMS:
        if matches := list(form.finditer(visible)):
            plain = _replace(plain, matches, replacements)
            visible = _visible(plain)
    lines = [" ".join(line.split()) if one_line else line.rstrip() for line in plain.split("\n")]
    return (
        LINE_BREAK.join(line for line in lines if line)
        if one_line
        else "\n".join(lines).strip("\n")
    )


def escaped_value(value: Any) -> Any:
    """Escape all texts of a JSON value, keys included, to one line each."""
    if isinstance(value, str):
        return escaped(value, one_line=True)
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        return {escaped(str(key), one_line=True): escaped_value(item) for key, item in pairs}
    if isinstance(value, (list, tuple)):
        return [escaped_value(item) for item in cast("Iterable[Any]", value)]
    return value if isinstance(value, int | float | None) else escaped(str(value), one_line=True)


def unescaped(text: str) -> str:
    """Restore the angle brackets in the answer of a model that read escaped text."""
    return text.replace("&lt;", "<").replace("&gt;", ">")


@lru_cache(maxsize=1 << 16)
def _printed(char: str) -> str:
    """Return a space for a blank, "" for a character that prints nothing, else the character."""
    if char == "\n" or " " <= char <= "~":
        return char
    category = unicodedata.category(char)
    if char == "\t" or category == "Zs":
        return " "
    is_invisible = category in ("Cc", "Cf", "Cs", "Co", "Cn") or char in _INVISIBLE
    is_selector = "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"
    return "" if is_invisible or is_selector else char


def _replace(text: str, matches: Iterable[re.Match[str]], replacements: Mapping[str, str]) -> str:
    """Replace the named groups of matches, which were found in the visible form of the text."""
    indexes = [index for index, char in enumerate(text) for _ in _letters(char)]
    pieces: list[str] = []
    end = 0
    for match in matches:
        for group, replacement in replacements.items():
            pieces += [text[end : indexes[match.start(group)]], replacement]
            end = indexes[match.end(group) - 1] + 1
    return "".join([*pieces, text[end:]])


def _visible(text: str) -> str:
    """Return a text as a hasty reader sees it: plain letters without accents."""
    return "".join(map(_letters, text))


@lru_cache(maxsize=1 << 16)
def _letters(char: str) -> str:
    """Return the plain letters that a character looks like, or the character itself."""
    parts = unicodedata.normalize("NFKD", char)
    return "".join(_latin(part) for part in parts if unicodedata.category(part) not in ("Mn", "Me"))


def _latin(char: str) -> str:
    base = char.translate(_TWINS)
    named = None if base.isascii() else _LATIN.search(unicodedata.name(base, ""))
    return named[1].lower() if named else base


def _any_of(words: Iterable[str]) -> str:
    """Return a pattern that matches the visible form of any of these words, the longest first."""
    # in all cases: "Д" looks like "A", "д" does not
    spellings = {form for word in words for form in (word, word.capitalize(), word.upper())}
    forms = {_visible(word).lower() for word in spellings}
    return "|".join(sorted(forms, key=len, reverse=True)).replace(" ", "[ _]?")


_ROLES = table("roles")
_SPEAKERS = frozenset(
    (
        *(word for line in _ROLES["speakers"].values() for word in line.split()),
        *(" ".join(phrase.split()) for phrase in _ROLES["others"]["phrases"].split(",")),
    )
)
_STEPS = frozenset((*_ROLES["others"]["steps"].split(), "action input", "final answer"))
_SPOKEN = _any_of(_SPEAKERS)
_LABELS = _any_of(_SPEAKERS | _STEPS)
_ROLE_MARKER = re.compile(
    rf"(?im)^(?:&[gl]t;|[^\w\n]|_)*+(?:\d{{1,3}}[.)] ?)?(?:{_LABELS})"
    r"(?:[ _#-]{1,2}(?:prompt|message|note|override|\d{1,3})){0,3}(?: from \w{1,40})?"
    r"(?: ?[(（\[{【][^()（）\[\]{}【】\n]{0,40}[)）\]}】])?[\W_]{0,20}?"
    r"(?P<mark>\s{0,5}[:︓﹕∶ː꞉։׃])"
)
_BRACKETED = re.compile(
    rf"(?i)(?P<open>[\[【⟦〔])(?=[\s/]{{0,5}}(?:inst|sys|available|{_SPOKEN})(?:_\w{{1,20}})?\b)"
    r"[^\[\]【】⟦⟧〔〕\n]{0,80}(?P<close>[\]】⟧〕])"
)
_HEADING = re.compile(
    rf"(?im)^[^\S\n]{{0,20}}(?P<mark>#{{1,9}})(?=[^\S\n]{{0,20}}(?:{_SPOKEN}|new\s)\b)"
)
_QUOTE = r"""["'“”‘’„\\]"""
_ROLE_KEY = re.compile(
    rf"(?i)\brole(?:{_QUOTE}{{1,3}}"
    rf"|(?=\s{{0,5}}:\s{{0,5}}{_QUOTE}?(?:{_SPOKEN})\b))(?P<mark>\s{{0,5}}:)"
)
_CODE = re.compile(r"(?P<mark>`{3,}|~{3,})")
# digits may stand for letters, and other characters between them
_NAME = "(?:&#?\\w{1,24};|[\\W_])*+".join(
    {"a": "[a4]", "e": "[e3]", "i": "[il1]", "o": "[o0]", "s": "[s5]"}.get(letter, letter)
    for letter in FENCE.replace("_", "").lower()
)
_TURN_TOKEN = re.compile(
    r"(?i)\b(?:start|end|eot|eom|im|begin|header|python)(?P<mark>_)(?:of_turn|of_text|start|end|sep"
    r"|id|header_id|tag)\b"
)
_FORMS: tuple[tuple[re.Pattern[str], Mapping[str, str]], ...] = (
    (re.compile(f"(?i)(?P<mark>{_NAME})"), {"mark": "past conversations"}),
    (_ROLE_MARKER, {"mark": " -"}),
    (_BRACKETED, {"open": "(", "close": ")"}),
    (_HEADING, {"mark": ""}),
    (_ROLE_KEY, {"mark": " -"}),
    (_CODE, {"mark": "'''"}),
    (_TURN_TOKEN, {"mark": " "}),
)
