"""The durable queue: leases and fences, one running job a scope, dead letters, timers that coalesce."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest

from ..errors import Conflict, InvalidInput, NotFound
from ..records import Scope
from ..stores.base import Batch, Job, PendingJobs, Store
from .fixtures import BEYOND_INT32, DAY, NOW, SECOND, ContractPart, a_job, a_memory, a_scope, adding, contents

LATER = NOW + 30 * SECOND


async def claimed(store: Store, owner: str = "me", **values: Any) -> Job:
    """The next job, which there must be."""
    asked: dict[str, Any] = {"now": NOW, "lease_seconds": 30, **values}
    job = await store.claim(owner, **asked)
    assert job is not None
    return job


async def ended_and_claimed(store: Store, owner: str) -> Job:
    """The job whose lease ends at this moment."""
    async with asyncio.timeout(60):
        while (job := await store.claim(owner, now=NOW, lease_seconds=30)) is None:  # noqa: ASYNC110 its end is no event
            await asyncio.sleep(0.01)
    return job


async def queued(store: Store, scope: Scope, **values: Any) -> Job:
    """A job that was just queued."""
    job = a_job(scope, **values)
    await store.enqueue([job])
    return job


class QueueContract(ContractPart):
    """A job is done once, by one worker at a time, and never lost."""

    async def test_a_queued_job_comes_back_whole(self, store: Store) -> None:
        scope = a_scope()
        payload = {"text": "it's \u2028 \U0001f9e0", "list": [1, None, True, 2.5], "big": 2**53 + 1}
        job = a_job(
            scope, "consolidate", session_id="s", key="k", payload=payload, provider="llm", model="m", calls=2, tokens=9
        )
        await store.enqueue([job])
        assert list(await store.jobs(scope=scope)) == [job]
        assert list(await store.jobs(id=job.id)) == [job]

    async def test_the_oldest_due_job_is_claimed_first(self, store: Store) -> None:
        times = [NOW - n * SECOND for n in (5, 9, 1)]
        jobs = [a_job(a_scope(), run_after=at, created_at=at) for at in times]
        await store.enqueue(jobs)
        order = [(await claimed(store)).id for _ in jobs]
        assert order == [jobs[1].id, jobs[0].id, jobs[2].id]
        assert await store.claim("me", now=NOW, lease_seconds=30) is None

    async def test_scopes_take_turns_however_long_one_of_them_has_queued(self, store: Store) -> None:
        many, few, one = a_scope(), a_scope(), a_scope()
        await store.enqueue([a_job(many, created_at=NOW - DAY + n * SECOND) for n in range(50)])
        await store.enqueue([a_job(few, created_at=NOW - n * SECOND) for n in (3, 2)])
        order: list[Scope] = []
        for turn in range(6):
            if turn == 3:
                await queued(store, one)
            job = await claimed(store)
            order.append(job.scope)
            assert await store.end(job.id, job.fence)
        assert order == [many, few, many, one, few, many]

    async def test_what_was_tried_before_waits_for_what_is_new(self, store: Store) -> None:
        old = await queued(store, a_scope(), created_at=NOW - DAY)
        assert await store.release(await claimed(store), run_after=NOW, error="model away")
        new = [await queued(store, a_scope(), created_at=NOW - n * SECOND) for n in (1, 2)]
        assert [(await claimed(store)).id for _ in range(3)] == [new[1].id, new[0].id, old.id]

    async def test_a_claim_leases_the_job_and_moves_its_fence(self, store: Store) -> None:
        job = await queued(store, a_scope())
        taken = await claimed(store, "worker 1")
        assert (taken.id, taken.state, taken.owner, taken.attempts) == (job.id, "running", "worker 1", 1)
        assert taken.fence > job.fence
        assert taken.lease_until is not None
        assert abs(taken.lease_until - datetime.now(UTC) - 30 * SECOND) < 20 * SECOND  # the clock of the database
        assert list(await store.jobs(state="running")) == [taken]
        assert list(await store.jobs(state="queued")) == []

    async def test_a_job_is_not_claimed_before_it_is_due(self, store: Store) -> None:
        job = await queued(store, a_scope(), run_after=LATER)
        assert await store.claim("me", now=LATER - SECOND, lease_seconds=30) is None
        assert (await claimed(store, now=LATER)).id == job.id

    async def test_one_scope_has_one_running_job_and_others_go_on(self, store: Store) -> None:
        scope, other = a_scope(), a_scope()
        await store.enqueue([a_job(scope), a_job(scope), a_job(other, created_at=LATER)])
        first = await claimed(store)
        assert first.scope == scope
        assert (await claimed(store)).scope == other
        assert await store.claim("me", now=NOW, lease_seconds=30) is None
        await store.apply(scope, Batch(job=(first.id, first.fence)), now=NOW)
        assert (await claimed(store)).scope == scope

    async def test_after_its_lease_a_job_goes_to_the_next_and_the_first_can_do_nothing_more(self, store: Store) -> None:
        scope = a_scope()
        await queued(store, scope)
        first = await claimed(store, "killed")
        for clock in (NOW, LATER + SECOND, NOW + 365 * DAY):  # whatever a worker takes the time to be
            assert await store.claim("next", now=clock, lease_seconds=30) is None
        assert await store.renew(first, lease_seconds=0.01)
        second = await ended_and_claimed(store, "next")
        assert (second.id, second.attempts, second.owner) == (first.id, 2, "next")
        assert second.fence > first.fence
        assert not await store.renew(first, lease_seconds=30)
        assert not await store.release(first, run_after=LATER, error="late")
        batch = Batch(changes=adding(a_memory("too late")), job=(first.id, first.fence))
        with pytest.raises(Conflict):
            await store.apply(scope, batch, now=LATER)
        assert await contents(store, scope) == []
        await store.apply(scope, Batch(changes=adding(a_memory("in time")), job=(second.id, second.fence)), now=LATER)
        assert await contents(store, scope) == ["in time"]
        assert list(await store.jobs()) == []

    async def test_a_renewed_lease_holds_longer(self, store: Store) -> None:
        await queued(store, a_scope())
        job = await claimed(store, lease_seconds=0.5)
        assert await store.renew(job, lease_seconds=300)
        await asyncio.sleep(0.6)
        assert await store.claim("other", now=LATER, lease_seconds=30) is None
        assert await store.renew(job, lease_seconds=0.01)
        assert (await ended_and_claimed(store, "other")).id == job.id

    async def test_a_finished_job_is_gone_and_cannot_be_finished_renewed_or_released_again(self, store: Store) -> None:
        scope = a_scope()
        await queued(store, scope)
        job = await claimed(store)
        finish = Batch(changes=adding(a_memory("done")), job=(job.id, job.fence), taken=[("s", "e")])
        await store.apply(scope, finish, now=NOW)
        with pytest.raises(Conflict):
            await store.apply(scope, replace(finish, changes=(), taken=()), now=NOW)
        assert not await store.renew(job, lease_seconds=30)
        assert not await store.release(job, run_after=NOW, error="late")
        assert list(await store.jobs()) == []

    async def test_follow_on_jobs_are_queued_with_the_batch(self, store: Store) -> None:
        scope = a_scope()
        await queued(store, scope)
        job, follow = await claimed(store), a_job(scope, "embed")
        await store.apply(scope, Batch(job=(job.id, job.fence), jobs=[follow]), now=NOW)
        assert list(await store.jobs()) == [follow]

    async def test_a_released_job_waits_keeps_its_costs_and_counts_its_attempts(self, store: Store) -> None:
        await queued(store, a_scope(), payload={"part": 1})
        job = await claimed(store)
        spent = replace(job, calls=3, tokens=500)
        assert await store.release(spent, run_after=LATER, error="model away", payload={"part": 2})
        (waiting,) = await store.jobs()
        assert (waiting.state, waiting.error, waiting.calls, waiting.tokens) == ("queued", "model away", 3, 500)
        assert (dict(waiting.payload), waiting.attempts, waiting.run_after) == ({"part": 2}, 1, LATER)
        assert await store.claim("me", now=NOW, lease_seconds=30) is None
        again = await claimed(store, now=LATER)
        assert (again.attempts, dict(again.payload)) == (2, {"part": 2})
        assert await store.release(again, run_after=NOW, error="")
        assert dict((await store.jobs())[0].payload) == {"part": 2}

    async def test_a_dead_letter_lies_until_it_is_retried(self, store: Store) -> None:
        scope = a_scope()
        await queued(store, scope)
        job = await claimed(store)
        assert await store.release(replace(job, failures=5), run_after=NOW, error="hopeless", dead=True)
        assert await store.claim("me", now=LATER, lease_seconds=30) is None
        (dead,) = await store.jobs(state="dead")
        assert (dead.id, dead.error) == (job.id, "hopeless")
        assert (await store.stats(scope, now=NOW)).jobs == {"dead": 1}
        await store.retry(job.id, now=LATER)
        again = await claimed(store, now=LATER)
        assert (again.id, again.attempts, again.failures) == (job.id, 1, 0)
        assert again.fence > job.fence

    async def test_only_dead_letters_are_retried_and_running_jobs_are_not_dropped(self, store: Store) -> None:
        job = await queued(store, a_scope())
        for id in (job.id, "unknown"):
            with pytest.raises(NotFound):
                await store.retry(id, now=NOW)
        running = await claimed(store)
        for id in (running.id, "unknown"):
            with pytest.raises(NotFound):
                await store.drop(id)
        assert await store.release(running, run_after=NOW, error="", dead=True)
        await store.drop(job.id)
        assert list(await store.jobs()) == []

    async def test_queued_jobs_of_one_key_become_the_latest(self, store: Store) -> None:
        scope = a_scope()
        await queued(store, scope, kind="session_end", key="s", payload={"n": 1})
        await queued(store, scope, kind="session_end", key="s", payload={"n": 2}, run_after=LATER)
        (timer,) = await store.jobs(scope=scope)
        assert (dict(timer.payload), timer.run_after) == ({"n": 2}, LATER)
        await queued(store, scope, kind="session_end", key="t")
        await queued(store, scope, kind="transcript", key="s")
        await queued(store, a_scope(), kind="session_end", key="s")
        assert len(await store.jobs()) == 4

    async def test_the_messages_of_coalescing_jobs_are_united_in_the_order_of_their_times(self, store: Store) -> None:
        scope = a_scope()

        def said(*events: str, **values: Any) -> dict[str, Any]:
            at = [(NOW + int(event[1:]) * SECOND).isoformat() for event in events]
            return {
                "messages": [{"text": e, "event_id": e, "at": a} for e, a in zip(events, at, strict=True)],
                **values,
            }

        payloads = (said("e3", n=1), said("e1", "e2", n=2), said("e2", "e4"), said(), said("e9", n=9))
        for number, payload in enumerate(payloads[:4]):
            later = NOW + number * SECOND
            await queued(store, scope, kind="session_end", session_id="s", key="s", payload=payload, run_after=later)
        (timer,) = await store.jobs(scope=scope)
        assert dict(timer.payload) == said("e1", "e2", "e3", "e4")
        assert timer.run_after == NOW + 3 * SECOND
        await claimed(store, now=LATER)
        await queued(store, scope, kind="session_end", session_id="s", key="s", payload=payloads[4])
        assert [dict(job.payload) for job in await store.jobs(state="queued")] == [payloads[4]]
        both = [a_job(scope, session_id="t", key="t", payload=payload) for payload in payloads[:2]]
        await store.enqueue(both)
        (folded,) = [job for job in await store.jobs(scope=scope) if job.session_id == "t"]
        assert (folded.id, dict(folded.payload)) == (both[0].id, said("e1", "e2", "e3", n=2))

    async def test_messages_that_do_not_tell_their_time_keep_the_order_in_which_they_came(self, store: Store) -> None:
        scope = a_scope()
        first, again, new, bare = (
            {"text": text, "event_id": event, "at": at}
            for text, event, at in (
                ("first", "e1", None),
                ("again", "e1", "2026-01-01T00:00:00+00:00"),
                ("new", "e2", "2025-01-01T00:00:00+00:00"),
                ("bare", "", None),
            )
        )
        for messages in ([first, bare], [again, new, bare]):
            await queued(store, scope, session_id="s", key="k", payload={"messages": messages})
        (job,) = await store.jobs(scope=scope)
        assert [message["text"] for message in job.payload["messages"]] == ["first", "bare", "new", "bare"]

    async def test_what_was_taken_in_or_forgotten_in_between_is_not_queued(self, store: Store) -> None:
        scope = a_scope()
        gone = a_memory("a secret", event_ids=("e2",))
        await store.apply(scope, Batch(changes=adding(gone), taken=[("s", "e1")]), now=NOW)
        await store.forget(scope, ids=[gone.id], now=NOW)
        messages = [{"text": f"said {event}", "event_id": event} for event in ("e1", "e2", "e3")]
        for key in ("", "k", "k"):
            await queued(store, scope, session_id="s", key=key, payload={"messages": messages, "ended": True})
        await queued(store, scope, session_id="other", payload={"messages": messages})
        told = [[one["event_id"] for one in job.payload["messages"]] for job in await store.jobs(scope=scope)]
        assert sorted(told) == [["e1", "e3"], ["e3"], ["e3"]]

    async def test_timers_armed_at_once_lose_no_message(self, store: Store) -> None:
        for number in range(10):
            scope = a_scope()
            payloads = [{"messages": [{"text": f"turn {n}", "event_id": f"e{n}"}]} for n in range(8)]
            jobs = [a_job(scope, "session_end", session_id="s", key="s", payload=payload) for payload in payloads]
            await asyncio.gather(*(store.enqueue([job]) for job in jobs))
            (timer,) = await store.jobs(scope=scope)
            assert {one["event_id"] for one in timer.payload["messages"]} == {f"e{n}" for n in range(8)}, number

    async def test_jobs_without_a_key_never_coalesce(self, store: Store) -> None:
        scope = a_scope()
        await store.enqueue([a_job(scope), a_job(scope)])
        await store.apply(scope, Batch(jobs=[a_job(scope)]), now=NOW)
        assert len(await store.jobs(scope=scope)) == 3

    async def test_a_running_job_is_left_alone_by_a_new_one_of_its_key(self, store: Store) -> None:
        scope = a_scope()
        await queued(store, scope, key="k", payload={"n": 1})
        running = await claimed(store)
        await queued(store, scope, key="k", payload={"n": 2})
        assert list(await store.jobs(state="running")) == [running]
        (waiting,) = await store.jobs(state="queued")
        assert dict(waiting.payload) == {"n": 2}

    async def test_jobs_that_a_worker_cannot_run_are_left_to_others(self, store: Store) -> None:
        foreign = a_job(a_scope(), provider="custom", model="m1", created_at=NOW - SECOND)
        mine = a_job(a_scope(), provider="custom", model="m2")
        plain = a_job(a_scope(), created_at=NOW + SECOND)
        await store.enqueue([foreign, mine, plain])
        exclude = [("custom", "m1"), ("other", "m2")]
        assert {(await claimed(store, exclude=exclude)).id for _ in range(2)} == {mine.id, plain.id}
        assert await store.claim("me", now=NOW, lease_seconds=30, exclude=exclude) is None
        assert (await claimed(store)).id == foreign.id

    async def test_jobs_are_listed_by_scope_and_state_oldest_first(self, store: Store) -> None:
        scope, other = a_scope(), a_scope()
        jobs = [a_job(scope, created_at=NOW + n * SECOND) for n in (2, 0, 1)]
        await store.enqueue([*jobs, a_job(other)])
        listed = [job.id for job in await store.jobs(scope=scope)]
        assert listed == [jobs[1].id, jobs[2].id, jobs[0].id]
        assert [job.id for job in await store.jobs(scope=scope, limit=1)] == listed[:1]
        assert list(await store.jobs(scope=scope, limit=0)) == []
        assert len(await store.jobs(limit=BEYOND_INT32)) == 4
        assert list(await store.jobs(id="unknown")) == []
        assert list(await store.jobs(scope=other, id=jobs[0].id)) == []

    async def test_jobs_are_narrowed_by_the_parts_of_their_scopes_before_the_limit(self, store: Store) -> None:
        payload = {"messages": [{"text": "said", "event_id": "e"}]}
        scopes = [Scope(tenant, user, app) for tenant in ("", "t") for user in ("u", "v") for app in ("a", "b")]
        jobs = [a_job(scope, created_at=NOW + n * SECOND, payload=payload) for n, scope in enumerate(scopes * 2)]
        await store.enqueue(jobs)
        for tenant, user, app in product(("", "t", "x", None), ("v", None), ("b", None)):
            asked = {"tenant": tenant, "user": user, "app": app}
            fitting = [job for job in jobs if all(v in (None, getattr(job.scope, k)) for k, v in asked.items())]
            assert list(await store.jobs(tenant=tenant, user=user, app=app)) == fitting
            bare = await store.jobs(tenant=tenant, user=user, app=app, limit=3, payloads=False)
            assert list(bare) == [replace(job, payload={}) for job in fitting[:3]]
        assert list(await store.jobs(scope=scopes[0], user="v")) == []
        with pytest.raises(InvalidInput):
            await store.jobs(user="a\0")

    async def test_the_waiting_job_of_a_key_is_found_while_it_is_queued(self, store: Store) -> None:
        scope = a_scope()
        timer = await queued(store, scope, kind="session_end", key="s")
        assert await store.waiting(scope, "session_end", "s") == timer
        assert await store.waiting(a_scope(), "session_end", "s") is None
        assert await store.waiting(scope, "embed", "s") is None
        assert await store.waiting(scope, "session_end", "t") is None
        await claimed(store)
        assert await store.waiting(scope, "session_end", "s") is None

    async def test_open_jobs_are_those_that_an_accepted_save_still_waits_for(self, store: Store) -> None:
        assert await store.pending(now=NOW) == PendingJobs()
        dead = await queued(store, a_scope(), now=NOW - DAY)
        assert await store.release(await claimed(store), run_after=NOW, error="", dead=True)
        running = await queued(store, a_scope(), now=NOW - DAY)
        assert (await claimed(store)).id == running.id != dead.id
        kinds = ("transcript", "embed", "session_end", "consolidate")
        await store.enqueue([a_job(a_scope(), kind) for kind in kinds])
        await store.enqueue([a_job(a_scope(), kind, run_after=LATER) for kind in kinds])
        await store.enqueue([oldest := a_job(a_scope(), created_at=NOW - 2 * DAY)])
        assert await store.pending(now=NOW) == PendingJobs(count=7, oldest_at=oldest.created_at)
        assert await store.pending(now=LATER) == PendingJobs(count=8, oldest_at=oldest.created_at)

    async def test_a_session_end_that_failed_is_open_until_it_is_set_anew(self, store: Store) -> None:
        scope, later = a_scope(), NOW + DAY
        await queued(store, scope, kind="session_end", key="s")
        failed = replace(await claimed(store), failures=1)
        assert await store.release(failed, run_after=later, error="model away")
        assert await store.pending(now=NOW) == PendingJobs(count=1, oldest_at=failed.created_at)
        assert (await store.stats(scope, now=NOW)).oldest_job_at == failed.created_at
        await queued(store, scope, kind="session_end", key="s", run_after=later)
        assert await store.pending(now=NOW) == PendingJobs()
        (timer,) = await store.jobs(scope=scope)
        assert (timer.attempts, timer.failures, timer.error) == (0, 0, "")

    async def test_the_age_of_the_oldest_open_job_is_told(self, store: Store) -> None:
        scope = a_scope()
        assert (await store.stats(scope, now=NOW)).oldest_job_at is None
        await store.enqueue([a_job(scope, "consolidate"), a_job(scope, "session_end", run_after=LATER)])
        assert (await store.stats(scope, now=NOW)).oldest_job_at is None
        await store.enqueue([a_job(scope, created_at=NOW - n * DAY) for n in (2, 3, 1)])
        assert (await store.stats(scope, now=NOW)).oldest_job_at == NOW - 3 * DAY
        assert await store.release(await claimed(store), run_after=LATER, error="", dead=True)
        assert (await store.stats(scope, now=NOW)).oldest_job_at == NOW - 2 * DAY
        await store.enqueue([a_job(a_scope(), created_at=NOW - 9 * DAY)])
        assert (await store.stats(scope, now=NOW)).oldest_job_at == NOW - 2 * DAY

    async def test_a_release_keeps_the_attempts_that_it_is_given(self, store: Store) -> None:
        await queued(store, a_scope())
        counted = replace(await claimed(store), attempts=0, failures=3)
        assert await store.release(counted, run_after=NOW, error="no fault of its own")
        (job,) = await store.jobs()
        assert (job.attempts, job.failures) == (0, 3)
        assert (await claimed(store)).failures == 3

    async def test_a_named_lease_is_held_by_one_until_it_ends(self, store: Store) -> None:
        assert await store.lease("prune", "a", seconds=0.5)
        assert await store.lease("other", "b", seconds=30)
        assert await store.lease("prune", "a", seconds=300)
        await asyncio.sleep(0.6)
        assert not await store.lease("prune", "b", seconds=30)
        assert await store.lease("prune", "a", seconds=0.01)
        await asyncio.sleep(0.05)
        assert await store.lease("prune", "b", seconds=30)
        assert not await store.lease("prune", "a", seconds=30)
