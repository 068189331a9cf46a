"""Text of others as data in a prompt: readable, and unable to end a block, speak for somebody, or
hide in it.
"""

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
    """Return the text as data: readable, but without anything that acts.

    Control, bidirectional and invisible characters go; angle brackets and their look-alikes become
    entities; the fence's name, the labels of roles at the start of a line in any language, role
    tags and turn tokens lose their form. Line breaks stay unless `one_line`.
    """
    unified = _LINE_BREAK.sub("\n", text)
    plain = "".join(map(_printed, unified)).translate(_ANGLES)
    normalised = _seen(plain)
    for form, signs in _FORMS:
        if matches := list(form.finditer(normalised)):
            plain = _without(plain, matches, signs)
            normalised = _seen(plain)
    lines = [" ".join(line.split()) if one_line else line.rstrip() for line in plain.split("\n")]
    return (
        LINE_BREAK.join(line for line in lines if line)
        if one_line
        else "\n".join(lines).strip("\n")
    )


def escaped_value(value: Any) -> Any:
    """Return a JSON value whose texts, keys included, are escaped, one line each."""
    if isinstance(value, str):
        return escaped(value, one_line=True)
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        return {escaped(str(key), one_line=True): escaped_value(item) for key, item in pairs}
    if isinstance(value, (list, tuple)):
        return [escaped_value(item) for item in cast("Iterable[Any]", value)]
    return value if isinstance(value, int | float | None) else escaped(str(value), one_line=True)


def unescaped(text: str) -> str:
    """Return a model's text that had read escaped text with its angle brackets restored."""
    return text.replace("&lt;", "<").replace("&gt;", ">")


@lru_cache(maxsize=1 << 16)
def _printed(char: str) -> str:
    """Return a blank as a space, and what prints nothing as nothing."""
    if char == "\n" or " " <= char <= "~":
        return char
    category = unicodedata.category(char)
    if char == "\t" or category == "Zs":
        return " "
    hidden = category in ("Cc", "Cf", "Cs", "Co", "Cn") or char in _INVISIBLE
    selector = "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"
    return "" if hidden or selector else char


def _without(text: str, matches: Iterable[re.Match[str]], signs: Mapping[str, str]) -> str:
    """Return the text with the named groups of matches in what is seen of it replaced."""
    places = [place for place, char in enumerate(text) for _ in _letters(char)]
    pieces: list[str] = []
    done = 0
    for match in matches:
        for sign, harmless in signs.items():
            pieces += [text[done : places[match.start(sign)]], harmless]
            done = places[match.end(sign) - 1] + 1
    return "".join([*pieces, text[done:]])


def _seen(text: str) -> str:
    """Return a text as a careless eye reads it: plain letters, without marks above and below."""
    return "".join(map(_letters, text))


@lru_cache(maxsize=1 << 16)
def _letters(char: str) -> str:
    """Return the plain letters that a character looks like; itself when it looks like none."""
    parts = unicodedata.normalize("NFKD", char)
    return "".join(_latin(part) for part in parts if unicodedata.category(part) not in ("Mn", "Me"))


def _latin(char: str) -> str:
    base = char.translate(_TWINS)
    named = None if base.isascii() else _LATIN.search(unicodedata.name(base, ""))
    return named[1].lower() if named else base


def _one_of(words: Iterable[str]) -> str:
    """Return an expression for these words as they are seen, the longest first."""
    spelled = {
        form for word in words for form in (word, word.capitalize(), word.upper())
    }  # "Д" looks like "A", "д" not
    normalised = {_seen(word).lower() for word in spelled}
    return "|".join(sorted(normalised, key=len, reverse=True)).replace(" ", "[ _]?")


_ROLES = table("roles")
_SPEAKERS = frozenset(
    (
        *(word for line in _ROLES["speakers"].values() for word in line.split()),
        *(" ".join(phrase.split()) for phrase in _ROLES["others"]["phrases"].split(",")),
    )
)
_STEPS = frozenset((*_ROLES["others"]["steps"].split(), "action input", "final answer"))
_SPOKEN = _one_of(_SPEAKERS)
_LABELS = _one_of(_SPEAKERS | _STEPS)
_ROLE_MARKER = re.compile(
    rf"(?im)^(?:&[gl]t;|[^\w\n]|_)*+(?:\d{{1,3}}[.)] ?)?(?:{_LABELS})"
    r"(?:[ _#-]{1,2}(?:prompt|message|note|override|\d{1,3})){0,3}(?: from \w{1,40})?"
    r"(?: ?[(（\[{【][^()（）\[\]{}【】\n]{0,40}[)）\]}】])?[\W_]{0,20}?"
    r"(?P<gone>\s{0,5}[:︓﹕∶ː꞉։׃])"
)
_BRACKETED = re.compile(
    rf"(?i)(?P<open>[\[【⟦〔])(?=[\s/]{{0,5}}(?:inst|sys|available|{_SPOKEN})(?:_\w{{1,20}})?\b)"
    r"[^\[\]【】⟦⟧〔〕\n]{0,80}(?P<close>[\]】⟧〕])"
)
_HEADING = re.compile(
    rf"(?im)^[^\S\n]{{0,20}}(?P<gone>#{{1,9}})(?=[^\S\n]{{0,20}}(?:{_SPOKEN}|new\s)\b)"
)
_QUOTE = r"""["'“”‘’„\\]"""
_ROLE_KEY = re.compile(
    rf"(?i)\brole(?:{_QUOTE}{{1,3}}"
    rf"|(?=\s{{0,5}}:\s{{0,5}}{_QUOTE}?(?:{_SPOKEN})\b))(?P<gone>\s{{0,5}}:)"
)
_CODE = re.compile(r"(?P<gone>`{3,}|~{3,})")
# digits may stand for letters, and anything else between them
_NAME = "(?:&#?\\w{1,24};|[\\W_])*+".join(
    {"a": "[a4]", "e": "[e3]", "i": "[il1]", "o": "[o0]", "s": "[s5]"}.get(letter, letter)
    for letter in FENCE.replace("_", "").lower()
)
_TURN_TOKEN = re.compile(
    r"(?i)\b(?:start|end|eot|eom|im|begin|header|python)(?P<gone>_)(?:of_turn|of_text|start|end|sep"
    r"|id|header_id|tag)\b"
)
_FORMS: tuple[tuple[re.Pattern[str], Mapping[str, str]], ...] = (
    (re.compile(f"(?i)(?P<gone>{_NAME})"), {"gone": "past conversations"}),
    (_ROLE_MARKER, {"gone": " -"}),
    (_BRACKETED, {"open": "(", "close": ")"}),
    (_HEADING, {"gone": ""}),
    (_ROLE_KEY, {"gone": " -"}),
    (_CODE, {"gone": "'''"}),
    (_TURN_TOKEN, {"gone": " "}),
)
