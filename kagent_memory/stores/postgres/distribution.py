"""Spreading the tables over the nodes of a Citus cluster, each scope's rows together on one of
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import psycopg

from ...errors import ConfigurationError
from ..sql import queries
from .connection import DIALECT, AnyConnection, Traits
from .session import PostgresSession

DISTRIBUTED = (
    "scope", "memory", "memory_stats", "memory_revision", "ingest_job", "taken_event", "tombstone",
    "scope_index",
    "receipt_chain", "receipt",
)  # fmt: skip
"""Tables with rows of scopes: spread by `scope_id`, as are the vectors of each embedding space."""
REFERENCE = ("embedder", "token", "lease", "caller_width", "schema_migration")
"""Tables that every node has whole."""
Place: TypeAlias = Literal["by scope", "on every node"]


async def left_to_distribute(connection: AnyConnection, traits: Traits) -> Mapping[str, Place]:
    """The tables that are not spread yet, in the order in which they must be, and how each is to
    be.

    Raises:
        ConfigurationError: the database has no Citus.
    """
    session = PostgresSession(connection, traits)
    [found] = await session.rows("has_citus", {})
    if not found["citus"]:
        raise ConfigurationError(
            "The tables are distributed by Citus, which this database does not have: install it "
            "on all nodes, run "
            "CREATE EXTENSION citus and add the worker nodes (docs/how-to/databases.md), or "
            "leave --distribute out."
        )
    there = {row["name"] for row in await session.rows("distributed", {})}
    spaces = await session.rows("embedding_spaces", {}) if found["migrated"] else ()
    vectors = [f"memory_vector_{row['number']}" for row in spaces]
    places: dict[str, Place] = dict.fromkeys((*DISTRIBUTED, *vectors), "by scope")
    places |= dict.fromkeys(REFERENCE, "on every node")
    return {name: place for name, place in places.items() if name not in there}


async def distribute(connection: AnyConnection, traits: Traits, *, shards: int) -> None:
    """Spread what is not spread yet, in the transaction that migrates; harmless where nothing is
    left.

    Raises:
        ConfigurationError: the database has no Citus, or this node is not the coordinator.
    """
    text = queries(DIALECT)
    try:
        for name, place in (await left_to_distribute(connection, traits)).items():
            if name == "scope":
                await connection.execute(text["distribute_scope"], {"shards": shards})
            else:
                made = "distribute_table" if place == "by scope" else "refer_to_table"
                await connection.execute(text[made], {"name": name})
    except psycopg.Error as error:
        if "not allowed on this node" in str(error):
            raise ConfigurationError(
                "Tables are distributed from the coordinator, and this is another node of the "
                "cluster: correct --uri."
            ) from error
        raise


async def drop_local_rows(connection: AnyConnection, traits: Traits) -> None:
    """Empty what the coordinator itself still keeps of tables that are spread."""
    session = PostgresSession(connection, traits)
    for row in await session.rows("distributed", {}):
        await connection.execute(queries(DIALECT)["truncate_local"], {"name": row["name"]})
