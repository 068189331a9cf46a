"""Recognize personal data by its format, and by its check digits where it has them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pydantic import ConfigDict

from ..errors import ConfigurationError, InvalidInput
from . import Redactor, secrets
from .patterns import Kind, Span, masked, read_table, united

if TYPE_CHECKING:
    from types import ModuleType

Place: TypeAlias = tuple[int, int]
Finder: TypeAlias = Callable[[str], Iterable[Place]]
_LATIN = "A-Za-z0-9\u00c0-\u024f"
_EMAILS = (
    re.compile(
        rf"(?<![{_LATIN}._%+\-])[{_LATIN}._%+\-]{{1,64}}@(?:[{_LATIN}\-]{{1,63}}\.){{1,8}}[A-Za-z]{{2,24}}"
        rf"(?![{_LATIN}]|:[\w/])"
    ),
    re.compile(r"(?<![\w.%+\-])[\w.%+\-]{1,64}@(?:[\w\-]{1,63}\.){1,8}[^\W\d_]{2,24}(?![\w:])"),
    re.compile(
        r"(?<![\w.%+\-])[\w.%+\-]{1,64} ?[\[(] ?at ?[\])] ?[\w\-]{1,63}"
        r"(?:(?:\.| ?[\[(] ?dot ?[\])] ?)[\w\-]{1,63}){1,8}",
        re.IGNORECASE,
    ),
)
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?:[ \-]?[A-Za-z0-9]){11,30}")
_IBAN_SIZES = range(15, 35)
_IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\d)")
_IPV6 = re.compile(
    r"(?<![\w:.])(?=[0-9A-Fa-f:.]{0,45}:[0-9A-Fa-f:.]{0,45}:)[0-9A-Fa-f:.]{2,45}(?<!\.)(?![\w:])"
)
_VERSION = re.compile(
    r"(?:\b(?:version|release|build|ver\.?|v\.?"
    r"|chapter|section|clause|paragraph|figure|table|kapitel|abschnitt)|§|==|>=|<=|~=)[ :=]{0,3}\Z",
    re.IGNORECASE,
)
_PHONE = re.compile(
    r"(?<![\w.+\-/@#$€£])\+?(?:\(\d{1,5}\)|\d)(?:[ ./\-]? ?(?:\(\d{1,5}\)|\d)){4,16}(?![\w@%€$£]"
    r"|[.\-]\d)"
)
_PHONE_GROUP = re.compile(r"[ ./\-]{1,2}\(?\d{1,20}\)?\Z")
# Dates, and numbers grouped like social security numbers of the United States.
_NO_PHONE = re.compile(
    r"\d{4}[.\-/]\d{1,2}[.\-/]\d{1,2}|\d{1,2}[.\-/]\d{1,2}[.\-/]\d{4}|\d{3}-\d{2}-\d{4}\Z"
)
_NORTH_AMERICAN = re.compile(r"(?:1[ .\-]?)?\(?\d{3}\)?[ .\-]\d{3}[ .\-]\d{4}")
_CALLED = re.compile(
    r"(?:phone|tel|telephone|mobile|cell|fax|whatsapp|call|calling|sms|dial|ring|reach|hotline"
    r"|telefon\w{0,8}|handy|mobil\w{0,8}"
    r"|anrufen|téléphone|portable|appel\w{0,8}|teléfono|móvil|celular|llama\w{0,8}|telefono"
    r"|cellulare|telefone|телефон\w{0,8}|тел"
    r"|(?:my|her|his|their|your) number)\b[^\n\d]{0,24}\Z|(?:电话|手机|電話|携帯|号码)[^\n\d]{0,12}\Z",  # noqa: E501
    re.IGNORECASE,
)
_SEPARATORS = re.compile(r"[ ./\-]+")
_MAX_GROUPS = 7
_SHORTER = 3  # trailing groups that may belong to another number
_BEFORE = 48  # characters before a number that may name it
_REGIONS = ("US", "GB", "DE", "FR", "ES", "IT", "IN", "BR", "JP", "CN", "AU")

# python-stdnum has no national insurance numbers of the United Kingdom; these are the letters that
# HM Revenue & Customs issues (NIM39110).
_NINO = re.compile(
    r"(?<!\w)(?!BG|GB|KN|NK|NT|TN"
    r"|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D](?!\w)"
)


class PersonalDataRefused(InvalidInput):
    """A text holds personal data that the setting `pii` refuses."""

    def __init__(self, kinds: Sequence[str]) -> None:
        super().__init__(
            f"The text holds personal data ({', '.join(dict.fromkeys(kinds))}), which the "
            "setting pii refuses. "
            "Leave it out, or set pii=mask to have it masked."
        )


class PersonalDataDropped(PersonalDataRefused):
    """The same in the mode "drop": only this text is left out, and the others are kept."""


@dataclass(frozen=True, slots=True)
class _CustomKind:
    """A kind of personal data that the user defines."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    kind: Kind
    pattern: re.Pattern[str]

    def __post_init__(self) -> None:
        if self.kind in KINDS or self.pattern.match(""):
            raise ValueError(f"{self.kind} must be new, and its pattern never match an empty text")


