"""Every statement of one scope reaches one part of each table, as it must on an engine that is
distributed by scopes.

The tables are partitioned by `scope_id` here: a statement that shows more than one partition would
go to all nodes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest
from memories.opening import ADA
from pgvector.psycopg import register_vector
from psycopg.conninfo import make_conninfo

from kagent_memory.records import Scope, new_id
from kagent_memory.stores import sql
from kagent_memory.stores.sql import migrations, queries, statement

SCOPES = [Scope("acme", str(number), "a").id.hex() for number in range(100)]
EVERYWHERE = {
    "claimable", "expired_scopes", "tenant_scopes", "long_scopes",
    *(name for name in queries("postgres") if name.startswith("scopes")),
    "pending_jobs", "retry_jobs", "idle_jobs",
    "lacking_vectors", "chains",
    "next_scopes",
}  # fmt: skip
"""What looks for scopes or jobs, whosever they are: rare, or the queue's own."""
SCHEMA = migrations("postgres")[0].script
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
BY_TYPE = {
    "text": "x", "uuid": new_id(), "timestamp with time zone": "2026-03-01T00:00Z",
    "bytea": "x", "halfvec": "[1,1,1,1,1,1,1,1]", "json": "{}", "jsonb": "{}",
}  # fmt: skip
BY_NAME = {
    "scope_id": ADA.id.hex(),
    "scope_ids": f"{{{','.join(SCOPES)}}}",
    **dict.fromkeys(("created_before", "happened_before"), "2027-01-01T00:00Z"),
}


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


def literal(name: str, kind: str) -> str:
    """Return a value of this name and type that SQL reads."""
    value = BY_TYPE.get(kind.removesuffix("[]"), "1")
    several = f'{{"{value}"}}' if kind.endswith("[]") else value
    return f"'{BY_NAME.get(name, several)}'::{kind}"


def reached(connection: psycopg.Connection[Any], name: str) -> dict[str, set[str]]:
    """The partitions of each partitioned table that a statement's plan shows."""
    text, names = statement("postgres", name, 1, 8)
    for number, value in enumerate(names, 1):
        text = re.sub(rf"%\({value}\)[sb]", f"${number}", text)
    connection.execute(f"PREPARE asked AS {text.replace('%%', '%')}".encode())
    [(kinds,)] = connection.execute(
        "SELECT parameter_types::text[] FROM pg_prepared_statements WHERE name = 'asked'"
    )
    values = ", ".join(map(literal, names, kinds))
    plan = connection.execute(f"EXPLAIN EXECUTE asked {f'({values})' if values else ''}".encode())
    shown = "\n".join(line for (line,) in plan)
    connection.execute("DEALLOCATE asked")
    assert "One-Time Filter: false" not in shown, shown
    parts: dict[str, set[str]] = {}
    for table, part in re.findall(r"\b(\w+)__(\d)\b", shown):
        parts.setdefault(table, set()).add(part)
    return parts


@pytest.mark.parametrize(
    "name", sorted(queries("postgres").keys() - EVERYWHERE - NO_DATA - DEFINING)
)
def test_a_statement_reaches_one_part_of_each_table(partitioned, name):
    """A statement about a scope reads one partition of each table."""
    parts_of = reached(partitioned, name)
    text = re.sub(r"--.*", "", statement("postgres", name, 1, 8)[0])
    read = set(re.findall(r"(?:FROM|JOIN|UPDATE|USING) (\w+)", text)) - {"remembered"}
    assert read & {*DISTRIBUTED, "memory_vector_1"} <= parts_of.keys()
    assert {table: len(parts) for table, parts in parts_of.items()} == dict.fromkeys(parts_of, 1)
    assert len(set().union(*parts_of.values())) <= 1


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
    tables = set(re.findall(r"CREATE TABLE (\w+)", SCHEMA))
    for name, others in (("drop_local_rows", set[str]()), ("about", {"schema_migration"})):
        listed = re.findall(r"'\^\(([^']*)\)\$'", re.sub(r"'\s+'", "", queries("postgres")[name]))
        assert [set(names.split("|")) for names in listed] == [
            tables - others | {"memory_vector_[0-9]+"}
        ]
