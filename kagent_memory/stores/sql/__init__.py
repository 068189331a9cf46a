"""The SQL of both dialects: named queries and numbered migrations, read from package data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, LiteralString, NamedTuple, cast

from ...concurrency import batched
from ...errors import ConfigurationError

_HEADER = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
_VALUE = re.compile(r"--[^\n]*|%\((\w+)\)[sb]|(?<!:):([A-Za-z_]\w*)")
_NUMBERED = re.compile(r"^(\d{4})_(\w+)\.sql$")


class Migration(NamedTuple):
    """One step of the schema; released steps never change."""

    number: int
    name: str
    script: LiteralString

    @property
    def commands(self) -> Sequence[LiteralString]:
        """Return its commands, since Citus and SQLite take one at a time."""
        return self.script.rstrip(";\n").split(";\n")


@cache
def queries(dialect: str) -> Mapping[str, LiteralString]:
    """Return name → statement of the dialect's `*.sql` files, except the migrations.

    A fragment is text that several statements of a file share; `{its_name}` inserts it.
    """
    statements: dict[str, LiteralString] = {}
    for file, text in _files(dialect).items():
        if _NUMBERED.match(file):
            continue
        _, *parts = _HEADER.split(text)
        fragments: dict[str, str] = {}
        for kind, name, part in batched(parts, 3):
            text = part.strip()
            if kind == "fragment":
                fragments[f"{{{name}}}"] = text
                continue
            for place, fragment in fragments.items():
                text = text.replace(place, fragment)
            statements[name] = cast("LiteralString", text)
    return statements


@cache
def statement(
    dialect: str, query: str, space: int | None = None, width: int | None = None
) -> tuple[LiteralString, Sequence[str]]:
    """Return the text of a named query and the names of its parameters in order of appearance.

    Args:
        dialect: the directory of its SQL files.
        query: the name of the statement.
        space: the number of the embedding space, for a statement on its table of vectors.
        width: the dimensions of that table.
    """
    text = queries(dialect)[query].replace("{space}", str(space)).replace("{width}", str(width))
    names = (bound or named for bound, named in _VALUE.findall(text))
    return cast("LiteralString", text), tuple(dict.fromkeys(filter(None, names)))


@cache
def migrations(dialect: str) -> Sequence[Migration]:
    """Return the dialect's migrations in order; the first creates the schema of the first
    release.
    """
    return [
        Migration(int(match[1]), match[2], cast("LiteralString", text))
        for file, text in _files(dialect).items()
        if (match := _NUMBERED.match(file))
    ]


def upgrade(dialect: str, ledger: Sequence[Mapping[str, Any]] | None) -> Sequence[Migration]:
    """Return the steps that bring a database to the newest schema; those of a later release that it
    has already are left alone.

    Args:
        dialect: the dialect of the database.
        ledger: the rows of the database's table of migrations. None: it has no such table, and all
            steps are needed.

    Raises:
        ConfigurationError: a build from before the first release created the database.
    """
    steps = migrations(dialect)
    if ledger is None:
        return steps
    applied = {row["number"]: row["name"] for row in ledger}
    if applied.get(steps[0].number) != steps[0].name:
        raise ConfigurationError(
            "A build of kagent_memory from before its first release created this database, with "
            "other tables. Nothing was changed. Export it with that build (kagent-memory "
            "export --uri … > all.jsonl), and import the file into a new database with this one "
            "(kagent-memory import all.jsonl --uri …)."
        )
    return [step for step in steps if step.number not in applied]


@cache
def _files(dialect: str) -> Mapping[str, str]:
    texts = {
        entry.name: entry.read_text(encoding="utf-8")
        for entry in files("kagent_memory.stores.sql").joinpath(dialect).iterdir()
        if entry.name.endswith(".sql")
    }
    return dict(sorted(texts.items()))
