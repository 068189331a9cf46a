"""Prose lives as prose: the prompts, one file each."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_PLACE = re.compile(r"\{([a-z_]+)\}")
_TAG = re.compile(r"<(?=\s*+(?:/\s*+)?(?:transcript|earlier|memories|facts|groups)\b)", re.IGNORECASE)


@cache
def prompt(name: str) -> str:
    """The prompt of this name, read once from its file beside this one."""
    return (files(__name__) / f"{name}.md").read_text(encoding="utf-8").strip()


def filled(template: str, **values: str) -> str:
    """The template with `{name}` replaced by each value given; other braces stay, and so do those within values."""
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), template)


def as_data(text: str) -> str:
    """The text without anything that would open or close one of the prompts' data blocks."""
    return _TAG.sub("&lt;", text)
