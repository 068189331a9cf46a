"""Both dialects have the same statements, with the same names and parameters."""

from __future__ import annotations

import re
from contextlib import closing

import pytest

from kagent_memory.stores.libsql.connection import connect, migrate
from kagent_memory.stores.sql import migrations, queries, statement


@pytest.mark.parametrize("dialect", ["libsql", "postgres"])
def test_statements_are_static_but_for_a_spaces_number(dialect):
    """Statements are static except for an embedding space's number and width."""
    for name, text in queries(dialect).items():
        assert set(re.findall(r"\{.*?\}", text)) <= {"{space}", "{width}"}, name


@pytest.fixture
def connection():
    with closing(connect(":memory:")) as opened:
        migrate(opened)
        yield opened


@pytest.mark.parametrize("name", sorted(queries("libsql")))
def test_every_libsql_statement_fits_the_schema(connection, name):
    """SQLite can plan every statement on a migrated file."""
    if name != "make_vectors":
        connection.rows(statement("libsql", "make_vectors", 1)[0])
    text, names = statement("libsql", name, 1)
    assert connection.rows(f"EXPLAIN {text}", dict.fromkeys(names))


NEWER_THAN_3_35 = re.compile(
    r"->|\b(unixepoch|timediff|string_agg|octet_length|jsonb\w*|concat(_ws)?)\s*\("
    r"|DISTINCT FROM|(RIGHT|FULL)\s+(OUTER\s+)?JOIN"
    r"|\)\s*STRICT\b|group_concat\([^()]*ORDER BY",
    re.IGNORECASE,
)


def test_a_file_asks_nothing_that_sqlite_3_35_does_not_know():
    """No statement needs a feature newer than SQLite 3.35."""
    assert NEWER_THAN_3_35.search("SELECT value ->> 0")
    scripts = (step.script for step in migrations("libsql"))
    assert [*filter(NEWER_THAN_3_35.search, (*queries("libsql").values(), *scripts))] == []


def plan(connection, name: str) -> list[str]:
    """Return the steps of SQLite's plan for a statement."""
    text, names = statement("libsql", name, 1)
    return [
        row["detail"] for row in connection.rows(f"EXPLAIN QUERY PLAN {text}", dict.fromkeys(names))
    ]


@pytest.mark.parametrize(
    "name", [name for name, text in sorted(queries("libsql").items()) if "AS place" in text]
)
def test_lists_side_by_side_are_joined_by_an_index(connection, name):
    """Parallel lists are joined by position in linear time."""
    assert any("AUTOMATIC" in step and "(place=?)" in step for step in plan(connection, name))


@pytest.mark.parametrize("name", ["end_decisions", "evictable", "vectors_of"])
def test_named_memories_are_read_each_by_its_key(connection, name):
    """A statement walks the list of ids once, not for each row of the scope."""
    connection.rows(statement("libsql", "make_vectors", 1)[0])
    steps = plan(connection, name)
    listed = next(place for place, step in enumerate(steps) if "VIRTUAL TABLE" in step)
    assert re.search(r"^SEARCH .*\(scope_id=\? AND (memory_)?id=\?", steps[listed + 1]), steps


SCOPED = (
    "scope_changes",
    "indexed",
    "visible_memories",
    "passing",
    "vectors_of",
    "met_memories",
    "taken_pairs",
    "erase_memories",
)


@pytest.mark.parametrize("name", SCOPED)
def test_hot_libsql_statements_use_an_index_by_scope(connection, name):
    """Hot libSQL statements reach every table by an index that starts with the scope."""
    connection.rows(statement("libsql", "make_vectors", 1)[0])
    steps = [
        step
        for step in plan(connection, name)
        if step.startswith(("SEARCH", "SCAN"))
        and "VIRTUAL TABLE" not in step
        and step.split()[1] not in ("dead", "passing")
    ]
    # subqueries, and the few rows of "embedder", which belong to no scope
    aside = {f"SCAN {alias}" for alias in "ceitw"}
    tables = [step for step in steps if "AUTOMATIC" not in step and step not in aside]
    assert tables
    assert all("(scope_id=?" in step for step in tables), tables


@pytest.mark.parametrize(
    "name", [name for name in queries("libsql") if re.search("^scopes|long_|^tenant_", name)]
)
def test_scopes_are_listed_in_the_order_of_an_index(connection, name):
    """Scopes are listed in the order of an index, which a page enters at its start."""
    steps = plan(connection, name)
    index = r"(SEARCH|SCAN) \w+ USING COVERING INDEX scope_(order|long)"
    first = next(step for step in steps if re.match(index, step))
    assert first.startswith("SEARCH") or name == "long_scopes", steps
    assert not any("TEMP B-TREE" in step for step in steps), steps
