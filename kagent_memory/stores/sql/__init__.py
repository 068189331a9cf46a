"""The SQL of both dialects: named queries and numbered migrations, read from the package's own files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import LiteralString, NamedTuple, cast

_HEADER = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
_NUMBERED = re.compile(r"^(\d{4})_(\w+)\.sql$")


class Migration(NamedTuple):
    """One step of the schema; released steps never change."""

    number: int
    name: str
    script: LiteralString


@cache
def queries(dialect: str) -> Mapping[str, LiteralString]:
    """Name → statement of every `*.sql` file of the dialect but the migrations.

    What several statements share is a fragment of their file: it stands in them where `{its_name}` is written.
    """
    statements: dict[str, LiteralString] = {}
    for file in sorted(files("kagent_memory.stores.sql").joinpath(dialect).iterdir(), key=lambda entry: entry.name):
        if not file.name.endswith(".sql") or _NUMBERED.match(file.name):
            continue
        _, *parts = _HEADER.split(file.read_text(encoding="utf-8"))
        fragments: dict[str, str] = {}
        for kind, name, part in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            text = part.strip()
            if kind == "fragment":
                fragments[f"{{{name}}}"] = text
                continue
            for place, fragment in fragments.items():
                text = text.replace(place, fragment)
            statements[name] = cast("LiteralString", text)
    return statements


@cache
def migrations(dialect: str) -> Sequence[Migration]:
    """The dialect's migrations in their order."""
    entries = sorted(files("kagent_memory.stores.sql").joinpath(dialect).iterdir(), key=lambda entry: entry.name)
    numbered = ((_NUMBERED.match(entry.name), entry) for entry in entries)
    return [
        Migration(int(match[1]), match[2], cast("LiteralString", entry.read_text(encoding="utf-8")))
        for match, entry in numbered
        if match
    ]
