"""Prose lives as prose: the prompts, one file each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Final, TypeVar

Key = TypeVar("Key")

FENCE: Final = "PAST_CONVERSATIONS"
MAX_PROMPT_CHARS = 48_000
_PLACE = re.compile(r"\{([a-z_]+)\}")


@cache
def prompt(name: str) -> str:
    """Return the prompt of this name, read once from its file beside this one."""
    return (files(__name__) / f"{name}.md").read_text(encoding="utf-8").strip()


def filled(template: str, **values: str) -> str:
    """Return the template with `{name}` replaced by each value given; other braces stay, and so do
    those within values.
    """
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), template)


def batches(texts: Iterable[tuple[Key, str]]) -> Iterator[dict[Key, str]]:
    """Yield the texts in their order, as many at a time as fit into one prompt; one that is longer
    comes alone.
    """
    batch: dict[Key, str] = {}
    size = 0
    for key, text in texts:
        if batch and size + len(text) > MAX_PROMPT_CHARS:
            yield batch
            batch, size = {}, 0
        batch[key] = text
        size += len(text)
    if batch:
        yield batch
