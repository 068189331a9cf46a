"""One tokenizer for all stores: the index terms of a memory, the search terms of a query, a text's
identity.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import Final

from .preferences import PREFERENCE_TERM, states_preference
from .word_lists import all_words, table

MAX_TERM_CHARS = 64

STOP_WORDS: Final = all_words("stop_words")
"""Words that say nothing of what a memory is about."""
JOINING_WORDS: Final = all_words("joining_words")
"""Words that a text may add to others that it unites, and say nothing new."""

# The snowball stemmer knows rules; these English past tenses and plurals follow none.
_IRREGULAR: dict[str, str] = {
    past: word for past, _, word in (pair.partition(":") for pair in all_words("irregular_forms"))
}

# Scripts written without spaces (Han, kana, Hangul, Thai, Lao, Khmer, Myanmar) are searched by
# pairs of characters.
_HAN = "\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_UNSPACED = (
    _HAN
    + "\u3041-\u3096\u30a1-\u30fa\u30fc-\u30ff\uac00-\ud7a3\u0e01-\u0eff\u1000-\u109f\u1780-\u17d3"
)
# Brahmic vowel signs are no \w to Python, yet parts of words.
_SIGNS = "\u0900-\u0963\u0966-\u0df3\u0f18-\u0fbc"
_LETTER = rf"(?:[^\W_]|[{_SIGNS}])"
_SPACED = rf"(?:(?![{_UNSPACED}]){_LETTER})+"
_RUN = re.compile(
    rf"[{_UNSPACED}]+|{_SPACED}(?:[-_./:@\\+#]+{_SPACED})*(?:(?<![^\W_]{{2}})(?:\+\+|\#))?"
)
_PIECE = re.compile(r"[/@:\\#]+")
_HYPHEN = re.compile(r"[-_+]+")
_LEAF = re.compile(r"[-_./:@\\+#]+")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_CASED_INSIDE = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]|[A-Za-z]{2}\d{2}")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_VERSION = re.compile(r"v\d+\.\d")
_IS_HAN = re.compile(f"[{_HAN}]")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")


_WORD_OF_SLOT = re.compile(r"\w+")
_ARTICLES = frozenset(
    ("the", "a", "an", "my", "his", "her", "their", "der", "die", "das", "le", "la", "el")
)
_MAX_SLOT_PART_CHARS = 100  # characters, as the migration that began to keep slots cuts them
EDGES = "\"'“”‘’«»„‹›()[]{}<>*,;:!?…¿¡.。！？"
_ENDS = ".!…"
_JOINTS = re.compile("['’-]")
_MAX_SYMBOL_CHARS = 3  # letters of what a number counts that may be a unit
_MIN_SHOUTED_CHARS = 5  # letters, all capitals, that are a word rather than an acronym


def tokens(text: str) -> list[str]:
    """The terms of a text in their order, stop words included, as they are indexed and searched.

    Words are folded (case, accents) and stemmed; identifiers (`ERR-00123`, `app-12.log`,
    `getUserName`) give themselves and their parts; scripts without spaces give pairs of characters,
    and single Han characters too.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).translate(_folding())
    terms: list[str] = []
    for chunk in text.split():
        terms += _remembered(chunk) if len(chunk) <= MAX_TERM_CHARS else _terms(chunk)
    return terms


def index_terms(content: str, author: str | None = None) -> Mapping[str, int]:
    """Term → count of what is stored for one memory; the author's name counts as one of its words,
    and so does that it states a preference.

    Stop words are left out, unless the content holds nothing else.
    """
    counts = Counter(_telling(tokens(content)))
    for term in tokens(author or ""):
        counts.setdefault(term, 1)
    if states_preference(content, author):
        counts[PREFERENCE_TERM] = 1
    return counts


def query_terms(text: str) -> Sequence[str]:
    """The distinct terms a query is searched by, in their order; stop words only when there is
    nothing else.
    """
    return list(dict.fromkeys(_telling(tokens(text))))


@cache
def denying_terms() -> frozenset[str]:
    """Return the terms of words that deny, end or limit what is said, in several languages."""
    return frozenset(
        term for word in table("echo_words")["decisive"].split() for term in tokens(word)
    )


