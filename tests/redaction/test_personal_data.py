"""Personal data is known by its form and check digits; look-alikes stay."""

from __future__ import annotations

import sys

import pytest

from kagent_memory import ConfigurationError
from kagent_memory.redaction import redact
from kagent_memory.redaction.personal_data import KINDS, PersonalData, PersonalDataRefused

HITS = {
    "email": [
        "ada.lovelace+x@example.co.uk",
        "josé@exämple.com",
        "иван@почта.рф",
        "ada (at) example (dot) com",
        "A_B-c%d@sub.domain-x.museum",
    ],
    "phone": [
        "+1 415-555-2671",
        "(555) 123-4567",
        "555-123-4567",
        "555.123.4567",
        "+14155552671",
        "+49 30 901820",
        "0049 30 901820",
        "0171 1234567",
        "020 7946 0958",
        "06 12 34 56 78",
        "+81 3-1234-5678",
    ],
    "card": ["4111 1111 1111 1111", "5500-0000-0000-0004", "340000000000009"],
    "iban": [
        "DE89 3704 0044 0532 0130 00",
        "gb82west12345698765432",
        "FR14-2004-1010-0505-0001-3M02-606",
    ],
    "ip": ["203.0.113.7", "10.0.0.1", "2001:db8::1", "fe80::1ff:fe23:4567:890a"],
    "national_id": [
        "536-90-4399",
        "AB 12 34 56 C",
        "12345678Z",
        "X1234567L",
        "1 85 05 78 006 084 91",
        "RSSMRA85T10A562S",
        "811228-9874",
        "131052-308T",
        "390.533.447-05",
        "756.9217.0769.85",
        "85.07.30-033.28",
        "11010519491231002X",
        "2341 2341 2346",
        "ACUPA7085R",
        "BOXW310820HNERXN09",
    ],
}
NAMED = {
    "phone": [
        "my number is 4155552671",
        "phone: 4155552671",
        "Tel. 030901820",
        "手机: 13800138000",
    ],
    "national_id": [
        "SSN 536904399",
        "Steuer-ID 36 574 261 809",
        "PESEL 44051401359",
        "BSN: 111222333",
        "my SIN is 123-456-782",
    ],
}
MISSES = [
    "@handle, pkg@1.2.3, git@github.com:a/b.git, 5 @ 3, a@b",
    "order 4155552671 arrived, ticket 20240115103000",
    "on 2024-01-15 10:00, 15.01.2024, 2019-2020-2021",
    "1,234,567 people, 3.14159, 12345678, $1,000,000, 100-200",
    "ISBN 978-3-16-148410-0",
    "version 10.20.30.40, v1.2.3.4, numpy==1.26.4.1, 999.1.1.1, 1.2.3.4.5",
    "127.0.0.1, 0.0.0.0, ::1, ::",
    "12:30:45, std::dead, a::b, 10:20",
    "4111 1111 1111 1112",
    "DE89 3704 0044 0532 0130 01, AB12 cdef ghij klmn opqr",
    "000-12-3456, 666-12-3456, 900-12-3456",
    "12345678A, X1234567A, AB123456E, BG 12 34 56 A",
    "390.533.447-06, 11010519491231002Y, 811228-9875",
    "36574261809, 44051401359, 111222333",
    "The score was 21-19, 21-17, 15-21. Flight LH 4711, room 12-B, 5 or 6 people",
]


@pytest.fixture(scope="module")
def data() -> PersonalData:
    return PersonalData()


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in HITS.items() for text in texts]
)
def test_personal_data_is_masked_wherever_it_stands(data: PersonalData, kind: str, text: str):
    """Each kind is masked by its name, and the words around it stay."""
    mask = f"[pii: {kind}]"
    assert data.mask(text) == mask
    assert data.mask(f"It is {text}, as you know.") == f"It is {mask}, as you know."
    assert data.mask(f"({text})\nand {text}; done") == f"({mask})\nand {mask}; done"
    assert data.mask(data.mask(text)) == mask


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in NAMED.items() for text in texts]
)
def test_a_number_is_personal_beside_its_name(data: PersonalData, kind: str, text: str):
    """A number that could be anything is personal where a word calls it so."""
    assert [name for _, _, name in data.spans(text)] == [kind]


