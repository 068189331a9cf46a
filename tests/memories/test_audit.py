"""An audit finds what is planted, all of it and nothing else, and quotes nothing of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kagent_memory import Fact, InvalidInput, Memories, NotFound, Scope, Scopes
from kagent_memory.memories.audit import DEFECTS, Audit
from kagent_memory.records import Memory, Revision, new_id
from kagent_memory.server.tokens import create_token
from kagent_memory.stores.values import Batch, Whole
from kagent_memory.testing import HashEmbedder
from memories import opening
from memories.opening import ADA, GRACE, START, TickingClock

OTHER = Scope("", "ada", "notes")
SECRET = "ghp_" + "a1B2" * 9
SOUND = [
    "Ada keeps bees behind the greenhouse",
    "The boat is called Meridian",
    "Grace teaches violin on Thursdays",
    "The spare key hangs beside the fuse box",
]


async def opened(uri: str = "libsql:///:memory:", **more: Any) -> Memories:
    clock = TickingClock(timedelta(milliseconds=1))
    return await opening.opened(uri, **{"embedding": HashEmbedder(), "clock": clock, **more})


def turn(text: str, event: str, **more: Any) -> Fact:
    return Fact(text, verbatim=True, event_ids=(event,), session_id="s", **more)


def old(content: str, **more: Any) -> Memory:
    """A memory as a version before redaction, or somebody's script, left it."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return Memory(id=new_id(at), content=content, created_at=at, updated_at=at, **more)


async def add_old(memories: Memories, scope: Scope, *ones: Memory) -> list[str]:
    """Puts them there past the redaction, with vectors."""
    now = memories.clock()
    assert set(
        await memories.store.memories.restore(scope, [Whole(memory) for memory in ones], now=now)
    ) == {"added"}
    vectors = await HashEmbedder().embed([memory.content for memory in ones], kind="document")
    vectors_by_id = dict(zip((memory.id for memory in ones), vectors, strict=True))
    await memories.store.apply(scope, Batch(vectors=vectors_by_id, space_number=1), now=now)
    return [memory.id for memory in ones]


async def fill(memories: Memories) -> dict[str, set[tuple[str, ...]]]:
    """Keep every defect in one scope; return which memories each is about."""
    add = memories.add
    await add(ADA, SOUND)
    turns = await add(
        ADA, [turn("Order oat milk", "e1"), turn("  Order   oat milk!", "e2"), turn("Yes", "e3")]
    )
    slots = [
        Fact(f"The report is due on {day}", subject="report", attribute="due")
        for day in ("Monday", "Friday", "Sunday")
    ]
    due = await add(ADA, slots)
    rides, eats = old("Ada rides her bike"), old("Hector eats shellfish", explicit=True)
    likes = old("Ada likes to ride", links=(rides.id,), said_at=START)
    vegan = old("Hector is a vegan", links=(eats.id,), said_at=START, valid_from=START)
    await add_old(memories, ADA, rides, likes, eats, vegan)
    [echo] = await add(ADA, [Fact("As I remember, the boat is called Meridian.", origin="agent")])
    edited = old("Deploy with care", revision=2)
    former = Revision(
        memory_id=edited.id,
        revision=1,
        kind="edit",
        before=replace(edited, content=SECRET, revision=1),
        at=START,
    )
    await memories.store.memories.restore(ADA, [Whole(edited, (former,))], now=START)
    (token, mail, both, labelled) = await add_old(
        memories,
        ADA,
        old(f"Deploy with {SECRET}"),
        old("Write to ada.l@example.org"),
        old(f"{SECRET} belongs to a.b@example.org", state="superseded"),
        old("Nothing to see here", metadata={"deep": [{"password": "hunter2hunter2"}]}),
    )
    return {
        "exact_duplicate": {tuple(turns[:2])},
        "near_duplicate": {(rides.id, likes.id)},
        "contradiction": {tuple(due), (eats.id, vegan.id)},
        "recall_loop": {(echo,)},
        "secret": {(token,), (both,), (labelled,), (edited.id,)},
        "personal_data": {(mail,), (both,)},
    }


def evidence(audit: Audit) -> dict[str, set[tuple[str, ...]]]:
    return {
        name: {finding.memory_ids for finding in audit.findings if finding.defect == name}
        for name in audit.counts
    }