def normalised(text: str) -> str:
    """The text by which it is known once it is forgotten: NFKC, case folded, white space and
    closing punctuation aside.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.split()).rstrip(".!… ")


def spelling(text: str) -> str:
    """The text as facts are compared by it: blanks, and capitals that begin plain words or write
    long ones throughout, folded, and nothing else.

    Whatever may tell two things apart stays: the case of units, identifiers and acronyms, super-
    and subscripts, letters that only look alike. What ends a sentence after a plain word goes.
    """
    words = unicodedata.normalize("NFC", text).split()
    if not words:
        return ""
    core = words[-1].rstrip(_ENDS)
    if (bare := core.strip(EDGES)) != "":  # "5!", "C#" and a lone dot say something by themselves
        words[-1] = core if core[-1].isalpha() and len(bare) > 1 else words[-1].rstrip(".…")
    folded: list[str] = []
    for before, word in zip(("", *words), words, strict=False):
        core, small = word.strip(EDGES), word.lower()
        letters = all(map(str.isalpha, _JOINTS.split(core)))
        # what a number counts may be a unit, and so may a letter that stands alone
        is_unit = len(core) <= _MAX_SYMBOL_CHARS and any(map(str.isdigit, before))
        is_shouted = core.isupper() and len(core) >= _MIN_SHOUTED_CHARS
        is_plain = is_shouted or core == "I" or (len(core) > 1 and core[1:] == core[1:].lower())
        folded.append(small if letters and is_plain and not is_unit else word)
    return " ".join(folded)


def identity(content: str, *, verbatim: bool, event_ids: Sequence[str] = ()) -> bytes:
    """16 bytes that two memories share when they are the same one.

    Facts are the same by their `spelling`; verbatim turns by their text and their event, since the
    same words said twice are two turns.
    """
    digest = hashlib.blake2b(digest_size=16, person=b"turn" if verbatim else b"fact")
    digest.update((content if verbatim else spelling(content)).encode())
    for event_id in event_ids if verbatim else ():
        raw = event_id.encode()
        digest.update(b"\0" + len(raw).to_bytes(8, "big") + raw)
    return digest.digest()


def slot(subject: str | None, attribute: str | None) -> str | None:
    """Subject and attribute as they are compared, spelling, case and articles aside; None without
    one of them.
    """
    if not subject or not attribute:
        return None
    parts = list[str]()
    for part in (subject, attribute):
        folded = unicodedata.normalize("NFKC", part[: 4 * _MAX_SLOT_PART_CHARS]).casefold()
        words = _WORD_OF_SLOT.findall(folded)
        telling = [word for word in words if word not in _ARTICLES]
        parts.append(" ".join(telling or words)[:_MAX_SLOT_PART_CHARS])
    return "\n".join(parts) if all(parts) else None


def is_question(text: str, closing: str = " \n\r\t") -> bool:
    """Return True if the text ends with a question mark; closing brackets and quotes may follow."""
    return text.rstrip(closing)[-1:] in ("?", "？", "؟")


def estimated_tokens(text: str) -> int:
    """About how many tokens a model makes of the text: 4 ASCII characters, or 1 other, to a token.

    Gemini's documentation gives 4 characters a token (ai.google.dev/gemini-api/docs/tokens).
    Counted with cl100k_base, one sentence each, characters a token: English 4.1, Korean 1.3,
    Chinese, Thai and Greek 1.1, Hindi and Japanese 0.9. German and Vietnamese come out right with
    their accents taken as 1; Russian (2.2) is estimated twice as high.
    """
    plain = len(text.encode("ascii", "ignore"))
    return (plain + 3) // 4 + len(text) - plain


def _telling(terms: list[str]) -> list[str]:
    return [term for term in terms if term not in STOP_WORDS] or terms


def _terms(chunk: str) -> tuple[str, ...]:
    """The terms of a text without white space."""
    chunk = _THOUSANDS.sub("", chunk) if "," in chunk else chunk
    terms: list[str] = []
    for run in _RUN.findall(chunk):
        if not _IS_UNSPACED.match(run):
            terms += _spaced(run)
        elif len(run) == 1:
            terms.append(run)
        else:
            terms += map("".join, pairwise(run))
            terms += _IS_HAN.findall(run)
    return tuple(terms)


_remembered = lru_cache(maxsize=1 << 16)(_terms)


def _spaced(run: str) -> Iterator[str]:
    """The parts of a word or identifier, and when there are several, the whole and its larger
    pieces as typed.
    """
    leaves: list[str] = []
    for leaf in filter(None, _LEAF.split(run)):
        leaves += _CAMEL.findall(leaf) if leaf.isascii() and _CASED_INSIDE.search(leaf) else (leaf,)
    for leaf in leaves:
        yield _word(leaf.casefold())
    if leaves == [run]:
        return
    folded = run.casefold()
    pieces = _PIECE.split(folded)
    smaller = [part for piece in pieces for part in _HYPHEN.split(piece)]
    known = {"", *(leaf.casefold() for leaf in leaves)}
    for piece in dict.fromkeys([folded, *pieces, *smaller]):
        if piece not in known:
            yield _word(piece)
        if _VERSION.match(piece):
            yield piece[1:MAX_TERM_CHARS]


@lru_cache(maxsize=1 << 16)
def _word(folded: str) -> str:
    if folded in STOP_WORDS or not folded.isascii() or not folded.isalpha():
        return folded[:MAX_TERM_CHARS]
    word = folded[:MAX_TERM_CHARS]
    # Not `snowballstemmer.stemmer`: where PyStemmer is installed that is PyStemmer's, whose version
    # knows other rules, and terms that are stored must be found again in any environment.
    from snowballstemmer.english_stemmer import EnglishStemmer  # pyright: ignore

    # A stemmer keeps the word it works on, so that two threads must not share one.
    return EnglishStemmer().stemWord(_IRREGULAR.get(word, word))  # pyright: ignore


@cache
def _folding() -> dict[int, str | None]:
    """Accents off Latin and Greek letters, points off Arabic and Hebrew ones; invisible joiners
    away.
    """
    folded: dict[int, str | None] = {
        ord(mark): None for mark in "\u00ad\u200c\u200d\u2060\ufeff\u0640"
    }
    for first, last in ((0x0300, 0x036F), (0x0591, 0x05C7), (0x064B, 0x065F), (0x0670, 0x0670)):
        folded |= {
            code: None for code in range(first, last + 1) if unicodedata.combining(chr(code))
        }
    for first, last in ((0x00C0, 0x024F), (0x0370, 0x03FF), (0x1E00, 0x1FFF)):
        for code in range(first, last + 1):
            base = unicodedata.normalize("NFD", chr(code))[0]
            if base != chr(code):
                folded[code] = base
    plain = dict(zip("øØłŁđĐı’", "oOlLdDi'", strict=True))
    return folded | str.maketrans(plain | {"æ": "ae", "Æ": "AE", "œ": "oe"})