@dataclass(frozen=True, slots=True)
class _NationalId:
    """The format of a country's identity numbers; see national_ids.toml."""

    module: str
    pattern: re.Pattern[str]
    before: re.Pattern[str] | None = None


class PersonalData:
    """Find personal data in texts and mask it.

    Args:
        kinds: the kinds to look for, of `KINDS`; empty: all of them.
        regions: countries (ISO 3166 alpha-2) whose phone numbers are recognized without a country
            code; empty: eleven large ones.
        table: a TOML file with kinds of your own: `[[pii]]` with `kind` and `pattern`, a regular
            expression.

    Raises:
        ConfigurationError: an unknown kind or region, a table that cannot be read, or the extra
            [pii] is missing.
    """

    def __init__(
        self,
        kinds: Sequence[str] = (),
        *,
        regions: Sequence[str] = (),
        table: str | Path | None = None,
    ) -> None:
        own = read_table(table, "pii", _CustomKind, "pii") if table else ()
        allowed = {*KINDS, *(row.kind for row in own)}
        if unknown := sorted(set(kinds) - allowed):
            raise ConfigurationError(
                f"Unknown kind of pii {', '.join(unknown)}; known: {', '.join(sorted(allowed))}."
            )
        self._own = [row for row in own if not kinds or row.kind in kinds]
        finders: Mapping[str, Callable[[], Finder]] = {
            "email": lambda: _emails,
            "phone": lambda: _Phones(regions).places,
            "card": lambda: lambda text: (span[:2] for span in secrets.cards(text)),
            "iban": lambda: partial(_ibans, _library("stdnum.iban").is_valid),
            "ip": lambda: _addresses,
            "national_id": lambda: partial(_national_ids, _formats()),
        }
        self._finders = [(kind, finders[kind]()) for kind in KINDS if not kinds or kind in kinds]
        self._has_cards = not kinds or "card" in kinds

    def spans(self, text: str) -> list[Span]:
        """Return the spans of personal data in a text in order; overlapping ones become one."""
        places = [(*place, kind) for kind, finder in self._finders for place in finder(text)]
        own = (
            (*match.span(), row.kind) for row in self._own for match in row.pattern.finditer(text)
        )
        return united((*places, *own))

    def mask(self, text: str) -> str:
        """Replace personal data in a text by `[pii: <kind>]`."""
        return masked(text, self.spans(text), "pii")

    def after(self, redact: Redactor) -> Redactor:
        """Return a redactor that masks secrets with `redact`, then personal data."""
        return lambda text: self.mask(redact(text))

    def refusing(self, redact: Redactor, refusal: type[PersonalDataRefused]) -> Redactor:
        """Return a redactor that masks secrets and refuses personal data with this error."""

        def checked(text: str) -> str:
            clean = redact(text)  # a password with an @ in it is not an address
            kinds = [kind for _, _, kind in self.spans(clean)]
            kinds += ["card"] if self._has_cards and any(secrets.cards(text)) else []
            if kinds:
                raise refusal(kinds)
            return clean

        return checked


KINDS = ("email", "phone", "card", "iban", "ip", "national_id")
WITHOUT_LIBRARIES = ("email", "card", "ip")
"""The kinds that work without the extra [pii]."""