@pytest.mark.parametrize("text", MISSES)
def test_what_only_looks_like_it_stays(data: PersonalData, text: str):
    """Versions, dates, amounts and other look-alikes are no personal data."""
    assert data.mask(text) == text


def test_words_after_a_number_stay(data: PersonalData):
    """A mask ends where the number ends."""
    assert data.mask("DE89370400440532013000 is mine") == "[pii: iban] is mine"
    assert data.mask("+1 555 123 4567 2024") == "[pii: phone] 2024"
    assert data.mask("请写信到anna@example.com谢谢") == "请写信到[pii: email]谢谢"


@pytest.mark.parametrize("kind", KINDS)
def test_one_kind_alone_finds_no_other(kind: str):
    """One kind alone masks no other."""
    alone = PersonalData((kind,))
    for other, texts in HITS.items():
        for text in texts:
            assert (alone.mask(text) == f"[pii: {kind}]") == (kind == other), text


def test_regions_bound_what_is_a_number_without_a_country_code():
    """Numbers without a country code are known in the given countries only."""
    german = PersonalData(("phone",), regions=("de",))
    assert german.mask("030 901820 and 555-123-4567 and +1 415-555-2671") == (
        "[pii: phone] and 555-123-4567 and [pii: phone]"
    )


def test_own_kinds_come_from_a_table(tmp_path):
    """A TOML table adds kinds of its own."""
    table = tmp_path / "own.toml"
    table.write_text("[[pii]]\nkind = \"employee number\"\npattern = '\\bE\\d{6}\\b'\n")
    assert (
        PersonalData(table=table).mask("E123456 of a@b.de")
        == "[pii: employee number] of [pii: email]"
    )
    assert PersonalData(("employee number",), table=table).mask("E123456 of a@b.de") == (
        "[pii: employee number] of a@b.de"
    )


@pytest.mark.parametrize(
    "text",
    [
        "[[pii]]\nkind = 'x'\npattern = '('\n",
        "[[pii]]\nkind = 'x'\npattern = 'a*'\n",
        "[[pii]]\nkind = 'email'\npattern = 'a'\n",
        "[[pi]]\nkind = 'x'\npattern = 'a'\n",
        "[[pii]]\nkind = 'x'\npattern = 'a'\nregion = 'US'\n",
        "pii = []",
        "",
    ],
)
def test_a_table_that_is_none_is_refused(tmp_path, text: str):
    """A table that cannot be read as one is refused with the reason."""
    table = tmp_path / "own.toml"
    table.write_text(text)
    with pytest.raises(ConfigurationError, match="pii: "):
        PersonalData(table=table)
    with pytest.raises(ConfigurationError, match="pii: "):
        PersonalData(table=tmp_path / "none.toml")


def test_what_is_unknown_is_refused():
    """An unknown kind or country is refused by name."""
    with pytest.raises(ConfigurationError, match="Unknown kind of pii e-mail; known: card, email"):
        PersonalData(("e-mail",))
    with pytest.raises(ConfigurationError, match="pii: XX"):
        PersonalData(regions=("US", "XX"))


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    """Without the libraries of the extra the error names it."""
    monkeypatch.setitem(sys.modules, "phonenumbers", None)
    with pytest.raises(ConfigurationError, match=r"kagent-memory\[pii\]"):
        PersonalData()


def test_a_refusal_names_the_kinds_and_never_the_text():
    """The error of the policies "refuse" and "drop" repeats nothing of the text."""
    refuse = PersonalData().refusing(redact, PersonalDataRefused)
    assert (
        refuse("nothing personal, password=hunter2")
        == "nothing personal, password=[secret: password]"
    )
    for text, kinds in (
        ("ada@example.com or 203.0.113.7", "email, ip"),
        ("4111 1111 1111 1111", "card"),
    ):
        with pytest.raises(PersonalDataRefused) as refused:
            refuse(text)
        assert f"({kinds})" in str(refused.value)
        assert text not in str(refused.value)
    assert refuse("postgresql://ada:p@ss@db/x") == "postgresql://ada:[secret: url password]@db/x"
