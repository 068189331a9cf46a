"""The other forms of a query's words in the language it is asked in: "Versicherungen" for "Versicherung".

English words are stemmed where they are indexed. Of other languages the index holds words as they are written, so that
it stands whatever language they turn out to be in; a query's words are brought to their stem by that language's
Snowball stemmer, and the forms that the language makes of a stem are looked up.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib import import_module
from typing import Final, NamedTuple, Protocol

from .tokenizer import STOP_WORDS, tokens

WORDS_AT_MOST: Final = 8  # of one query
_MOST_CHARS = 1_000
_LEAST_LETTERS = 3
_WORD = re.compile(r"[^\W\d_]+")


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...


class _Language(NamedTuple):
    """What is known of a language.

    Attributes:
        name: of its Snowball stemmer.
        small: words that tell the language, and nothing of what a text is about.
        ends: what stands after a stem.
        begins: what stands before one.
    """

    name: str
    small: str
    ends: str
    begins: str = ""


_LATIN = (
    _Language(
        "german",
        "der die das den dem des was war waren in an am habe habt "
        "ein eine einen einem einer und oder nicht ist sind wird werden wurde haben hat hatte "
        "ich du er sie es wir ihr mein meine meinen dein deine unser unsere auf für von vom zu zum zur bei mit nach "
        "aus über im ins wo wer wen wem wann wie warum welche welcher welches welchen gibt kann soll sich auch noch",
        "e en er n s es em ern est et t te ten ung ungen lich",
    ),
    _Language(
        "dutch",
        "de het een en is in was "
        "niet zijn heeft hebben ik jij hij zij wij jullie mijn jouw onze van voor met naar bij uit over "
        "waar wie wanneer hoe waarom welke wat ook nog er aan op",
        "e en s t er ing ingen de den te ten heid",
    ),
    _Language(
        "french",
        "le la les un une des est on a "
        "du et ou est sont était a ont avait je tu il elle nous vous ils elles mon ma mes ton ta "
        "tes son sa ses notre nos votre leur dans sur pour avec par chez qui que quoi quand où comment pourquoi quel "
        "quelle quels quelles ne pas au aux ce cette ces l d j qu c s",
        "s e es é és ée ées er ez ait ais aient ant ent ons era é ement ation ations eur eurs euse x ir it is ie ies",
    ),
    _Language(
        "spanish",
        "el la los las un una unos unas y o es son está están era fue ha han he yo tú él ella nosotros ellos mi mis tu "
        "tus su sus nuestro nuestra en de del al con por para sin sobre que qué quién quien cuándo cuando dónde donde "
        "cómo como cuál cuáles no se me te le lo",
        "o a os as e es s ar er ir ó aron an aba aban ando iendo ado ada ados adas ido ida idos idas amos emos imos "
        "ción ciones ía ías é ió ieron",
    ),
    _Language(
        "portuguese",
        "o a os as um uma e ou é são está estão era foi tem têm eu você ele ela nós meu minha meus minhas seu sua em "
        "no na nos nas do da dos das de com por para sem sobre que quem quando onde como qual quais não se",
        "o a os as e es s ar er ir ou aram am ava avam ando endo ado ada ados adas ido ida amos ção ções eu iu",
    ),
    _Language(
        "italian",
        "il lo la i gli le un una uno e o è sono era ha hanno ho io tu lui lei noi mio mia miei mie suo sua in di del "
        "della dei delle al alla con per senza su che chi quando dove come quale quali non si nel nella",
        "o a i e are ere ire ato ata ati ate ito ita uto uta ando endo ava iamo ano ono ò zione zioni",
    ),
    _Language(
        "swedish",
        "och eller är var har hade jag du han hon vi ni de min mitt mina din ditt en ett den det i på av för med till "
        "från om som vem när hur varför vilken vilket vilka inte sig",
        "a ar are at arna e en er erna et n na or orna s t te ade ning ningar",
    ),
    _Language(
        "danish",
        "og eller er var har havde jeg du han hun vi min mit mine din dit en et den det i på af for med til fra om som "
        "hvem hvornår hvor hvordan hvorfor hvilken hvilket ikke sig",
        "e en er erne et ene r s t te ede ning ninger",
    ),
)
_SCRIPTS = (
    _Language("russian", "", "а я о е ы и у ю ой ей ам ям ах ях ами ями ов ев ом ем ый ая ое ые ого ому ым их ь"),
    _Language("greek", "", "α ας ες η ης ι ια ο ος ου οι ους ων ω εισ ει"),
    _Language("arabic", "", "ة ات ون ين ان ه ها ي هم نا", "ال و ب ل وال بال لل ف"),
)
_LETTERS = (
    re.compile("[а-яё]"),
    re.compile("[α-ω]"),
    re.compile("[ء-ي]"),
)
_STEMMED = {language.name: language for language in (*_LATIN, *_SCRIPTS)}


def language_of(text: str) -> str | None:
    """The name of the language that most of a text's small words are of; None for English, and when none tells."""
    found = _spoken(frozenset(_words(text)))
    return found.name if found else None