def _library(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        raise ConfigurationError(
            "pii= needs the extra: pip install 'kagent-memory[pii]'."
        ) from error


def _emails(text: str) -> Iterator[Place]:
    for rule in _EMAILS:
        yield from (match.span() for match in rule.finditer(text))
        # without spaces the next rule would also match the words around this address
        text = rule.sub(lambda match: "\0" * len(match.group()), text)


def _addresses(text: str) -> Iterator[Place]:
    for rule in (_IPV4, _IPV6):
        for match in rule.finditer(text):
            start, number = match.start(), match.group().rstrip(":")
            if _VERSION.search(text, max(0, start - 16), start) or not any(
                map(str.isdigit, number)
            ):
                continue
            try:
                address = ipaddress.ip_address(number)
            except ValueError:
                continue
            if not (address.is_loopback or address.is_unspecified):
                yield start, start + len(number)


def _ibans(is_valid: Callable[[str], bool], text: str) -> Iterator[Place]:
    """Yield the longest valid number at each position; words may follow it without a gap."""
    for match in _IBAN.finditer(text):
        places = [place for place in range(match.start(), match.end()) if text[place].isalnum()]
        for size in reversed(_IBAN_SIZES):
            end = places[size - 1] + 1 if size <= len(places) else 0
            if not end or text[end : end + 1].isalnum():
                continue
            number = "".join(text[place] for place in places[:size])
            # the ISO 7064 remainder is cheaper than the whole check and rules out 96 of 97
            remainder = int("".join(str(int(char, 36)) for char in number[4:] + number[:4])) % 97
            if remainder == 1 and is_valid(number):
                yield match.start(), end
                break


class _Phones:
    """Find phone numbers: with a country code, named as such ("tel."), or grouped the way a
    country groups its own.
    """

    def __init__(self, regions: Sequence[str]) -> None:
        self._library = _library("phonenumbers")
        self._regions = tuple(region.upper() for region in regions) or _REGIONS
        if unknown := sorted(set(self._regions) - set(self._library.SUPPORTED_REGIONS)):
            raise ConfigurationError(
                f"pii: {', '.join(unknown)} is not a two-letter country code such as US or DE."
            )

    def places(self, text: str) -> Iterator[Place]:
        for match in _PHONE.finditer(text):
            start, number = match.start(), match.group()
            if _NO_PHONE.match(number):
                continue
            is_named = bool(_CALLED.search(text, max(0, start - _BEFORE), start))
            for _ in range(_SHORTER):
                if self._is_phone(number, is_named):
                    yield start, start + len(number)
                    break
                number = _PHONE_GROUP.sub("", number)

    def _is_phone(self, number: str, is_named: bool) -> bool:
        if number.count("(") > 1 or len(_SEPARATORS.findall(number)) > _MAX_GROUPS:
            return False
        if number.startswith(("+", "00")):
            return self._parses("+" + number.lstrip("+0"), None, valid=False)
        if _NORTH_AMERICAN.fullmatch(number):
            return "US" in self._regions and self._parses(number, "US", valid=False)
        if not is_named and not (
            number.startswith(("0", "(")) and any(map(number.__contains__, " -/()"))
        ):
            return False
        return any(self._parses(number, region, valid=True) for region in self._regions)

    def _parses(self, number: str, region: str | None, *, valid: bool) -> bool:
        try:
            parsed = self._library.parse(number, region)
        except self._library.NumberParseException:
            return False
        check = self._library.is_valid_number if valid else self._library.is_possible_number
        return bool(check(parsed))


def _formats() -> list[tuple[_NationalId, Callable[[str], bool]]]:
    file = Path(__file__).with_name("national_ids.toml")
    numbers = read_table(file, "number", _NationalId, "pii")
    return [(number, _library(f"stdnum.{number.module}").is_valid) for number in numbers]


def _national_ids(
    formats: Sequence[tuple[_NationalId, Callable[[str], bool]]], text: str
) -> Iterator[Place]:
    yield from (match.span() for match in _NINO.finditer(text))
    for number, is_valid in formats:
        for match in number.pattern.finditer(text):
            start, before = match.start(), number.before
            is_named = before is None or before.search(text, max(0, start - _BEFORE), start)
            if is_named and is_valid(match.group()):
                yield match.span()
