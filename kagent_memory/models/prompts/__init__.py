"""Prose lives as prose: the prompts, one file each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Final, TypeVar

Item = TypeVar("Item")

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


def batches(
    items: Iterable[Item], cost: Callable[[Item], int], most: int = MAX_PROMPT_CHARS
) -> Iterator[list[Item]]:
    """Yield the items in their order, as many at a time as cost at most `most` together; one that
    costs more comes alone.
    """
    batch: list[Item] = []
    size = 0
    for item in items:
        size += cost(item)
        if batch and size > most:
            yield batch
            batch, size = [], cost(item)
        batch.append(item)
    if batch:
        yield batch
