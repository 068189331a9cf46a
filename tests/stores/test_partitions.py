"""Every statement of one scope reaches one part of each table, as it must on an engine that is
distributed by scopes.

The tables are partitioned by `scope_id` here: a statement that shows more than one partition would
go to all nodes."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pgvector import HalfVector
from pgvector.psycopg import register_vector
from psycopg.conninfo import make_conninfo

from kagent_memory.records import Scope, new_id
from kagent_memory.stores import sql
from kagent_memory.stores.sql import queries, statement, upgrade

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SCOPE = Scope("acme", "ada", "notes")
SCOPES = [Scope("acme", str(number), "a").id.hex() for number in range(100)]
EVERYWHERE = {
    "claimable", "expired_scopes", "crowded_scopes", "long_scopes",
    *(name for name in queries("postgres") if name.startswith("scopes")),
    "tenant_scopes",
    "long_tenant_scopes", "pending_jobs", "retry_job", "drop_job",
    "lacking_vectors", "chains",
    "next_scopes", "any_short_term",
}  # fmt: skip
"""What looks for scopes or jobs, whosever they are: rare, or the queue's own."""
SCHEMA = upgrade("postgres", None).scripts[0]
DISTRIBUTED = re.findall(r"CREATE TABLE (\w+) \(\n    scope_id ", SCHEMA)
NO_DATA = {"about"} | {
    name
    for file in ("connection", "distribution", "migration", "row_security")
    for name in re.findall(
        r"-- name: (\w+)", (Path(sql.__file__).parent / f"postgres/{file}.sql").read_text()
    )
}
DEFINING = {
    name
    for name in queries("postgres")
    if name.startswith(("make_", "guard_", "unguard_", "drop_vectors"))
}
BY_TYPE: dict[str, Any] = {
    "text": "x", "text[]": ["x"], "uuid": new_id(), "uuid[]": [new_id()], "timestamptz": NOW,
    "float8": 1.0,
    "integer": 1, "integer[]": [1], "boolean": True, "json": "{}", "jsonb": "{}", "numeric": 1,
    "bytea": b"x",
    "bytea[]": [b"x"], "halfvec[]": [HalfVector([1.0] * 8)],
}  # fmt: skip
BY_NAME: dict[str, Any] = {
    "scope_id": SCOPE.id.hex(), "scope_ids": SCOPES, "id": new_id(), "at": NOW, "now": NOW,
    "expires_at": NOW,
    "created_at": NOW, "session_id": "x", "event_id": "x", "kind": "embed", "key": "x",
    "group": "x", "state": "dead",
    "tenant": "acme", "superseded": True, "limit": 5, "most": 5, "above": 5, "popular_after": 5,
    "fence": 1, "version": 1, "after": 1, "erased": 1, "salt": b"x", "dimensions": 8, "name": "x",
    "rows": "[]",
    "step": 1, "number": 1,
    **dict.fromkeys((
        "types", "topics", "tags", "origins", "metadata", "author", "category", "min_importance",
        "after_id",
        "created_after", "created_before", "happened_after", "happened_before",
    )),
}  # fmt: skip


@pytest.fixture(scope="module")
def partitioned(postgres_server, postgres_template):
    """A connection to a store whose tables of scopes are partitioned by them."""
    name = "kagent_memory_partitioned"
    with psycopg.connect(postgres_server, autocommit=True) as maker:
        maker.execute(f"DROP DATABASE IF EXISTS {name}".encode())
        maker.execute(f"CREATE DATABASE {name} TEMPLATE {postgres_template}".encode())
        with psycopg.connect(
            make_conninfo(postgres_server, dbname=name),
            autocommit=True,
            options="-csearch_path=kagent_memory,public",
        ) as connection:
            register_vector(connection)
            connection.execute(statement("postgres", "make_vectors", 1, 8)[0])
            [(view,)] = connection.execute("SELECT pg_get_viewdef('remembered'::regclass)")
            connection.execute("DROP VIEW remembered")
            for table in (*DISTRIBUTED, "memory_vector_1"):
                connection.execute(f"ALTER TABLE {table} RENAME TO {table}_before".encode())
                connection.execute(
                    f"CREATE TABLE {table} (LIKE {table}_before INCLUDING DEFAULTS INCLUDING "
                    "INDEXES) PARTITION BY HASH (scope_id)".encode()
                )
                for part in range(8):
                    connection.execute(
                        f"CREATE TABLE {table}__{part} PARTITION OF {table} "
                        f"FOR VALUES WITH (MODULUS 8, REMAINDER {part})".encode()
                    )
            connection.execute(f"CREATE VIEW remembered AS {view.replace('_before', '')}".encode())
            yield connection
        maker.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def value_of(name: str, kind: str) -> Any:
    if kind == "uuid[]" and name in BY_NAME:
        return [BY_NAME[name]]
    return (
        BY_TYPE[kind]
        if kind == "uuid" and name != "scope_id"
        else BY_NAME.get(name, BY_TYPE.get(kind))
    )


def reached(connection: psycopg.Connection[Any], name: str) -> dict[str, set[str]]:
    """The partitions of each partitioned table that a statement's plan shows."""
    text = statement("postgres", name, 1, 8)[0]
    named = re.findall(r"%\((\w+)\)[sb](?:::([\w]+(?:\[\])?))?", text)
    values = {value: value_of(value, kind) for value, kind in named}
    plan = connection.execute(f"EXPLAIN {text}", values).fetchall()
    shown = "\n".join(line for (line,) in plan)
    assert "One-Time Filter: false" not in shown, shown
    found: dict[str, set[str]] = {}
    for table, part in re.findall(r"\b(\w+)__(\d)\b", shown):
        found.setdefault(table, set()).add(part)
    return found


@pytest.mark.parametrize(
    "name", sorted(queries("postgres").keys() - EVERYWHERE - NO_DATA - DEFINING)
)
def test_a_statement_reaches_one_part_of_each_table(partitioned, name):
    """A statement about a scope reads one partition of each table."""
    found = reached(partitioned, name)
    text = re.sub(r"--.*", "", statement("postgres", name, 1, 8)[0])
    read = set(re.findall(r"(?:FROM|JOIN|UPDATE|USING) (\w+)", text)) - {"remembered"}
    assert read & {*DISTRIBUTED, "memory_vector_1"} <= found.keys()
    assert {table: len(parts) for table, parts in found.items()} == dict.fromkeys(found, 1)
    assert len(set().union(*found.values())) <= 1


@pytest.mark.parametrize("name", sorted(EVERYWHERE))
def test_what_reaches_all_parts_is_what_must(partitioned, name):
    """Statements that cross scopes are known by name."""
    assert max(len(parts) for parts in reached(partitioned, name).values()) == 8


def test_nothing_is_locked_but_in_one_scope():
    """Rows are locked by statements of one scope alone."""
    for name, text in queries("postgres").items():
        if re.search(r"\bFOR (UPDATE|SHARE|NO KEY UPDATE|KEY SHARE)\b", text):
            assert "scope_id = %(scope_id)s" in text, name


def test_every_table_is_distributed_or_a_reference():
    """Every statement that lists the tables names all, so that each has a place on a cluster."""
    made = set(re.findall(r"CREATE TABLE (\w+)", SCHEMA))
    for name, others in (("undistributed", set[str]()), ("about", {"schema_migration"})):
        listed = re.findall(r"'\^\(([^']*)\)\$'", re.sub(r"'\s+'", "", queries("postgres")[name]))
        assert [set(names.split("|")) for names in listed] == [
            made - others | {"memory_vector_[0-9]+"}
        ]
