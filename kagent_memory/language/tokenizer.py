"""The tokenizer of all stores: index terms of a memory, search terms of a query, and the forms in
which texts are compared.
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

from Stemmer import Stemmer

from .preferences import PREFERENCE_TERM, states_preference
from .word_lists import all_words, table

MAX_TERM_CHARS = 64
MAX_QUERY_TERMS = 64

STOP_WORDS: Final = all_words("stop_words")
"""Words that say nothing about the subject of a memory."""
JOINING_WORDS: Final = all_words("joining_words")
"""Words that a merged text may add without saying anything new."""

# English past tenses and plurals that follow no rule of the Snowball stemmer.
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
# Brahmic vowel signs are parts of words, though Python's \w does not match them.
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
_MAX_SLOT_PART_CHARS = 100  # as in the migration that began to keep slots
EDGES = "\"'“”‘’«»„‹›()[]{}<>*,;:!?…¿¡.。！？"
_FULL_STOPS = ".…。।۔"
_ENDS = f"{_FULL_STOPS}!！"
_JOINTS = re.compile("['’-]")
_MAX_SYMBOL_CHARS = 3  # a word after a number that may be a unit
_MIN_SHOUTED_CHARS = 5  # a word in capitals that is no acronym


def tokens(text: str) -> list[str]:
    """Return the terms of a text in order, stop words included.

    Words are folded (case, accents) and stemmed. Identifiers (`ERR-00123`, `app-12.log`,
    `getUserName`) give the whole and its parts. Scripts without spaces give pairs of characters,
    and Han also single characters.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).translate(_folding())
    terms: list[str] = []
    for chunk in text.split():
        terms += _remembered(chunk) if len(chunk) <= MAX_TERM_CHARS else _terms(chunk)
    return terms


def index_terms(content: str, author: str | None = None) -> Mapping[str, int]:
    """Return the terms to index for a memory with their counts.

    The author's name and the statement of a preference count as terms. Stop words are left out,
    unless the content has nothing else.
    """
    counts = Counter(_telling(tokens(content)))
    for term in tokens(author or ""):
        counts.setdefault(term, 1)
    if states_preference(content, author):
        counts[PREFERENCE_TERM] = 1
    return counts


def query_terms(text: str) -> Sequence[str]:
    """Return the distinct search terms of a query in order; stop words only if it has no others."""
    return list(dict.fromkeys(_telling(tokens(text))))


def most_telling(text: str, names: Sequence[frozenset[str]]) -> Sequence[str]:
    """Return at most `MAX_QUERY_TERMS` search terms of a query, those of its names before others.

    Args:
        text: the query.
        names: the terms of each of its names and identifiers.
    """
    terms = query_terms(text)
    if len(terms) <= MAX_QUERY_TERMS:
        return terms
    name_terms = (term for name in names for term in name if term in terms)
    return list(dict.fromkeys((*name_terms, *terms)))[:MAX_QUERY_TERMS]


def is_small(terms: Sequence[str]) -> bool:
    """Return True if all terms are stop words, which no index holds."""
    return bool(terms) and STOP_WORDS.issuperset(terms)


def holding(phrase: str, texts: Mapping[int, str]) -> Mapping[int, Sequence[str]]:
    """Return the words, stop words included, of the texts that hold the words of a phrase one after
    another, or, if none does, of those with all of its words.
    """
    words = tokens(phrase)
    words_of = {key: tokens(text) for key, text in texts.items()}
    candidates = {key: held for key, held in words_of.items() if {*words} <= {*held}}
    run = f" {' '.join(words)} "
    return {
        key: held for key, held in candidates.items() if run in f" {' '.join(held)} "
    } or candidates


@cache
def denying_terms() -> frozenset[str]:
    """Return the terms that negate, end or limit a statement, in several languages."""
    return frozenset(tokens(table("echo_words")["decisive"]))


