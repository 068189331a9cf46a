"""Prose lives as prose: the prompts, one file each."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Final

FENCE: Final = "PAST_CONVERSATIONS"
_PLACE = re.compile(r"\{([a-z_]+)\}")


@cache
def prompt(name: str) -> str:
    """The prompt of this name, read once from its file beside this one."""
    return (files(__name__) / f"{name}.md").read_text(encoding="utf-8").strip()


def filled(template: str, **values: str) -> str:
    """The template with `{name}` replaced by each value given; other braces stay, and so do those within values."""
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), template)
