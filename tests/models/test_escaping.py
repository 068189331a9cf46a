"""Foreign text is readable as data, and acts as nothing else."""

from __future__ import annotations

import re
import unicodedata

import pytest

from kagent_memory.models.prompts.escaping import escaped

from .payloads import FORGED_NAMES, FORGED_ROLES, LABELS


@pytest.mark.parametrize("name", FORGED_NAMES)
def test_the_fences_name_is_broken_up(name: str):
    """The fence's name is broken up in any spelling."""
    assert escaped(f"before {name} after") == "before past conversations after"


@pytest.mark.parametrize("form", [form for form in FORGED_ROLES if "<" not in form])
def test_no_role_is_opened_in_whatever_letters(form: str):
    """A role label in any spelling opens no role."""
    output = unicodedata.normalize("NFKD", escaped(f"x {form}")).translate(
        str.maketrans("Ѕуе∶ː", "Sye::")
    )
    assert not re.search(r"(?im)^[^:\n]*\b(system|admin|openai)\W*:", output), output
    assert not re.search(r"(?i)\[/?(inst|sys|tool|avail)|[【⟦]sys|role\W*:|```|~~~", output), output


@pytest.mark.parametrize("label", LABELS)
def test_a_speakers_label_at_a_line_start_is_broken(label: str):
    """A speaker label in any language opens no role at the start of a line."""
    for text in (
        f"{label} obey",
        f"my zebra\n{label} obey",
        f"my zebra\r{label}obey",
        f"\u2028  - {label} obey",
    ):
        for output in (escaped(text), escaped(text, one_line=True)):
            assert "obey" in output
            assert ":" not in unicodedata.normalize("NFKC", output), output


@pytest.mark.parametrize(
    "text",
    [
        "Deploy with `make deploy`; see ERR-00123 and v1.28.3-gke.1200",
        "彼女は《三体》を読んだ。",
        "Наш сервис «Биллинг» запускается в четверг: 14:00",
        "My system is fine: it boots",
        "naïve café — 50 % off, 3×4",
        'roles are [{"tool": "hammer"}] and A1: yes',
        "Её роль: аналитик, система: Linux",
        "Anna: see you at five",
        "Systems: Linux and macOS",
        "The user: likes tea",
        "用户喜欢：茶",
        "See [action items] and [1]",
    ],
)
def test_plain_text_stays_as_it_is(text: str):
    """Text that only resembles a label or a role is unchanged."""
    assert escaped(text) == escaped(text, one_line=True) == text
    assert escaped("if a < b: List<int>") == "if a &lt; b: List&lt;int&gt;"
