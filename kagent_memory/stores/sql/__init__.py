"""The SQL of both dialects: named queries, the schema and numbered migrations, read from the package's own files.

The names of what we make (tables, views, indexes, roles) may have a prefix. The files do without: it is put before
those names once, when they are read. Inside a literal, where a name is text like any other, they say `{prefix}`
themselves, and `{tables}` for the regular expression of all our tables' names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import LiteralString, NamedTuple, cast

from ...errors import ConfigurationError
from ...settings import checked_prefix

_HEADER = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
_SCHEMA = "schema.sql"
_NUMBERED = re.compile(r"^(\d{4})_(\w+)\.sql$")
_MADE = re.compile(
    r"^ *CREATE (?:OR REPLACE )?(?:UNIQUE )?(TABLE|VIEW|INDEX|ROLE) (?:IF NOT EXISTS )?(\w+)", re.MULTILINE
)
# Comments, literals, quoted names and values are passed over; what stands after a point is a column.
_WORD = re.compile(r"--[^\n]*|'[^']*'|\"[^\"]*\"|%\(\w+\)[sb]|(?<![\w.{])[A-Za-z_]\w*")


class Migration(NamedTuple):
    """One step of the schema; released steps never change."""

    number: int
    name: str
    script: LiteralString


INITIAL = Migration(1, "initial", "")
"""The schema of the first release. `schema.sql` has made it in every database; later steps are numbered from 2 on."""


@cache
def queries(dialect: str, prefix: str = "") -> Mapping[str, LiteralString]:
    """Name → statement of every `*.sql` file of the dialect but the schema and the migrations.

    What several statements share is a fragment of their file: it stands in them where `{its_name}` is written.

    Raises:
        ConfigurationError: nothing that may stand before the names of tables.
    """
    statements: dict[str, LiteralString] = {}
    for file, text in _files(dialect).items():
        if file == _SCHEMA or _NUMBERED.match(file):
            continue
        _, *parts = _HEADER.split(_prefixed(dialect, text, prefix))
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
def migrations(dialect: str, prefix: str = "") -> Sequence[Migration]:
    """Return the dialect's migrations in their order, `INITIAL` first.

    Raises:
        ConfigurationError: nothing that may stand before the names of tables.
    """
    later = [
        Migration(int(match[1]), match[2], cast("LiteralString", _prefixed(dialect, text, prefix)))
        for file, text in _files(dialect).items()
        if (match := _NUMBERED.match(file))
    ]
    return [INITIAL, *later]


@cache
def schema(dialect: str, prefix: str = "") -> LiteralString:
    """Return the script that makes a new database as all migrations leave an old one.

    Raises:
        ConfigurationError: nothing that may stand before the names of tables.
    """
    return cast("LiteralString", _prefixed(dialect, _files(dialect)[_SCHEMA], prefix))


def missing(steps: Sequence[Migration], applied: Mapping[int, str]) -> Sequence[Migration]:
    """Return the steps that a database lacks.

    Args:
        steps: all that are known.
        applied: the numbers and names that its table of migrations holds.

    Raises:
        ConfigurationError: a build from before the first release made the database.
    """
    if applied.get(INITIAL.number) != INITIAL.name:
        raise ConfigurationError(
            "A build of kagent_memory from before its first release made this database, and its tables are others. "
            "Nothing was changed. Export it with that build (kagent-memory export --uri … > all.jsonl), and import the "
            "file into a new database with this one (kagent-memory import all.jsonl --uri …)."
        )
    return [step for step in steps if step.number not in applied]


@cache
def made(dialect: str) -> Mapping[str, str]:
    """Name → kind of all that the dialect's files make; a name that ends with `_` has a number after it."""
    return {name: kind for text in _files(dialect).values() for kind, name in _MADE.findall(text)}


@cache
def _files(dialect: str) -> Mapping[str, str]:
    entries = sorted(files("kagent_memory.stores.sql").joinpath(dialect).iterdir(), key=lambda entry: entry.name)
    return {entry.name: entry.read_text(encoding="utf-8") for entry in entries if entry.name.endswith(".sql")}


def _prefixed(dialect: str, text: str, prefix: str) -> str:
    try:
        checked_prefix(prefix)
    except ValueError as error:
        raise ConfigurationError(f"table_prefix: {error}.") from error
    names = made(dialect)
    if prefix:
        text = _WORD.sub(lambda word: f"{prefix}{word[0]}" if word[0] in names else word[0], text)
    tables = (f"{name}[0-9]+" if name.endswith("_") else name for name, kind in names.items() if kind == "TABLE")
    return text.replace("{prefix}", prefix).replace("{tables}", f"^{prefix}({'|'.join(tables)})$")
