"""One file a tenant: the contract holds, and every tenant's file is its own, safely named, and removed."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import sqlite3
import threading
from contextlib import closing
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kagent_memory import Memories
from kagent_memory.doctor import examine
from kagent_memory.errors import ConfigurationError, InvalidInput, NotFound, StoreError
from kagent_memory.records import Scope
from kagent_memory.stores import open_store, store_exists
from kagent_memory.stores.base import Batch
from kagent_memory.stores.libsql import tenant_files
from kagent_memory.stores.libsql.tenant_files import file_name, named_tenant
from kagent_memory.stores.receipts import chain_id
from kagent_memory.testing.contract import (
    ApplyContract,
    ConcurrencyContract,
    ForgetContract,
    IsolationContract,
    KeepingContract,
    PagingContract,
    QueueContract,
    RoundTripContract,
    VectorSearchContract,
)
from kagent_memory.testing.fixtures import NOW, SECOND, a_job, a_memory, adding, contents

HOSTILE = [
    "..",
    ".",
    "",
    "/etc/passwd",
    "a/b",
    "../../x",
    "a\\b",
    "C:",
    "ACME",
    "acme",
    "a%2fb",
    "=2e",
    "~",
    "@tenants",
]
HOSTILE += [
    "\u00e9",
    "e\u0301",
    "日本",
    "x" * 300,
    "X" * 300,
    "-rf",
    "a b",
    "tab\t",
    "line\n",
    "*?",
    "acme.db",
    "acme-wal",
    "\x7f",
]


class TestTenantFiles(
    IsolationContract,
    RoundTripContract,
    ApplyContract,
    ForgetContract,
    PagingContract,
    VectorSearchContract,
    ConcurrencyContract,
    QueueContract,
    KeepingContract,
):
    """The rules that several files could break; the rest is the same code in one of them."""

    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path):
        self.directories = (tmp_path / f"{number}" for number in itertools.count())

    async def open_store(self):
        (directory := next(self.directories)).mkdir()
        return await open_store(f"libsql:///{directory}/{{tenant}}.db")


@pytest.fixture(params=["sqlite3", "libsql"])
def driver(request):
    return request.param


@pytest.fixture
def uri(tmp_path):
    (tmp_path / "stores").mkdir()
    return f"libsql:///{tmp_path}/stores/{{tenant}}.db"


def files(tmp_path):
    return sorted(path.name for path in (tmp_path / "stores").iterdir())


def databases(tmp_path):
    return [name for name in files(tmp_path) if name.endswith(".db")]


async def keep(store, tenant, text, **values):
    scope = Scope(tenant, "ada", "notes")
    [id] = (await store.apply(scope, Batch(changes=adding(a_memory(text)), **values), now=NOW)).ids
    return scope, id


# -- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize("tenant", HOSTILE)
def test_a_name_stays_one_file_of_the_directory(tenant):
    name = file_name(tenant)
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_=~")
    assert 0 < len(f"{name}.db-wal") <= 255
    assert named_tenant(name) == (tenant if len(tenant) < 300 else None)


def test_no_two_names_are_one_file_where_case_does_not_count():
    names = [file_name(tenant) for tenant in HOSTILE]
    assert len({name.casefold() for name in names}) == len(set(HOSTILE))


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_every_short_name_comes_back(tenant):
    name = file_name(tenant)
    assert named_tenant(name) == tenant or name.startswith("~")
    assert name == name.casefold()


@pytest.mark.parametrize("name", ["", "ACME", "a.b", "=2E", "=61", "=", "=ff", "=00", "@tenants", "a=", "~x", "é"])
def test_a_file_that_was_not_named_here_is_no_tenants(name):
    assert named_tenant(name) == ("" if name == "=" else None)


@pytest.mark.parametrize(
    "place", ["{tenant}/memory.db", "{tenant}", "{tenant}{tenant}.db", "{tenant}memory", "{tenant}/{tenant}.db"]
)
async def test_another_place_for_the_tenant_is_a_configuration_error(tmp_path, place):
    with pytest.raises(ConfigurationError, match=r"libsql:///directory/\{tenant\}\.db"):
        await open_store(f"libsql:///{tmp_path}/{place}")
    assert list(tmp_path.iterdir()) == []


async def test_a_directory_that_is_not_there_is_a_configuration_error(tmp_path):
    with pytest.raises(ConfigurationError, match="does not exist"):
        await open_store(f"libsql:///{tmp_path}/none/{{tenant}}.db")
    with pytest.raises(ConfigurationError, match="does not exist"):
        await store_exists(f"libsql:///{tmp_path}/none/{{tenant}}.db")


async def test_tenants_of_any_name_are_kept_and_listed_apart(uri, tmp_path, driver):
    async with await open_store(uri.replace("{", "%7B"), driver=driver) as store:
        for tenant in HOSTILE:
            await keep(store, tenant, f"of {tenant}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["stores"]
    async with await open_store(uri, driver=driver) as store:
        assert [scope.tenant for scope in await store.scopes()] == sorted(set(HOSTILE))
        for tenant in HOSTILE:
            assert await contents(store, Scope(tenant, "ada", "notes")) == [f"of {tenant}"]
        after = Scope("acme", "ada", "notes")
        rest = [tenant for tenant in sorted(set(HOSTILE)) if tenant > "acme"]
        assert [scope.tenant for scope in await store.scopes(after=after, limit=3)] == rest[:3]
        for wrong in ("a\0b", "\ud800"):
            with pytest.raises(InvalidInput):
                await store.scopes(tenant=wrong)


# -- apart --------------------------------------------------------------------------------------


async def test_what_a_tenant_says_is_in_no_other_file_and_no_reading_makes_one(uri, tmp_path):
    async with await open_store(uri) as store:
        assert databases(tmp_path) == ["@tenants.db"]
        for tenant in ("acme", "globex"):
            scope, _ = await keep(store, tenant, f"canary of {tenant}")
            payload = {"messages": [{"text": f"canary of {tenant}", "event_id": "e"}]}
            await store.enqueue([a_job(scope, payload=payload)])
        nobody = Scope("nobody", "ada", "notes")
        assert await contents(store, nobody) == []
        assert await store.search_text(nobody, ["canary"], limit=5, now=NOW)
        assert not await store.renew(a_job(nobody), lease_seconds=1)
        assert (await store.forget_tenant("nobody", limit=10, now=NOW)).done
        with pytest.raises(NotFound):
            await store.feedback(nobody, "x", success=True)
        assert databases(tmp_path) == ["@tenants.db", "acme.db", "globex.db"]
        for path in (tmp_path / "stores").iterdir():
            for tenant in ("acme", "globex"):
                assert (f"canary of {tenant}".encode() in path.read_bytes()) <= path.name.startswith(tenant)


async def test_few_files_are_open_and_none_is_closed_in_use(uri, monkeypatch):
    monkeypatch.setattr(tenant_files, "MOST_OPEN", 3)
    most = 0
    async with await open_store(uri) as store:
        tenants = [f"t{number}" for number in range(12)]

        async def work(tenant, number):
            nonlocal most
            await keep(store, tenant, f"{tenant} {number}")
            threads = [one for one in threading.enumerate() if one.name.startswith("kagent-memory-libsql")]
            most = max(most, len(threads))
            assert f"{tenant} {number}" in await contents(store, Scope(tenant, "ada", "notes"))

        await asyncio.gather(*(work(tenant, number) for number in range(4) for tenant in tenants))
        assert len(await store.scopes()) == len(tenants)
    assert most <= 8  # three, the catalogue, and threads on their way out


async def test_an_idle_file_is_closed_and_opened_again(uri, tmp_path, monkeypatch):
    monkeypatch.setattr(tenant_files, "IDLE_SECONDS", 0.02)
    async with await open_store(uri) as store:
        scope, _ = await keep(store, "acme", "here")
        async with asyncio.timeout(60):
            while "acme.db-wal" in files(tmp_path):  # noqa: ASYNC110 no event of ours: who closes a file last removes its log
                await asyncio.sleep(0.01)
        assert await contents(store, scope) == ["here"]


async def test_a_cancelled_caller_leaves_the_files_in_order(uri, monkeypatch):
    monkeypatch.setattr(tenant_files, "MOST_OPEN", 2)
    async with await open_store(uri) as store:
        tasks = [asyncio.create_task(keep(store, f"t{number % 5}", f"{number}")) for number in range(30)]
        for number, task in enumerate(tasks):
            if number % 2:
                await asyncio.sleep(0)
                task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(one, (tuple, asyncio.CancelledError)) for one in done)
        for number in range(5):
            await keep(store, f"t{number}", "again")
    with pytest.raises(StoreError):
        await keep(store, "t1", "after close")


# -- forgetting ---------------------------------------------------------------------------------


async def test_a_forgotten_tenants_file_is_gone_and_its_receipts_stay_and_go_on(uri, tmp_path):
    async with await open_store(uri) as store:
        for number in range(5):
            await keep(store, "acme", f"fact {number}")
        scope, id = await keep(store, "acme", "one more")
        await keep(store, "globex", "stays")
        await store.enqueue([a_job(scope)])
        await store.forget(scope, ids=[id], who="ada", now=NOW)
        first = await store.forget_tenant("acme", limit=2, who="ada", now=NOW)
        assert not first.done
        while not (await store.forget_tenant("acme", limit=2, who="ada", now=NOW)).done:
            pass
        assert databases(tmp_path) == ["@tenants.db", "globex.db"]
        assert not [name for name in files(tmp_path) if name.startswith("acme")]
        assert not any(b"acme" in path.read_bytes() for path in (tmp_path / "stores").iterdir())
        told = await store.receipts(chain_id("acme"))
        assert [one.number for one in told] == list(range(1, len(told) + 1))
        assert (told[0].kind, told[-1].kind) == ("forget", "forget_tenant")
        assert await store.chains() == [chain_id("acme")]
        assert [job.scope.tenant for job in await store.jobs()] == []
    async with await open_store(uri) as store:  # and comes again
        scope, id = await keep(store, "acme", "a new start")
        await store.forget(scope, ids=[id], who="ada", now=NOW)
        again = await store.receipts(chain_id("acme"))
        assert (again[: len(told)], again[-1].previous) == (told, told[-1].digest)
        assert (await store.forget_tenant("acme", limit=2, who="ada", now=NOW)).done
        assert await store.receipts(chain_id("acme")) == again
    async with await Memories.open(uri, worker=False) as memories:
        assert {one.defect for one in (await memories.audit()).findings} <= {"never_delivered"}


async def test_what_another_process_writes_to_a_file_that_was_removed_is_kept(uri, driver):
    async with await open_store(uri, driver=driver) as store, await open_store(uri, driver=driver) as other:
        scope, _ = await keep(store, "acme", "of the first")
        assert await contents(other, scope) == ["of the first"]
        assert (await store.forget_tenant("acme", limit=100, now=NOW)).done
        assert await contents(other, scope) == []
        await keep(other, "acme", "of the second")
        assert await contents(store, scope) == ["of the second"]
    async with await open_store(uri, driver=driver) as store:
        assert await contents(store, scope) == ["of the second"]


# -- embedding spaces ---------------------------------------------------------------------------


def vector(*numbers):
    return np.array(numbers, np.float32)


async def test_a_file_from_elsewhere_brings_its_vectors_under_the_numbers_here(uri, tmp_path):
    (tmp_path / "other").mkdir()
    async with await open_store(f"libsql:///{tmp_path}/other/{{tenant}}.db") as store:
        spaces = [await store.add_embedding_space(name, 2, None) for name in ("b", "a", "c")]
        memory = a_memory("moved")
        for number, space in enumerate(spaces):
            at = vector(1, number)
            batch = Batch(
                changes=adding(memory) if not number else (), vectors={memory.id: at}, space_number=space.number
            )
            await store.apply(Scope("acme", "ada", "notes"), batch, now=NOW)
    async with await open_store(uri) as store:
        here = {name: (await store.add_embedding_space(name, 2, None)).number for name in ("a", "b")}
        shutil.copy(tmp_path / "other" / "acme.db", tmp_path / "stores" / "acme.db")
        scope = Scope("acme", "ada", "notes")
        assert await contents(store, scope) == ["moved"]
        here = {space.name: space.number for space in await store.embedding_spaces()}
        assert here == {"a": 1, "b": 2, "c": 3}
        for number, name in enumerate(("b", "a", "c")):
            [[(id, cosine)]] = await store.search_vector(scope, here[name], [vector(1, number)], limit=5, now=NOW)
            assert (id, cosine) == (memory.id, 1.0)


async def test_embedders_are_replaced_in_every_file_open_or_not(uri):
    async with await open_store(uri) as store:
        old = await store.add_embedding_space("old", 2, None)
        for tenant in ("acme", "globex"):
            memory = a_memory("fact")
            batch = Batch(changes=adding(memory), vectors={memory.id: vector(1, 0)}, space_number=old.number)
            await store.apply(Scope(tenant, "ada", "notes"), batch, now=NOW)
    async with await open_store(uri) as other, await open_store(uri) as store:
        acme = Scope("acme", "ada", "notes")
        assert await contents(other, acme) == ["fact"]
        new = await store.replace_embedding_space("new", 3, None)
        assert (new.number, new.state) == (2, "filling")
        memory = a_memory("of a process that has not heard of it")
        batch = Batch(changes=adding(memory), vectors={memory.id: vector(0, 1)}, space_number=old.number)
        await other.apply(acme, batch, now=NOW)
        [job] = await store.jobs()
        assert (job.kind, job.scope) == ("embed", acme)
        assert [scope.tenant for scope in await store.lacking_vectors(await store.scopes(), 2, now=NOW)] == [
            "acme",
            "globex",
        ]
        await store.finish_replacing(new.number)
        assert await store.drop_retired() == ["old"]
        with pytest.raises(InvalidInput):
            await other.search_vector(acme, old.number, [vector(1, 0)], limit=5, now=NOW)
        assert await other.search_vector(acme, new.number, [vector(1, 0, 0)], limit=5, now=NOW) == [[]]


# -- the queue ----------------------------------------------------------------------------------


async def test_tenants_take_turns_and_another_process_finds_what_this_one_queued(uri):
    async with await open_store(uri) as store, await open_store(uri) as worker:
        many, few = Scope("many", "ada", "notes"), Scope("few", "ada", "notes")
        await store.enqueue([a_job(many, created_at=NOW - number * SECOND) for number in range(20)])
        await store.enqueue([a_job(few)])
        order = []
        for _ in range(3):
            job = await worker.claim("me", now=NOW, lease_seconds=30)
            order.append(job.scope.tenant)
            await worker.apply(job.scope, Batch(job=(job.id, job.fence)), now=NOW)
        assert order == ["few", "many", "many"] or order == ["many", "few", "many"]
        assert (await worker.pending(now=NOW)).count == 18


async def test_a_damaged_file_holds_up_nobody_elses_jobs(uri, tmp_path):
    async with await open_store(uri) as store:
        scopes = [Scope(tenant, "ada", "notes") for tenant in ("bad", "good")]
        await store.enqueue([a_job(scope) for scope in scopes])
    (tmp_path / "stores" / "bad.db").write_bytes(b"no database " * 500)
    async with await open_store(uri) as store:
        job = await store.claim("me", now=NOW, lease_seconds=30)
        assert job.scope.tenant == "good"
        with pytest.raises(ConfigurationError):
            await store.claim("me", now=NOW, lease_seconds=30)
        with pytest.raises(ConfigurationError):
            await store.prune(now=NOW, popular_after=10)


async def test_no_job_is_lost_by_a_look_that_comes_before_it_is_written(uri, tmp_path):
    async with await open_store(uri) as store:
        await keep(store, "acme", "x")
        await store._note("acme", NOW)  # and here the process that noted it stops for a while
        assert await store.claim("me", now=NOW, lease_seconds=30) is None
        with closing(sqlite3.connect(tmp_path / "stores" / "@tenants.db")) as catalogue:
            [(tenant, due)] = catalogue.execute("SELECT tenant, look_at FROM tenant_work")
        assert tenant == "acme"
        assert 30 < (datetime.fromisoformat(due) - datetime.now(UTC)).total_seconds() <= 60


async def test_the_queue_forgets_a_file_without_jobs_once_its_note_is_old(uri, tmp_path):
    async with await open_store(uri) as store:
        scope, _ = await keep(store, "acme", "x")
        await store.enqueue([a_job(scope)])
        job = await store.claim("me", now=NOW, lease_seconds=30)
        await store.apply(scope, Batch(job=(job.id, job.fence)), now=NOW)
        with sqlite3.connect(tmp_path / "stores" / "@tenants.db") as catalogue:
            catalogue.execute("UPDATE tenant_work SET noted_at = '2020'")
        assert await store.claim("me", now=NOW, lease_seconds=30) is None
        assert catalogue.execute("SELECT count(*) FROM tenant_work").fetchall() == [(0,)]
        catalogue.close()


async def test_a_file_with_jobs_that_is_put_here_is_worked_on_after_the_next_prune(uri, tmp_path):
    async with await open_store(uri) as store:
        await store.enqueue([a_job(Scope("acme", "ada", "notes"))])
    for path in (tmp_path / "stores").glob("@tenants.db*"):
        path.unlink()
    async with await open_store(uri) as store:
        assert await store.claim("me", now=NOW, lease_seconds=30) is None
        await store.prune(now=NOW, popular_after=10)
        assert (await store.claim("me", now=NOW, lease_seconds=30)).scope.tenant == "acme"


# -- above the store ----------------------------------------------------------------------------


async def test_memories_work_on_files_as_on_one_and_the_doctor_knows_them(uri, tmp_path):
    assert [one.state for one in await examine(uri)] == ["ok", "note"]
    assert files(tmp_path) == []
    async with await Memories.open(uri, worker=False) as memories:
        for tenant in ("acme", "globex"):
            await memories.add(Scope(tenant, "ada", "notes"), [f"{tenant} likes green tea"])
        found = await memories.recall(Scope("acme", "ada", "notes"), "green tea")
        assert [hit.memory.content for hit in found.hits] == ["acme likes green tea"]
        assert (await memories.forget_tenant("acme", who="test")).done
        assert [scope.tenant for scope in await memories.scopes()] == ["globex"]
        assert {one.defect for one in (await memories.audit()).findings} <= {"never_delivered"}
    found = await examine(uri)
    assert {one.part: one.state for one in found}["database"] == "ok"
    assert any("1 tenants' files" in one.text for one in found)
