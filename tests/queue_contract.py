"""The contract of the parts beside the memories: the durable queue with its leases, tokens and
receipts.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from kagent_memory.errors import Conflict, InvalidInput, NotFound
from kagent_memory.records import Scope, new_id
from kagent_memory.stores.values import Batch, Job, JobKind, PendingJobs, Token
from kagent_memory.testing.fixtures import (
    BEYOND_INT32,
    DAY,
    NOW,
    SECOND,
    ContractPart,
    ScopedStore,
    a_job,
    a_memory,
    adding,
)

LATER = NOW + 30 * SECOND
KINDS: tuple[JobKind, ...] = ("transcript", "session_end", "embed")


async def claim_when_its_lease_ends(home: ScopedStore, owner: str) -> Job:
    """Claim the job whose lease ends at this moment."""
    async with asyncio.timeout(60):
        while (job := await home.try_claim(owner)) is None:  # noqa: ASYNC110 its end is no event
            await asyncio.sleep(0.01)
    return job


def messages(*events: str, **values: Any) -> dict[str, Any]:
    """Return a payload whose message "e3" was said three seconds after NOW."""
    turns = [
        {"text": e, "event_id": e, "at": (NOW + int(e[1:]) * SECOND).isoformat()} for e in events
    ]
    return {"messages": turns, **values}


async def claim_all(home: ScopedStore, owner: str) -> list[Job]:
    """Claim until there is nothing left to claim; return the jobs."""
    claimed: list[Job] = []
    while job := await home.try_claim(owner):
        claimed.append(job)
    return claimed


async def release(home: ScopedStore, job: Job, error: str = "away", **values: Any) -> None:
    """Give a claimed job back, as its worker may."""
    assert await home.store.queue.release(job, **{"run_after": NOW, "error": error, **values})


async def end(home: ScopedStore, job: Job) -> bool:
    try:
        await home.store.apply(job.scope, Batch(job=(job.id, job.fence)), now=NOW)
    except Conflict:
        return False
    return True


async def assert_over(home: ScopedStore, *jobs: Job) -> None:
    """Assert that whoever claimed these jobs can do nothing more with them."""
    queue = home.store.queue
    for job in jobs:
        assert not await queue.renew(job, lease_seconds=30)
        assert not await queue.release(job, run_after=LATER, error="late")
        assert not await end(home, job)
        with pytest.raises(Conflict):
            await home.apply(*adding(a_memory("too late")), job=(job.id, job.fence))


class QueueContract(ContractPart):
    """A job is done once, by one worker at a time, and never lost."""

    async def test_the_oldest_due_job_is_claimed_first(self, home: ScopedStore) -> None:
        """New jobs come before tried ones, and due jobs before those that are not."""
        first, second, third = [
            await home.elsewhere().enqueue(run_after=NOW - n * SECOND, created_at=NOW - n * SECOND)
            for n in (9, 5, 1)
        ]
        later = await home.elsewhere().enqueue(created_at=NOW - DAY, run_after=LATER)
        tried = await home.claim()
        await release(home, tried)
        done = await home.claim()
        assert await end(home, done)
        new = await home.elsewhere(done.scope).enqueue()
        assert [tried.id, done.id] == [first.id, second.id]
        assert [(await home.claim()).id for _ in range(3)] == [third.id, new.id, first.id]
        assert await home.try_claim(now=LATER - SECOND) is None
        assert (await home.claim(now=LATER)).id == later.id

    async def test_scopes_take_turns(self, home: ScopedStore) -> None:
        """However long one of them has queued."""
        many, few, one = home, home.elsewhere(), home.elsewhere()
        await home.store.queue.enqueue(
            [a_job(many.scope, created_at=NOW - DAY + n * SECOND) for n in range(50)]
        )
        await home.store.queue.enqueue(
            [a_job(few.scope, created_at=NOW - n * SECOND) for n in (3, 2)]
        )
        order: list[Scope] = []
        for turn in range(6):
            if turn == 3:
                await one.enqueue()
            job = await home.claim()
            order.append(job.scope)
            assert await end(home, job)
        assert order == [turn.scope for turn in (many, few, many, one, few, many)]

    async def test_after_its_lease_a_job_goes_to_the_next(self, home: ScopedStore) -> None:
        """Not before, whatever a worker takes the time to be; neither can do more with it once it
        is done, and the jobs that follow came with its batch.
        """
        await home.enqueue()
        first, follow = await home.claim("killed", lease_seconds=0.5), a_job(home.scope, "embed")
        assert await home.jobs(state="running") == [first]
        assert (first.owner, first.attempts) == ("killed", 1)
        assert await home.store.queue.renew(first, lease_seconds=300)
        await asyncio.sleep(0.6)
        for clock in (NOW, LATER + SECOND, NOW + 365 * DAY):
            assert await home.try_claim("next", now=clock) is None
        assert await home.store.queue.renew(first, lease_seconds=0.01)
        second = await claim_when_its_lease_ends(home, "next")
        assert (second.id, second.attempts, second.owner) == (first.id, 2, "next")
        assert second.fence > first.fence
        await assert_over(home, first)
        done: Any = {"job": (second.id, second.fence), "jobs": [follow], "taken": [("s", "e")]}
        await home.apply(*adding(a_memory("in time")), **done)
        await assert_over(home, first, second)
        assert (await home.contents(), await home.jobs()) == (["in time"], [follow])

    async def test_a_released_job_waits_with_what_it_is_given(self, home: ScopedStore) -> None:
        """Its costs, attempts, failures, error and payload are kept till it is due again."""
        await home.enqueue(payload={"part": 1})
        spent = replace(await home.claim(), calls=3, tokens=500)
        await release(home, spent, run_after=LATER)
        [waiting] = await home.jobs()
        given = replace(spent, state="queued", error="away", run_after=LATER)
        assert waiting == replace(given, owner="", lease_until=None)
        assert await home.try_claim() is None
        again = replace(await home.claim(now=LATER), attempts=0, failures=3)
        await release(home, again, "")
        [waiting] = await home.jobs()
        assert (dict(waiting.payload), waiting.attempts, waiting.failures) == ({"part": 1}, 0, 3)

    async def test_a_dead_letter_lies_until_it_is_retried(self, home: ScopedStore) -> None:
        """As if it had never failed; only dead letters are retried, and running jobs are not
        dropped.
        """
        store, job = home.store, await home.enqueue()
        for id in (job.id, "unknown"):
            with pytest.raises(NotFound):
                await store.queue.retry(id, now=NOW)
        running = await home.claim()
        for id in (job.id, "unknown"):
            with pytest.raises(NotFound):
                await store.queue.drop(id)
        await release(home, replace(running, failures=5), "hopeless", dead=True)
        assert await home.try_claim(now=LATER) is None
        [dead] = await home.jobs(state="dead")
        assert (dead.id, dead.error, (await home.stats()).jobs) == (job.id, "hopeless", {"dead": 1})
        await store.queue.retry(job.id, now=LATER)
        again = await home.claim(now=LATER)
        assert (again.id, again.attempts, again.failures) == (job.id, 1, 0)
        assert again.fence > running.fence
        await release(home, again, dead=True)
        await store.queue.drop(job.id)
        assert await home.jobs() == []

    async def test_queued_jobs_of_one_key_become_the_latest(self, home: ScopedStore) -> None:
        """Of one scope, kind and key alone; without a key they never coalesce, and a running one is
        left alone.
        """
        await home.enqueue("session_end", key="s", payload={"n": 1})
        await home.enqueue("session_end", key="s", payload={"n": 2}, run_after=LATER)
        [timer] = await home.jobs()
        assert (dict(timer.payload), timer.run_after) == ({"n": 2}, LATER)
        await home.enqueue("session_end", key="t")
        await home.enqueue("transcript", key="s")
        await home.store.queue.enqueue([a_job(home.scope), a_job(home.scope)])
        await home.apply(jobs=[a_job(home.scope)])
        assert len(await home.jobs()) == 6
        other = home.elsewhere()
        first = await other.enqueue("session_end", key="s", created_at=NOW - DAY)
        running = await home.claim()
        await other.enqueue("session_end", key="s", payload={"n": 3})
        assert running.id == first.id
        assert await other.jobs(state="running") == [running]
        assert [dict(job.payload) for job in await other.jobs(state="queued")] == [{"n": 3}]

    async def test_messages_of_one_key_are_united_by_their_times(self, home: ScopedStore) -> None:
        """Each event once, in the order of the times, whether they come in one call or in many."""
        payloads = messages("e3", n=1), messages("e1", "e2", n=2), messages("e2", "e4"), messages()
        for number, payload in enumerate(payloads):
            given = {"payload": payload, "run_after": NOW + number * SECOND}
            await home.enqueue("session_end", session_id="s", key="s", **given)
        [timer] = await home.jobs()
        assert timer.payload == messages("e1", "e2", "e3", "e4")
        assert timer.run_after == NOW + 3 * SECOND
        both = [a_job(home.scope, "embed", key="t", payload=payload) for payload in payloads[:2]]
        await home.store.queue.enqueue(both)
        [folded] = [job for job in await home.jobs() if job.key == "t"]
        assert (folded.id, folded.payload) == (both[0].id, messages("e1", "e2", "e3", n=2))

    async def test_taken_and_forgotten_events_are_not_queued(self, home: ScopedStore) -> None:
        """Events that were taken in or forgotten since the caller looked are left out."""
        [gone] = await home.write("a secret", event_ids=("e2",))
        await home.apply(taken=[("s", "e1")])
        await home.forget(gone.id)
        for session, key in (("s", ""), ("s", "k"), ("s", "k"), ("other", "")):
            await home.enqueue(
                session_id=session, key=key, payload=messages("e1", "e2", "e3", ended=True)
            )
        queued = [
            [message["event_id"] for message in job.payload["messages"]]
            for job in await home.jobs()
        ]
        assert sorted(queued) == [["e1", "e3"], ["e3"], ["e3"]]

    async def test_jobs_that_a_worker_cannot_run_are_left(self, home: ScopedStore) -> None:
        """Those of the pairs of provider and model that it excludes."""
        foreign, mine, plain = [
            await home.elsewhere().enqueue(
                created_at=NOW + n * SECOND, provider=provider, model=model
            )
            for n, (provider, model) in enumerate((("custom", "m1"), ("custom", "m2"), ("", "")))
        ]
        exclude = [("custom", "m1"), ("other", "m2")]
        assert [(await home.claim(exclude=exclude)).id for _ in range(2)] == [mine.id, plain.id]
        assert await home.try_claim(exclude=exclude) is None
        assert (await home.claim()).id == foreign.id

    async def test_jobs_are_listed_oldest_first_and_whole(self, home: ScopedStore) -> None:
        """With every field and any JSON; narrowed by scope, its parts and id before the limit, on
        request without payloads.
        """
        listed = home.store.queue.jobs
        payload = {"text": "it's \u2028 \U0001f9e0", "list": [1, None, True, 2.5], "big": 2**53 + 1}
        values: dict[str, Any] = {"provider": "llm", "model": "m", "calls": 2, "tokens": 9}
        values |= {"payload": payload, "session_id": "s"}
        scopes = [Scope(tenant, user, "a") for tenant in ("", "t") for user in ("u", "v")]
        jobs = [
            a_job(scope, "session_end", created_at=NOW + n * SECOND, key=f"k{n}", **values)
            for n, scope in enumerate(scopes * 2)
        ]
        await home.store.queue.enqueue(jobs[::-1])
        for tenant, user in product(("", "t", "x", None), ("v", None)):
            fitting = [
                job
                for job in jobs
                if tenant in (None, job.scope.tenant) and user in (None, job.scope.user)
            ]
            assert list(await listed(tenant=tenant, user=user)) == fitting
            bare = await listed(tenant=tenant, user=user, limit=3, payloads=False)
            assert list(bare) == [replace(job, payload={}) for job in fitting[:3]]
        assert list(await listed(scope=scopes[0], limit=BEYOND_INT32)) == [jobs[0], jobs[4]]
        assert list(await listed(id=jobs[1].id)) == [jobs[1]]
        nothing: dict[str, Any]
        for nothing in ({"limit": 0}, {"app": "b"}, {"scope": scopes[0], "id": jobs[1].id}):
            assert list(await listed(**nothing)) == []
        with pytest.raises(InvalidInput):
            await listed(user="a\0")

    async def test_the_waiting_job_of_a_key_is_found(self, home: ScopedStore) -> None:
        """While it is queued, by its scope, kind and key."""
        timer, waiting = await home.enqueue("session_end", key="s"), home.store.queue.waiting
        assert await waiting(home.scope, "session_end", "s") == timer
        elsewhere = home.elsewhere().scope
        others: tuple[tuple[Scope, JobKind, str], ...] = (
            (elsewhere, "session_end", "s"),
            (home.scope, "embed", "s"),
            (home.scope, "session_end", "t"),
        )
        for other in others:
            assert await waiting(*other) is None
        await home.claim()
        assert await waiting(home.scope, "session_end", "s") is None

    async def test_pending_counts_what_a_save_waits_for(self, home: ScopedStore) -> None:
        """Open transcripts and embeddings and due session ends; no timers and dead letters."""
        pending = home.store.queue.pending
        assert (await pending(now=NOW), (await home.stats()).oldest_job_at) == (PendingJobs(), None)
        await home.enqueue(now=NOW - DAY)
        await release(home, await home.claim(), dead=True)
        await home.enqueue("embed", now=NOW - DAY)
        await home.claim()
        for kind in KINDS:
            await home.elsewhere().enqueue(kind)
            await home.elsewhere().enqueue(kind, run_after=LATER)
        assert (await home.stats()).oldest_job_at == NOW - DAY
        oldest = await home.elsewhere().enqueue(created_at=NOW - 2 * DAY)
        assert await pending(now=NOW) == PendingJobs(count=7, oldest_at=oldest.created_at)
        assert await pending(now=LATER) == PendingJobs(count=8, oldest_at=oldest.created_at)
        assert (await home.stats()).oldest_job_at == NOW - DAY

    async def test_a_failed_session_end_is_open_until_set_anew(self, home: ScopedStore) -> None:
        """A timer that is armed again has failed at nothing yet."""
        await home.enqueue("session_end", key="s")
        failed, later = replace(await home.claim(), failures=1), NOW + DAY
        await release(home, failed, run_after=later)
        assert await home.store.queue.pending(now=NOW) == PendingJobs(
            count=1, oldest_at=failed.created_at
        )
        assert (await home.stats()).oldest_job_at == failed.created_at
        timer = await home.enqueue("session_end", key="s", run_after=later)
        assert await home.store.queue.pending(now=NOW) == PendingJobs()
        assert (await home.stats()).oldest_job_at is None
        [timer] = await home.jobs()
        assert (timer.attempts, timer.failures, timer.error) == (0, 0, "")

    async def test_a_named_lease_is_held_by_one_until_it_ends(self, home: ScopedStore) -> None:
        """Its holder may renew it, to sooner or to later."""
        lease = home.store.queue.lease
        assert await lease("prune", "a", seconds=0.5)
        assert await lease("other", "b", seconds=30)
        assert await lease("prune", "a", seconds=300)
        await asyncio.sleep(0.6)
        assert not await lease("prune", "b", seconds=30)
        assert await lease("prune", "a", seconds=0.01)
        await asyncio.sleep(0.05)
        assert await lease("prune", "b", seconds=30)
        assert not await lease("prune", "a", seconds=30)

    async def test_many_claimers_take_every_job_once(self, home: ScopedStore) -> None:
        """One of a scope at a time, and its next one when that is done; of eight that want a named
        lease one gets it.
        """
        scopes = [home.elsewhere().scope for _ in range(10)]
        jobs = [a_job(scope) for scope in scopes * 2]
        await home.store.queue.enqueue(jobs)
        claimers = (claim_all(home, f"worker {n}") for n in range(5))
        claimed = [job for some in await asyncio.gather(*claimers) for job in some]
        assert sorted(job.scope.id for job in claimed) == sorted(scope.id for scope in scopes)
        for job in claimed:
            assert await end(home, job)
        claimed += await claim_all(home, "last")
        assert sorted(job.id for job in claimed) == sorted(job.id for job in jobs)
        got = await asyncio.gather(
            *(home.store.queue.lease("prune", f"worker {n}", seconds=30) for n in range(8))
        )
        assert sorted(got) == [False] * 7 + [True]

    async def test_timers_armed_at_once_lose_no_message(self, home: ScopedStore) -> None:
        """Jobs of one key that are queued at once become one with the messages of all."""
        events = [f"e{n}" for n in range(8)]
        for _ in range(5):
            home = home.elsewhere()
            timer: Any = {"session_id": "s", "key": "s"}
            jobs = (home.enqueue("session_end", payload=messages(e), **timer) for e in events)
            await asyncio.gather(*jobs)
            [timer] = await home.jobs()
            assert timer.payload == messages(*events)

    async def test_a_token_is_found_till_it_is_dropped(self, home: ScopedStore) -> None:
        """By its digest, with every field; dropping it twice is NotFound."""
        tokens, now = home.store.tokens, home.now
        whole: Any = {"label": "ci", "tenant": "acme", "user": "ada", "expires_at": now + DAY}
        mine = Token(id=new_id(), digest="a", created_at=now, **whole)
        theirs = Token(id=new_id(), digest="b", tenant="", created_at=now, is_operator=True)
        for token in (mine, theirs):
            await tokens.add(token)
        assert [*await tokens.find(digest="a"), *await tokens.find(digest="b")] == [mine, theirs]
        await tokens.drop(mine.id)
        assert list(await tokens.find()) == [theirs]
        with pytest.raises(NotFound):
            await tokens.drop(mine.id)