def word_forms(text: str) -> tuple[dict[str, list[str]], frozenset[str]]:
    """For the first words of a query that tell something, the index terms of their other forms; and its small words.

    Nothing for a query in English, in a language not known here, or in none that can be told.
    """
    words = list(_words(text[:_MOST_CHARS]))
    spoken = _spoken(frozenset(words))
    if spoken is None and text.isascii():
        return {}, frozenset()
    small = _small(spoken) if spoken else frozenset[str]()
    forms: dict[str, list[str]] = {}
    for word in dict.fromkeys(words):
        scripts = (one for letters, one in zip(_LETTERS, _SCRIPTS, strict=True) if letters.match(word))
        language = next(scripts, spoken)
        if language and len(word) >= _LEAST_LETTERS and word not in small and len(forms) < WORDS_AT_MOST:
            [term, *_] = tokens(word) or [word]
            forms[term] = [form for form in _forms(language.name, word) if form != term]
    return forms, frozenset(term for word in small.intersection(words) for term in tokens(word))


def _words(text: str) -> Iterator[str]:
    folded = text[:_MOST_CHARS].casefold()
    if not folded.isascii():
        apart = unicodedata.normalize("NFKD", folded)
        folded = unicodedata.normalize("NFC", "".join(mark for mark in apart if not unicodedata.combining(mark)))
    return iter(_WORD.findall(folded))


@cache
def _small(language: _Language) -> frozenset[str]:
    return frozenset(_words(language.small))


@cache
def _all_small() -> frozenset[str]:
    return frozenset[str]().union(*map(_small, _LATIN))


def _spoken(words: frozenset[str]) -> _Language | None:
    others = words - STOP_WORDS
    if others.isdisjoint(_all_small()):
        return None
    counts = [len(_small(language) & others) for language in _LATIN]
    most = max(counts)
    best = _LATIN[counts.index(most)]
    return best if most > len(STOP_WORDS & words - _small(best)) else None


@lru_cache(maxsize=1 << 12)
def _forms(name: str, word: str) -> tuple[str, ...]:
    language = _STEMMED[name]
    stem = _stemmer(name).stemWord(word)
    if len(stem) < _LEAST_LETTERS:
        return ()
    ends = dict.fromkeys(("", *(next(_words(end), end) for end in language.ends.split())))
    # the word too: what its stemmer takes for an ending may be part of it
    made = list(dict.fromkeys(begin + end for begin in (stem, word) for end in ends))
    made += [begin + form for begin in language.begins.split() for form in made]
    return tuple(dict.fromkeys(term for form in made for term in tokens(form)[:1]))


def _stemmer(name: str) -> _Stemmer:
    # a stemmer keeps the word it works on, so that two threads must not share one
    module = import_module(f"snowballstemmer.{name}_stemmer")
    return getattr(module, f"{name.capitalize()}Stemmer")()