def normalised(text: str) -> str:
    """Return the form in which texts are compared word for word: NFKC, case folded, white space
    collapsed, closing punctuation removed.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.split()).rstrip(f"{_ENDS} ")


def spelling(text: str) -> str:
    """Return the form in which facts are compared, with white space and the case of plain words
    folded.

    Anything that may distinguish two things stays: the case of units, identifiers and acronyms,
    superscripts and subscripts, look-alike letters. The full stop after a plain last word goes.
    """
    words = unicodedata.normalize("NFC", text).split()
    if not words:
        return ""
    core = words[-1].rstrip(_ENDS)
    if (bare := core.strip(EDGES)) != "":  # "5!", "C#" and a lone dot keep their last character
        words[-1] = core if core[-1].isalpha() and len(bare) > 1 else words[-1].rstrip(_FULL_STOPS)
    folded: list[str] = []
    for before, word in zip(("", *words), words, strict=False):
        core, small = word.strip(EDGES), word.lower()
        if small == word:
            folded.append(word)
            continue
        letters = all(map(str.isalpha, _JOINTS.split(core)))
        # a short word after a number may be a unit, and so may a single letter
        is_unit = len(core) <= _MAX_SYMBOL_CHARS and any(map(str.isdigit, before))
        is_shouted = core.isupper() and len(core) >= _MIN_SHOUTED_CHARS
        is_plain = is_shouted or core == "I" or (len(core) > 1 and core[1:] == core[1:].lower())
        folded.append(small if letters and is_plain and not is_unit else word)
    return " ".join(folded)


def identity(content: str, *, verbatim: bool, event_ids: Sequence[str] = ()) -> bytes:
    """Return the 16 bytes that identify equal memories.

    Facts are equal if their `spelling` is. Verbatim turns are equal if their text and event are,
    since the same words said twice are two turns.
    """
    digest = hashlib.blake2b(digest_size=16, person=b"turn" if verbatim else b"fact")
    digest.update((content if verbatim else spelling(content)).encode())
    for event_id in event_ids if verbatim else ():
        raw = event_id.encode()
        digest.update(b"\0" + len(raw).to_bytes(8, "big") + raw)
    return digest.digest()


def slot(subject: str | None, attribute: str | None) -> str | None:
    """Return subject and attribute in the form in which slots are compared, without case and
    articles; None if one of them is missing.
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


def is_question(text: str) -> bool:
    """Return True if the text ends with a question mark; white space may follow."""
    return text.rstrip(" \n\r\t")[-1:] in ("?", "？", "؟")


def estimated_tokens(text: str) -> int:
    """Estimate the tokens of a text: 4 ASCII characters, or 1 other character, per token.

    Gemini's documentation gives 4 characters per token (ai.google.dev/gemini-api/docs/tokens).
    One sentence each with cl100k_base has, in characters per token: English 4.1, Korean 1.3,
    Chinese, Thai and Greek 1.1, Hindi and Japanese 0.9. German and Vietnamese come out right with
    accented letters counted as 1; Russian (2.2) is estimated twice too high.
    """
    plain = len(text.encode("ascii", "ignore"))
    return (plain + 3) // 4 + len(text) - plain


def _telling(terms: list[str]) -> list[str]:
    return [term for term in terms if term not in STOP_WORDS] or terms


def _terms(chunk: str) -> tuple[str, ...]:
    """Return the terms of a text without white space."""
    plain = chunk.strip(EDGES)
    if plain.isascii() and plain.isalpha() and not _CASED_INSIDE.search(plain):
        return (_word(plain.casefold()),)
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
    """Yield the parts of a word or identifier; if there are several, also the whole and its larger
    pieces.
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


def _word(folded: str) -> str:
    if folded in STOP_WORDS or not folded.isascii() or not folded.isalpha():
        return folded[:MAX_TERM_CHARS]
    word = folded[:MAX_TERM_CHARS]
    return stem(_IRREGULAR.get(word, word), "english")


def stem(word: str, language: str) -> str:
    """Return the stem of a lower-case word by the rules of a language."""
    # a stemmer has state, so threads must not share one
    return Stemmer(language).stemWord(word)


@cache
def _folding() -> dict[int, str | None]:
    """Return the translation that removes accents of Latin and Greek letters, points of Arabic and
    Hebrew ones, and invisible joiners.
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
