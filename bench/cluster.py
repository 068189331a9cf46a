"""Compare a Citus cluster with one PostgreSQL, call by call.

    python bench/cluster.py postgresql://one-server/database postgresql://coordinator/database

The second database has the extensions citus and vector and its worker nodes; the tables are
distributed if they are not yet. Rounds are interleaved; figures are medians over the rounds. Leaves
schemas "kagent_memory_speed" behind.
"""

from __future__ import annotations

import argparse
import asyncio

from pooler import SCHEMA, compare

from kagent_memory import Memories
from kagent_memory.stores.postgres import PostgresStore


async def main(plain: str, coordinator: str, shards: int, rounds: int) -> None:
    await (await Memories.open(coordinator, worker=False, postgres_schema=SCHEMA)).close()
    await PostgresStore.distribute(coordinator, schema=SCHEMA, shards=shards)
    await compare({"one PostgreSQL": plain, "Citus": coordinator}, rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("plain", help="one PostgreSQL")
    parser.add_argument("coordinator", help="of the cluster")
    parser.add_argument("--shards", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    asyncio.run(main(options.plain, options.coordinator, options.shards, options.rounds))
