"""The SQL of both dialects: named queries, the schema and numbered migrations, read from the
package's own files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import LiteralString, NamedTuple, cast

from ...errors import ConfigurationError

_HEADER = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
_VALUE = re.compile(r"--[^\n]*|%\((\w+)\)[sb]|(?<!:):([A-Za-z_]\w*)")
_SCHEMA = "schema.sql"
_NUMBERED = re.compile(r"^(\d{4})_(\w+)\.sql$")


class Migration(NamedTuple):
    """One step of the schema; released steps never change."""

    number: int
    name: str
    script: LiteralString


INITIAL = Migration(1, "initial", "")
"""The schema of the first release. `schema.sql` has made it in every database; later steps are
numbered from 2 on.
"""


@cache
def queries(dialect: str) -> Mapping[str, LiteralString]:
    """Return name → statement of every `*.sql` file of the dialect but the schema and the
    migrations.

    What several statements share is a fragment of their file: it stands in them where `{its_name}`
    is written.
    """
    statements: dict[str, LiteralString] = {}
    for file, text in _files(dialect).items():
        if file == _SCHEMA or _NUMBERED.match(file):
            continue
        _, *parts = _HEADER.split(text)
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
def statement(
    dialect: str, query: str, space: int | None = None, width: int | None = None
) -> tuple[LiteralString, Sequence[str]]:
    """Return the text of a named query, for one table of vectors where it has to do with one, and
    the names of the values that it takes, each where it first stands.
    """
    text = queries(dialect)[query].replace("{space}", str(space)).replace("{width}", str(width))
    names = (bound or named for bound, named in _VALUE.findall(text))
    return cast("LiteralString", text), tuple(dict.fromkeys(filter(None, names)))


@cache
def migrations(dialect: str) -> Sequence[Migration]:
    """Return the dialect's migrations in their order, `INITIAL` first."""
    later = [
        Migration(int(match[1]), match[2], cast("LiteralString", text))
        for file, text in _files(dialect).items()
        if (match := _NUMBERED.match(file))
    ]
    return [INITIAL, *later]


class Upgrade(NamedTuple):
    """Steps that bring a database to the newest schema.

    Attributes:
        scripts: to run.
        steps: to note when they ran.
        is_newer: whether the database has steps that this release does not know.
    """

    scripts: Sequence[LiteralString]
    steps: Sequence[Migration]
    is_newer: bool = False


def upgrade(dialect: str, applied: Mapping[int, str] | None) -> Upgrade:
    """Return how to bring a database to the newest schema.

    Args:
        dialect: of the database.
        applied: the numbers and names that its table of migrations holds; None: it has none, and
            `schema.sql` makes it as all migrations leave an old one.

    Raises:
        ConfigurationError: a build from before the first release made the database.
    """
    known = migrations(dialect)
    if applied is None:
        return Upgrade([cast("LiteralString", _files(dialect)[_SCHEMA])], known)
    if applied.get(INITIAL.number) != INITIAL.name:
        raise ConfigurationError(
            "A build of kagent_memory from before its first release made this database, and its "
            "tables are others. Nothing was changed. Export it with that build (kagent-memory "
            "export --uri … > all.jsonl), and import the file into a new database with this one "
            "(kagent-memory import all.jsonl --uri …)."
        )
    lacking = [step for step in known if step.number not in applied]
    is_newer = not applied.keys() <= {step.number for step in known}
    return Upgrade([step.script for step in lacking], lacking, is_newer)


@cache
def _files(dialect: str) -> Mapping[str, str]:
    entries = sorted(
        files("kagent_memory.stores.sql").joinpath(dialect).iterdir(), key=lambda entry: entry.name
    )
    return {
        entry.name: entry.read_text(encoding="utf-8")
        for entry in entries
        if entry.name.endswith(".sql")
    }
