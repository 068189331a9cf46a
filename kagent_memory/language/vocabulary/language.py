"""What is known of one language, as plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """The words of one language that tell things apart; small letters, blanks between words.

    Fields with several groups separate them by "|", and a group that has a name begins with it ("week: week weeks").
    A word ending in "*" stands for all that begin so, "_" for a blank within one.

    Attributes:
        code: ISO 639-1.
        letters: letters that few other languages use.
        function_words: articles, pronouns, prepositions, auxiliaries, conjunctions; they also tell the language.
        light_words: what adds nothing that tells: degrees, fillers, verbs that mean little by themselves.
        copulas: verbs around which both sides may change places ("tea is her favourite": "her favourite is tea").
        conjunctions: words around which both sides may change places too.
        articles: articles and relative words, which join nothing.
        prepositions: with which a phrase may move within its sentence; `sources`, `goals` and `agents` are those that
            say from where or whom, to where or whom, and by whom.
        numbers: from zero on; `more_numbers` are "word:value".
        units_joined: what stands between unit and tens where they are written as one word in that order
            ("ein|und|zwanzig"); `tens_joined`: the same for tens before units; None: they are not written so.
        months, weekdays: in their order; the first form of a group is its name.
        dates: other words for times; the name is English for all languages.
        capital_dates: dates that are other words when written small.
        nearness: "this", "next" and "last" with the words for them, which count beside one of `periods` or a weekday.
        units: what is counted in; the name is English for all languages.
        negations: words that deny; `negation_forms`: parts of words that do, each dot for a letter that must stand in
            front; `refusals`: verbs and others that deny by what they mean.
        concord: several denials in one clause are one.
        opposites: groups by an axis's name, their sides separated by "/": words of different sides exclude each other.
        turns: groups by a name, of words that make of what is so what was, may be, is wished or tried: a text that
            holds one of a group says something else than one that holds none.
        synonyms: groups of words for the same.
        doubtful: words above that mean something else in another language: they count only where this one is spoken.
        starts: capitalised at the beginning of a sentence, and no names.
        after_names: after a capitalised first word these say that it is the name of whoever does it.
    """

    code: str
    letters: str = ""
    function_words: str = ""
    light_words: str = ""
    copulas: str = ""
    conjunctions: str = ""
    articles: str = ""
    prepositions: str = ""
    sources: str = ""
    goals: str = ""
    agents: str = ""
    numbers: str = ""
    more_numbers: str = ""
    units_joined: str | None = None
    tens_joined: str | None = None
    months: str = ""
    weekdays: str = ""
    dates: str = ""
    capital_dates: str = ""
    nearness: str = ""
    periods: str = ""
    units: str = ""
    negations: str = ""
    negation_forms: str = ""
    refusals: str = ""
    concord: bool = False
    opposites: str = ""
    turns: str = ""
    synonyms: str = ""
    doubtful: str = ""
    starts: str = ""
    after_names: str = ""
