"""Read and fill the prompts, one Markdown file each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Final, TypeVar

Item = TypeVar("Item")

FENCE: Final = "PAST_CONVERSATIONS"
MAX_PROMPT_CHARS = 48_000
_FIELD = re.compile(r"\{([a-z_]+)\}")


@cache
def prompt(name: str) -> str:
    """Return the prompt of this name, read once from its file beside this one."""
    return (files(__name__) / f"{name}.md").read_text(encoding="utf-8").strip()


def filled(template: str, **values: str) -> str:
    """Replace each `{name}` of a template by its value; other braces, and those within values, stay
    as they are.
    """
    return _FIELD.sub(lambda field: values.get(field[1], field[0]), template)


def batches(
    items: Iterable[Item], cost: Callable[[Item], int], max_cost: int = MAX_PROMPT_CHARS
) -> Iterator[list[Item]]:
    """Yield the items in order, in batches that cost at most `max_cost` each.

    An item that costs more is a batch of its own.
    """
    batch: list[Item] = []
    size = 0
    for item in items:
        size += cost(item)
        if batch and size > max_cost:
            yield batch
            batch, size = [], cost(item)
        batch.append(item)
    if batch:
        yield batch
