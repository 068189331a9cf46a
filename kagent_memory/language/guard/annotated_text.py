"""A text as the difference guard reads it: its words in order, and what each stands for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from .. import tables
from ..tokenizer import STOP_WORDS, tokens

Kind: TypeAlias = Literal["", "number", "date", "identifier", "name", "negation", "refusal", "function", "light"]
_ANY_LANGUAGE: frozenset[str] = frozenset()
_WORDS = re.compile(r"\S+")
_DATE_PARTS = re.compile(r"[-./]")
_CAPITAL_PRONOUNS = frozenset(("en", "de", "it"))
LONGEST = 20_000  # characters of a text that are read
_REMEMBERED_CHARS = 2000
_LONGEST_WORD = 256  # what is longer is no word and is compared whole
_EDGES = "\"'“”‘’«»„‹›()[]{}<>*_~,;:!?…¿¡.。、，；：！？「」『』（）《》،؟؛।|"
_BREAKS = frozenset(",;:.!?…。、，；：！？،؟؛।–—")
_SENTENCE_ENDS = frozenset(".!?:…。！？؟।")
_POSSESSIVE = re.compile(r"['’]s$|(?<=s)['’]$")
_SUPERSCRIPT = re.compile(r"(?<=[^\W_])[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+")
_FRACTION = re.compile(r"(\d{0,9})\s?([¼½¾⅐-⅞])")
_NOON = re.compile(r"(?<=[\d ])([ap])\.m\.?(?!\w)", re.IGNORECASE)
_THOUSANDS = re.compile(r"(?<![\d.,’'])\d{1,3}(?:([.,’' ])\d{3})(?:\1\d{3})*(?!\d)")
_DATE = re.compile(r"\d{4}-\d{1,2}(?:-\d{1,2})?|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{1,2}:\d{2}(?::\d{2})?")
_NUMBER = re.compile(
    r"(?P<before>[€$£¥₹₽₺₩₪฿₫₴₦₱₿]?)(?P<sign>(?<![\w)])[-−+])?(?P<digits>\d+(?:[.,]\d+)?)(?P<power>\^[-−+]?\d+)?"
    r"(?P<ordinal>st|nd|rd|th|º|ª)?(?![^\W\d_])|(?P<before2>[€$£¥₹₽₺₩₪฿₫₴₦₱₿]?)(?P<sign2>(?<![\w)])[-−+])?"
    r"(?P<digits2>\d+(?:[.,]\d+)?)(?P<power2>\^[-−+]?\d+)?"
)
_GLUED = re.compile(r"-?([^\W\d_]{1,12}(?:\^?[23](?!\d))?(?:/[a-z]{1,3})?|%|‰|[€$£¥₹₽₺₩₪฿₫₴₦₱₿]|°[CcFf]?)")
_QUANTITY = re.compile(
    r"[-−+]?[€$£¥]?\d[\d.,:’'^]*(?:-?[^\W\d_]{1,12}(?:\^?[23])?(?:/[a-z]{1,3})?|%|‰|€|\$|£|°[CcFf]?)?"
)
_IDENTIFIER = re.compile(
    r"[A-Za-z][-_]?\d|\d[-_]?[A-Za-z]{2,}\d|[a-z][A-Z]|_|@|://|\\|#\w|^[/~.]\w|\w/\w+/|\w\.[a-z]\w*$|^[A-Z]{2,}s?$"
    r"|^[0-9a-f]{7,}$|^-{1,2}[A-Za-z]|\w(?:\+\+|#)$|^\w\^|[A-Za-z]\^\d"
)
UNSPACED = (
    "\u0e01-\u0e5b\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3041-\u3096\u30a1-\u30fa\u30fc"
    "\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff"
)
_RUNS = re.compile(f"[{UNSPACED}]+|[^{UNSPACED}]+")
_IS_UNSPACED = re.compile(f"[{UNSPACED}]")
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa]")
_SCRIPTS = re.compile("[\u3041-\u3096]+|[\u30a1-\u30fa\u30fc]+|[\u3005\u3400-\u9fff\uf900-\ufaff]|.")
_LONGEST_NUMERAL = 12
_NUMERALS = re.compile(f"[零〇一二两兩三四五六七八九十百千万萬亿]{{1,{_LONGEST_NUMERAL}}}")
_CASELESS = re.compile("[\u0590-\u08ff\u0900-\u0dff]")
# Syriac, Thaana, N'Ko, the Indian scripts after Devanagari, Tibetan, Georgian, Ethiopic, Mongolian
_UNREAD = re.compile(
    "[\u0530-\u058f\u0700-\u074f\u0780-\u085f\u0980-\u0dff\u0f00-\u0fff\u10a0-\u10ff\u1200-\u139f\u1800-\u18af]"
)
_SMILEY = re.compile(r"[:;=][-'’]?[()\[\]{}<>|]")
_DETERMINERS = frozenset(
    ("the", "a", "an", "my", "his", "her", "their", "our", "your", "this", "that", "each", "every")
)
_CONNECTORS = frozenset(["and", "y", "e", "et", "und", "og", "och", "en", "i", "və"])
# Korean and Japanese say by what follows a word which part it plays.
_KOREAN_PARTICLES = (
    ("에게서", "from"), ("한테서", "from"), ("에서", "from"), ("부터", "from"), ("까지", "to"), ("에게", "to"),
    ("한테", "to"), ("으로", "to"), ("은", "subject"), ("는", "subject"), ("이", "subject"), ("가", "subject"),
    ("을", "object"), ("를", "object"), ("의", "'s"), ("와", "and"), ("과", "and"), ("로", "to"), ("에", "at"),
)  # fmt: skip
_JAPANESE_PARTICLES = (
    ("から", "from"), ("まで", "to"), ("より", "than"), ("は", "subject"), ("が", "subject"), ("を", "object"),
    ("に", "to"), ("へ", "to"), ("の", "'s"), ("と", "and"),
)  # fmt: skip


@dataclass(slots=True, eq=False)
class Word:
    """One word of a text; it changes only while the text is read.

    Attributes:
        raw: as it is written, without punctuation around it.
        low: in small letters, without a possessive's end.
        kind: what it is; "" for a word that tells, "function" and "light" for those that do not.
        value: what it stands for, in one spelling: the number, the English name of a date, the stem of a plain word.
        unit: of a number: what it counts.
        role: the preposition or particle that says which part it plays, or "".
        clause: which part between punctuation it stands in.
        begins: it begins a sentence.
        sides: of a word that has opposites: "axis:side".
        turns: what it makes of what is so, such as a wish or a doubt.
    """

    raw: str
    low: str
    kind: Kind
    value: str
    unit: str = ""
    role: str = ""
    clause: int = 0
    begins: bool = False
    sides: tuple[str, ...] = ()
    turns: tuple[str, ...] = ()

    @property
    def tells(self) -> bool:
        """Whether it says something by itself."""
        return self.kind not in ("function", "light", "negation", "refusal")


class AnnotatedText(NamedTuple):
    """The words of a text in their order, and the languages that it is in."""

    words: tuple[Word, ...]
    spoken: frozenset[str]


def read(text: str) -> AnnotatedText:
    """The text as its words, up to its 20,000th character."""
    return _remembered(text) if len(text) <= _REMEMBERED_CHARS else _read(text[:LONGEST])


def plain(text: str) -> str:
    """The text in one spelling: compatible characters united, superscripts, fractions and thousands written out."""
    if not text.isascii():
        text = _SUPERSCRIPT.sub(lambda found: "^" + unicodedata.normalize("NFKC", found.group()), text)
        text = _FRACTION.sub(_decimal, text)
        text = unicodedata.normalize("NFKC", text)
    text = _NOON.sub(r"\1m", text)
    return _THOUSANDS.sub(lambda found: found.group().replace(found[1], ""), text)


def stem(low: str) -> str:
    """A word as it is compared: English endings off."""
    return tokens(low)[0] if low.isascii() and low.isalpha() else low


def is_unspaced(text: str) -> bool:
    """Whether it begins with a character of a script without spaces, or of Hangul."""
    return bool(_IS_UNSPACED.match(text))


def _read(text: str) -> AnnotatedText:
    spoken = tables.spoken(text) if len(text) <= _REMEMBERED_CHARS else tables.spoken(text[:_REMEMBERED_CHARS])
    words = _numbered(list(_scan(plain(text), spoken)), spoken)
    return AnnotatedText(tuple(_roled(_known(words, spoken), spoken)), spoken)


_remembered = lru_cache(maxsize=2048)(_read)


def _decimal(found: re.Match[str]) -> str:
    return f"{float(found[1] or 0) + unicodedata.numeric(found[2]):g} "


def _scan(text: str, spoken: frozenset[str]) -> Iterator[Word]:
    clause, begins = 0, True
    script = "ja" if _KANA.search(text) else "zh"
    for found in _WORDS.finditer(text):
        chunk = found.group()
        core = chunk.strip(_EDGES)
        if not core:
            if _SMILEY.fullmatch(chunk):
                yield Word(chunk, chunk, "identifier", chunk, clause=clause)
            clause += 1
            begins = begins or chunk in ("*", "•") or not _SENTENCE_ENDS.isdisjoint(chunk)
            continue
        clause += chunk[0] in "(["
        for run in _RUNS.findall(core) if _IS_UNSPACED.search(core) else (core,):
            for word in _unspaced(run, script) if is_unspaced(run) else _spaced(run.strip(_EDGES), spoken):
                word.clause, word.begins = clause, begins
                yield word
                begins = False
        begins = chunk[-1] in _SENTENCE_ENDS or chunk.rstrip("\"'”’)")[-1:] in _SENTENCE_ENDS
        clause += not _BREAKS.isdisjoint(chunk[len(chunk.rstrip(_EDGES)) :])
        if chunk in "-•":
            begins = True


def _spaced(core: str, spoken: frozenset[str]) -> Iterator[Word]:
    if not core:
        return
    if len(core) > _LONGEST_WORD:
        yield Word(core, core, "identifier", core)
    elif (
        tables.symbol(core) is None
        and _IDENTIFIER.search(core)
        and not _QUANTITY.fullmatch(core)
        and not _DATE.fullmatch(core)
    ):
        # acronyms may be written small; in all other identifiers the case may tell
        acronym = core.isalpha() and (core.isupper() or core.rstrip("s").isupper())
        yield Word(core, core.casefold(), "identifier", core.casefold() if acronym else core)
    elif any(character.isdigit() for character in core):
        yield from _quantities(core)
    else:
        low = _POSSESSIVE.sub("", core.casefold().replace("’", "'"))
        parts = low.split("-") if "-" in low and tables.lexeme(low, spoken).number is None else []
        known = [tables.lexeme(part, _ANY_LANGUAGE) for part in parts]
        if len(parts) > 1 and all(one.number is not None or one.one for one in known):  # "twenty-one"
            yield from (Word(part, part, "", part) for part in parts)
        else:
            yield Word(core, low, "", low, role="'s" if _POSSESSIVE.search(core) else "")


def _quantities(core: str) -> Iterator[Word]:
    """Dates, times and numbers with their units, as they stand together in one word."""
    place = 0
    for found in _DATE.finditer(core):
        yield from _numbers(core[place : found.start()])
        value = "-".join(part.lstrip("0") or "0" for part in _DATE_PARTS.split(found.group()))
        value = value if ":" not in value else value.removeprefix("0")
        place = found.end()
        glued = _GLUED.fullmatch(core[place:])
        unit = _unit(glued[1]) if glued else ""
        place = len(core) if glued else place
        yield Word(found.group(), found.group(), "date", value, unit=unit)
    yield from _numbers(core[place:])


def _numbers(part: str) -> Iterator[Word]:
    place = 0
    for found in _NUMBER.finditer(part):
        before = part[place : found.start()]
        if before.strip(_EDGES + "-–—/x×+&="):
            yield Word(before, before.casefold(), "", before.casefold())
        values = {name.rstrip("2"): value for name, value in found.groupdict().items() if value}
        glued = _GLUED.match(part, found.end()) if "ordinal" not in values else None
        place = glued.end() if glued else found.end()
        sign = values.get("sign", "").replace("−", "-").replace("+", "")
        whole, _, fraction = values["digits"].replace(",", ".").partition(".")
        plainly = f"{whole}.{fraction}" if fraction.strip("0") else (whole if fraction else whole.lstrip("0")) or "0"
        digits = sign + plainly + values.get("power", "") + values.get("ordinal", "")
        digits = digits.translate({ord("º"): "th", ord("ª"): "th"})
        unit = _unit(glued[1]) if glued else _unit(values["before"]) if "before" in values else ""
        digits = _measure(digits) if unit else digits
        yield Word(found.group(), digits, "number", digits, unit=unit)
    rest = part[place:].strip(_EDGES + "-–—/")
    if rest:
        yield Word(rest, rest.casefold(), "", rest.casefold())


def _measure(number: str) -> str:
    """A number in front of a unit: 1.50 euros are 1.5 euros, while version 1.10 is not version 1.1."""
    return number.rstrip("0") if number.partition(".")[2].isdecimal() else number


def _unit(text: str) -> str:
    """The name of what is written right behind a number; a word that no unit is called by counts as one too."""
    if text in ("C", "F", "°C", "°F", "°c", "°f"):
        return "celsius" if text[-1] in "Cc" else "fahrenheit"
    return tables.symbol(text) or tables.lexeme(text.casefold(), _ANY_LANGUAGE).unit or stem(text.casefold())


def _unspaced(run: str, script: str) -> Iterator[Word]:
    if "\uac00" <= run[0] <= "\ud7a3":
        yield from _korean(run)
        return
    found = tables.pieces("th" if "\u0e00" <= run[0] <= "\u0e7f" else script).find(run)
    marked = {piece.start: piece for piece in found if piece.kind in ("negations", "dates", "units")}
    sides: dict[int, list[str]] = {}
    for piece in found:
        if piece.kind == "opposites":
            sides.setdefault(piece.start, []).append(piece.value)
    place = 0
    while place < len(run):
        piece = marked.get(place)
        numerals = _NUMERALS.match(run, place) if piece is None else None
        if piece is not None and piece.kind == "units":
            text = run[place : piece.end]
            yield Word(text, text, "", text)
        elif piece is not None:
            text = run[place : piece.end]
            yield Word(text, text, "negation" if piece.kind == "negations" else "date", piece.value)
        elif numerals and (value := _numeral(numerals.group())) is not None:
            text = numerals.group()
            yield Word(text, text, "number", value)
        else:
            # kanji and other characters stand for themselves; katakana makes words, hiragana what holds them together
            same = _SCRIPTS.match(run, place) if script == "ja" else None
            text = same.group() if same else run[place]
            text = text[: next((end for end in range(1, len(text)) if place + end in marked), len(text))]
            yield _letter(text, run, place, script, tuple(sides.get(place, ())))
        place += len(text)


def _letter(text: str, run: str, place: int, script: str, sides: tuple[str, ...]) -> Word:
    function = tables.unspaced_words(script, "function_words")
    light = tables.unspaced_words(script, "light_words")
    if script == "ja" and "\u3041" <= text[0] <= "\u3096":
        return Word(text, text, "function", text, sides=sides)
    kind: Kind = "function" if text in function else "light" if text in light else ""
    if script != "ja":
        return Word(text, text, kind, text, sides=sides)
    after = run[place + len(text) : place + len(text) + 2]
    role = next((role for particle, role in _JAPANESE_PARTICLES if after.startswith(particle)), "")
    return Word(text, text, kind, text, role=role, sides=sides)


def _numeral(text: str) -> str | None:
    """A number in Chinese numerals; None for a lone "one", which is an article as often, and in idioms."""
    if len(text) > _LONGEST_NUMERAL:
        return None
    if text in ("一", "万", "萬", "千", "百", "亿") or (text.endswith("十") and len(text) > 2 and "百" not in text):
        return None
    digits = {sign: value for value, sign in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "兩": 2}
    powers = {"十": 10, "百": 100, "千": 1000, "万": 10_000, "萬": 10_000, "亿": 100_000_000}
    total = section = current = 0
    for sign in text:
        if sign in digits:
            current = current * 10 + digits[sign]
        elif powers[sign] < 10_000:
            section += (current or 1) * powers[sign]
            current = 0
        else:
            total += (section + current or 1) * powers[sign]
            section = current = 0
    return str(total + section + current)


def _korean(chunk: str) -> Iterator[Word]:
    found = tables.pieces("ko").find(chunk)
    sides = tuple(piece.value for piece in found if piece.kind == "opposites")
    for piece in found:
        if piece.kind == "dates":
            yield Word(chunk[piece.start : piece.end], chunk[piece.start : piece.end], "date", piece.value)
    if chunk == "안" or any(piece.kind == "negations" for piece in found):
        yield Word(chunk, chunk, "negation", "denies")
    if any(piece.kind == "dates" for piece in found):
        return
    part, role = chunk, ""
    for particle, meaning in _KOREAN_PARTICLES:
        if chunk.endswith(particle) and len(chunk) > len(particle):
            part, role = chunk[: -len(particle)], meaning
            break
    number = tables.korean_numbers().get(part)
    kind: Kind = "number" if number else ""
    yield Word(chunk, part, kind, number or part, role=role, sides=sides)


def _numbered(words: list[Word], spoken: frozenset[str]) -> list[Word]:
    """Number words become numbers, those that stand together one, and the unit behind each is joined to it."""
    found: list[Word] = []
    place = 0
    while place < len(words):
        word = words[place]
        size = 1
        if word.kind == "number" or (word.kind == "" and tables.lexeme(word.low, spoken).number is not None):
            word, size = _composed(words, place, spoken)
        if word.kind == "number" and not word.unit and place + size < len(words):
            word.unit = _unit_word(words[place + size], spoken)
            size += bool(word.unit)
        if word.kind in ("number", "date") and not word.unit and found:
            before = found[-1]
            if before.kind in ("", "identifier") and before.raw.isupper() and tables.is_currency(before.raw):
                word.unit = tables.symbol(found.pop().raw) or ""
        if word.kind == "number" and word.unit:
            word.low = word.value = _measure(word.value)
        found.append(word)
        place += size
    return found


def _unit_word(word: Word, spoken: frozenset[str]) -> str:
    if word.low in ("am", "pm"):
        return word.low
    known = tables.lexeme(word.low, spoken)
    if word.kind not in ("", "identifier") or known.function:
        return ""
    return known.unit or tables.symbol(word.raw) or tables.unspaced_unit(word.raw) or ""


def _composed(words: Sequence[Word], place: int, spoken: frozenset[str]) -> tuple[Word, int]:
    """The number that begins here, with the words that continue it ("two hundred and five", "5 million")."""
    first = words[place]
    value = first.value if first.kind == "number" else tables.lexeme(first.low, spoken).number or "0"
    first.kind, first.value, first.low = "number", value, value
    if not value.replace(".", "", 1).isdecimal() or first.unit:
        return first, 1
    total, current, room, size = 0.0, float(value), _room(float(value), first), 1
    while place + size < len(words):
        step = 1 + (words[place + size].low in _CONNECTORS and place + size + 1 < len(words))
        word = words[place + size + step - 1]
        known = tables.lexeme(word.low, spoken)
        more = None if word.kind else known.number or ("1" if known.one and room > 1 else None)
        if more is None or not more.isdecimal() or word.clause != first.clause:
            break
        added = float(more)
        turned = word.low[:1] == "و" and 0 < current % 10 == current and added % 10 == 0 and added < 100
        if added in (100, 1000, 1e6, 1e9, 1e12) and step == 1:
            total, current = (total, current * added) if added == 100 else (total + current * added, 0.0)
            room = added
        elif turned or 0 < added < room:
            current, room = current + added, _room(added, word)
        else:
            break
        size += step
    if size > 1:
        first.value = first.low = f"{total + current:.15g}"
    return first, size


def _room(value: float, word: Word) -> float:
    """What may follow a number word as a part of the same number: less than this."""
    if word.kind == "number" and word.raw[:1].isdigit():
        return 0
    return 100 if value == 100 else 10 if value >= 10 and value % 10 == 0 and value < 100 else 0


def _known(words: Sequence[Word], spoken: frozenset[str]) -> Iterator[Word]:
    """The words with their kinds."""
    lows = [word.low for word in words]
    for place, word in enumerate(words):
        if word.kind or is_unspaced(word.low):
            yield word
            continue
        known = tables.lexeme(word.low, spoken)
        word.kind, word.value = _kind(words, lows, place, known, spoken)
        if (known.sides or known.turns or known.phrase) and word.kind != "date":
            sides, turns = list(known.sides), list(known.turns)
            if known.phrase:
                sides += (entry.value for entry in tables.opposites().phrases(lows, place, spoken))
                turns += (entry.value for entry in tables.turns().phrases(lows, place, spoken))
            particle = any(side.endswith("!") for side in sides) and _is_particle(words, place, spoken)
            word.sides = tuple(dict.fromkeys(side.rstrip("!") for side in sides if particle or side[-1:] != "!"))
            word.turns = tuple(turns)
        yield word


def _kind(
    words: Sequence[Word], lows: Sequence[str], place: int, known: tables.Lexeme, spoken: frozenset[str]
) -> tuple[Kind, str]:
    word = words[place]
    if known.denies or (known.phrase and any(tables.field("negations").phrases(lows, place, spoken))):
        return "negation", "denies"
    if known.refuses:
        return "refusal", "denies"
    if (date := _date(words, lows, place, known, spoken)) is not None:
        return "date", date
    if _is_name(words, place, known, spoken):
        return "name", word.low
    if known.function or word.low in STOP_WORDS:
        return "function", word.low
    return ("light", word.low) if known.light else ("", stem(word.low))


def _date(
    words: Sequence[Word], lows: Sequence[str], place: int, known: tables.Lexeme, spoken: frozenset[str]
) -> str | None:
    if known.date is not None and (not known.capital or words[place].raw[:1].isupper()):
        return known.date
    near = known.near
    if known.phrase:
        for entry in tables.dates().phrases(lows, place, spoken):
            return entry.value
        near = next((entry.value for entry in tables.nearness().phrases(lows, place, spoken)), near)
    if near is None:
        return None
    for beside in (place + 1, place - 1, place - 2):
        if 0 <= beside < len(lows) and (period := tables.lexeme(lows[beside], spoken).period) is not None:
            return f"{near} {period}"
    return None


def _is_particle(words: Sequence[Word], place: int, spoken: frozenset[str]) -> bool:
    """Whether a word such as "on" stands by itself and is no preposition."""
    if place + 1 == len(words) or words[place + 1].clause != words[place].clause:
        return True
    following = words[place + 1]
    function = tables.lexeme(following.low, spoken).function or following.low in STOP_WORDS
    return not following.kind and function and following.low not in _DETERMINERS


def _is_name(words: Sequence[Word], place: int, known: tables.Lexeme, spoken: frozenset[str]) -> bool:
    """Capitalised words; at a sentence's beginning only when what follows says so."""
    word = words[place]
    if not word.raw[:1].isupper() or word.low.split("'")[0] in STOP_WORDS:
        return False
    if known.function and not word.raw.isupper():
        # Within a sentence only these write function words with a capital: I, Sie, Lei.
        return not word.begins and not tables.is_function_word(word.low, _CAPITAL_PRONOUNS)
    if not word.begins:
        return True
    if known.starts:
        return False
    following = words[place + 1] if place + 1 < len(words) else None
    if following is None or following.clause != word.clause:
        return word.role == "'s"
    capital = following.raw[:1].isupper() and following.low.split("'")[0] not in STOP_WORDS
    return word.role == "'s" or capital or tables.lexeme(following.low, spoken).follows


def _roled(words: Iterator[Word], spoken: frozenset[str]) -> Iterator[Word]:
    """The words with the preposition in front of them as their role; a name's further words have that of the first."""
    role, waits, former = "", 0, ""
    for word in words:
        waits -= 1
        own = "" if word.kind == "number" else tables.lexeme(word.low, spoken).role
        if own:
            role, waits = own, 4
        if waits < 0:
            role = ""
        if word.role or not word.tells:
            yield word
            former = word.role or former
            continue
        word.role = role or (former if word.kind == "name" and former not in ("", "'s") else "")
        former = role
        yield word
        if word.kind != "name":
            waits = min(waits, 0 if word.kind in ("date", "identifier") else 1)


def is_unread(word: Word) -> bool:
    """Whether it is of a script of which no word is known here, so that every word may deny."""
    return bool(_UNREAD.match(word.low))


def has_no_case(word: Word) -> bool:
    """Whether its script knows no capitals, so that every word may be a name."""
    return bool(_CASELESS.match(word.low))