async def test_exactly_what_was_planted_is_found(uri):
    """An audit finds each planted defect in its scope and nothing else, and quotes no memory."""
    async with await opened(uri) as memories:
        planted = await fill(memories)
        await memories.add(GRACE, SOUND)
        audit = await memories.audit(ADA)
        assert evidence(audit) == planted
        assert audit.counts == {name: len(planted[name]) for name in DEFECTS}
        assert (audit.scopes, audit.memories) == (1, 20)
        assert {finding.scope for finding in audit.findings} == {ADA}
        clean = await memories.audit(GRACE)
        assert clean.is_clean
        assert clean.counts == dict.fromkeys(DEFECTS, 0)
        assert not any(
            word in repr(audit)
            for word in (SECRET, "hunter2", "example.org", "Meridian", "shellfish")
        )
        for which in (None, Scopes(tenant="acme"), Scopes(tenant="acme", app="notes")):
            every = await memories.audit(which)
            assert (every.scopes, every.memories, every.findings) == (2, 24, audit.findings)
        assert (await memories.audit(Scopes(tenant="other"))).scopes == 0
        few = await memories.audit(ADA, defects=["personal_data", "secret"], most=1)
        assert few.counts == {"secret": 4, "personal_data": 2}
        assert [finding.defect for finding in few.findings] == ["personal_data", "secret"]


async def test_what_is_no_defect_is_not_found():
    """Memories that merely look like a defect give no finding."""
    async with await opened() as memories:
        await memories.add(
            ADA,
            [
                "Ada has 2 cats", "Ada has 3 cats", "Ada lives in Oslo", "Ada lives in Bergen",
                "Grace lives in Oslo",
                "The user likes tea", "The user likes coffee",
                turn("Shall we go?", "e1"), turn("Shall we go now?", "e2"),
                Fact("The user likes tea and hates fog", origin="agent"),
                turn("Tea is what the user likes", "e3", origin="agent"),
                "The password is [secret: password] and the mail [pii: email]",
            ],
        )  # fmt: skip
        # what was said the second time by the agent as a turn repeats a memory; a turn may be said
        # again
        await memories.add(ADA, [turn("The weather is fine", "e4", origin="agent")])
        await memories.add(ADA, [turn("Fine is the weather", "e5", origin="agent")])
        audit = await memories.audit(ADA)
        # "Tea is what the user likes"
        assert [(finding.defect, len(finding.memory_ids)) for finding in audit.findings] == [
            ("recall_loop", 1)
        ]


async def test_a_redaction_of_ones_own_hides_no_secret():
    """An audit finds what the built-in redaction knows, and what the store's own masks."""
    async with await opened(redact=lambda text: text.replace("Meridian", "[boat]")) as memories:
        await memories.add(ADA, SOUND[2:])
        await add_old(memories, ADA, old(f"Deploy with {SECRET}"), old(SOUND[1]))
        assert (await memories.audit(ADA)).counts["secret"] == 2


@pytest.mark.parametrize("defects", [[], ["secret", "secrets"]], ids=repr)
async def test_unknown_defects_are_refused(defects):
    """An audit looks for at least one defect, and for known ones only."""
    async with await opened() as memories:
        with pytest.raises(InvalidInput, match=r"^defects"):
            await memories.audit(ADA, defects=defects)


async def test_a_server_audits_what_is_the_callers():
    """Over a server an audit covers the caller's own scopes, and knows of no others."""
    async with await opened() as memories:
        due = [
            Fact(f"Due on {day}", subject="report", attribute="due") for day in ("Monday", "Friday")
        ]
        for scope in (ADA, OTHER):
            await memories.add(scope, due)
        of_user, _ = await create_token(memories, tenant="acme", user="ada")
        of_tenant, _ = await create_token(memories, tenant="acme")
        for secret in (of_user, of_tenant):
            async with await opening.through_a_server(memories, secret) as remote:
                audit = await remote.audit()
                assert (audit.scopes, audit.counts["contradiction"]) == (1, 1)
                assert audit.findings[0].scope == ADA
                with pytest.raises(NotFound):
                    await remote.audit(Scope("other", "ada", "notes"))
                assert (await remote.audit(ADA, defects=["secret"])).is_clean
