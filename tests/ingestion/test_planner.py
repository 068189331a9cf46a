"""Plan new facts and their neighbours, with and without a model."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kagent_memory.errors import ModelError
from kagent_memory.ingestion.consolidation import plan_merges
from kagent_memory.ingestion.planner import Plan
from kagent_memory.records import Fact, Memory
from kagent_memory.retention.lifecycle import to_memory
from kagent_memory.stores.planning import slot_of
from kagent_memory.testing import ScriptedLlm

from .planning import plan

NOW = datetime(2024, 5, 8, tzinfo=UTC)


def scripted(answer):
    return ScriptedLlm(lambda _: answer)


def row(text: str, *, days: float = 0, **fields: Any) -> Memory:
    return to_memory(Fact(text=text, **fields), now=NOW - timedelta(days=days))


def deciding(**decision):
    return scripted({"decisions": [{"fact": "F1", "memory": "M1", **decision}]})


async def decided(new, old, llm=None):
    return await plan([new], {0: [(old, 0.9)]}, llm=llm, now=NOW)


async def kinds(new: Memory, old: Memory, llm: ScriptedLlm | None = None) -> list[str]:
    return [change.kind for change in (await decided(new, old, llm)).changes]


CITY: dict[str, Any] = {"subject": "user", "attribute": "home city"}


BOTH = "Likes green tea in the evening"


async def test_a_united_text_that_holds_both_is_taken():
    """A merged text that contains both memories is taken, and the fact becomes history."""
    old = row("Likes green tea", days=9, event_ids=("e1",), topics=("tea",), importance=0.4)
    new = row("Likes tea in the evening", event_ids=("e2",), topics=("drinks",), importance=0.7)
    added, former, updated = (await decided(new, old, deciding(action="UPDATE", text=BOTH))).changes
    assert (added.kind, former.kind, former.memory.superseded_by) == ("add", "merge", old.id)
    both = {"event_ids": ("e1", "e2"), "topics": ("tea", "drinks"), "importance": 0.7}
    united = replace(old, content=BOTH, expires_at=new.expires_at, revision=2, **both)
    times = dict.fromkeys(("updated_at", "said_at", "valid_from"), NOW)
    assert updated.kind == "update"
    assert replace(updated.memory, **times) == replace(united, **times)
    assert former.group == updated.group is not None
    assert former.event_ids == updated.event_ids == ("e2",)


@pytest.mark.parametrize(
    "decision",
    [
        {"action": "NOOP"},
        *(
            {"action": "UPDATE", "text": text}
            for text in (
                "Likes green tea in the evening, never coffee",
                "Likes green tea",
                "Likes tea in the evening",
                "Likes 3 green teas in the evening",
                "Does not like green tea in the evening",
                "",
                None,
            )
        ),
    ],
    ids=str,
)
async def test_what_says_the_same_is_linked_and_both_stay(decision):
    """A fact that the model calls the same (NOOP) is linked, and the older memory renewed; so is a
    fact whose merged text omits, adds or gains nothing.
    """
    old, new = row("Likes green tea", days=9), row("Likes tea in the evening")
    result = await decided(new, old, deciding(**decision))
    added, linked = result.changes
    assert (added.kind, added.memory) == ("add", replace(new, links=(old.id,)))
    assert (linked.kind, linked.memory.links, linked.memory.revision) == ("link", (new.id,), 2)
    assert linked.memory.content == old.content
    assert added.group == linked.group is not None
    assert list(result.reinforced) == [old.id]


async def test_a_memory_has_at_most_four_links():
    """A fifth duplicate of a memory is added without a link."""
    old = replace(row("Likes green tea.", days=9), links=("a", "b", "c", "d"))
    new = row("Green tea is a favourite.")
    result = await decided(new, old, deciding(action="NOOP"))
    assert [(change.kind, change.memory) for change in result.changes] == [("add", new)]


@pytest.mark.parametrize(("visible", "most"), [(0, 3), (40, 4), (100, 10)])
async def test_one_job_replaces_a_few_memories_and_adds_the_rest(visible, most):
    """A model that replaces everything makes history of three memories, or of a tenth of a large
    scope.
    """
    old = [row(f"Owns a bicycle number {number}.", days=9) for number in range(12)]
    new = [row(f"Sold something, case {number}.") for number in range(12)]
    answer = [{"fact": f"F{n}", "memory": f"M{n}", "action": "SUPERSEDE"} for n in range(1, 13)]
    neighbours = {number: [(memory, 0.9)] for number, memory in enumerate(old)}
    result = await plan(
        new, neighbours, llm=scripted({"decisions": answer}), visible=visible, now=NOW
    )
    assert sum(change.kind == "supersede" for change in result.changes) == most
    assert sum(change.kind == "add" for change in result.changes) == 12
    assert result.replaceable == most - 12


@pytest.mark.parametrize("fields", [{"explicit": True}, {"pinned": True}])
@pytest.mark.parametrize("slot", [{}, CITY])
async def test_what_contradicts_an_explicit_save_stands_beside_it(fields, slot):
    """A saved or pinned memory is linked with a fact that contradicts it, and never replaced."""
    old = replace(row("Lives in Oslo.", days=9, **slot), **fields)
    new = row("Lives in Lima.", **slot)
    for llm in (deciding(action="SUPERSEDE"), *([None] if slot else [])):
        added, linked = (await decided(new, old, llm)).changes
        assert added.memory == replace(new, links=(old.id,), valid_from=new.said_at)
        assert (linked.kind, linked.memory.content) == ("link", old.content)
        assert (linked.memory.state, linked.memory.links) == ("active", (new.id,))


async def test_facts_with_neighbours_are_one_call():
    """Facts with neighbours share one call, in which each memory name is unique; others
    need none.
    """
    llm = scripted({"decisions": [{"fact": "F2", "action": "NOOP", "memory": "M2"}]})
    old = [row(f"Owns a bicycle number {number}.", days=9) for number in range(50)]
    new = [row(f"Has a bicycle number {number}.") for number in range(50)]
    neighbours = {number: [(memory, 0.9)] for number, memory in enumerate(old)}
    result = await plan(new, neighbours, llm=llm, now=NOW)
    await plan(new, {}, llm=llm, now=NOW)
    assert len(llm.prompts) == 1
    assert [change.memory.id for change in result.changes if change.kind == "link"] == [old[1].id]


async def test_an_exact_duplicate_reinforces_and_asks_no_model():
    """A fact with the words of a memory renews the memory without a model call."""
    llm = deciding(action="ADD")
    old = row("Likes tea.", days=9)
    result = await decided(row("likes  tea"), old, llm)
    assert (result.changes, list(result.reinforced), llm.prompts) == ([], [old.id], [])


async def test_two_values_of_a_slot_in_one_batch_follow_each_other():
    """Each value of a slot in a job supersedes the one before."""
    old, first, second = (row(f"Lives in {city}.", **CITY) for city in ("Oslo", "Lima", "Kyoto"))
    neighbours = {0: [(old, 0.9)], 1: [(old, 0.9)]}
    changes = (await plan([first, second], neighbours, now=NOW)).changes
    assert [(change.kind, change.memory.id, change.memory.superseded_by) for change in changes] == [
        ("add", first.id, None),
        ("supersede", old.id, first.id),
        ("add", second.id, None),
        ("supersede", first.id, second.id),
    ]
    assert changes[0].group == changes[1].group != changes[2].group == changes[3].group


def test_a_late_statement_lasts_until_the_other_value_is_said_again():
    """A value said between two statements of another one is valid until the second of them."""
    first, late, again = (row(f"Lives in {at}.", days=at, **CITY) for at in (9, 7, 5))
    stored = replace(first, valid_from=first.created_at, said_at=again.created_at)
    plan = Plan(now=NOW)
    plan.take([late], {0: [(stored, 0.9)]}, {})
    former = plan.rows[late.id]
    assert (former.superseded_by, former.valid_to) == (stored.id, stored.said_at)


@pytest.mark.parametrize("days", [6, 8.5], ids=["after it", "before it"])
def test_a_late_statement_leaves_what_was_united_in_its_text(days: float):
    """A value said between two others takes the place of the one before it, and of none that was
    united with that one; nor is it succeeded by such a one.
    """
    first, united, late, last = (row(f"Lives in {at}.", days=at, **CITY) for at in (9, 8, days, 1))
    former = replace(first, state="superseded", superseded_by=last.id, valid_to=last.created_at)
    part = replace(united, state="superseded", superseded_by=first.id, valid_to=NOW)
    plan = Plan(now=NOW, history=[former, part])
    plan.take([late], {0: [(last, 0.9)]}, {})
    after = {value.content: (value.superseded_by, value.valid_to) for value in plan.rows.values()}
    assert after == {
        late.content: (last.id, last.created_at),
        first.content: (late.id, late.created_at),
    }


@pytest.mark.parametrize(
    "decision",
    [
        {"memory": "M7", "action": "NOOP"},
        {"memory": None, "action": "UPDATE", "text": "x"},
        {"memory": "M1", "action": "DELETE"},
        {"memory": "M1", "action": ""},
        {"fact": "F9", "action": "NOOP"},
        {"fact": None, "action": 3},
    ],
)
async def test_what_was_not_offered_counts_as_add(decision):
    """A decision for a memory or action that was not offered adds the fact unchanged."""
    old = row("Likes tea", days=9)
    assert await kinds(row("Likes rain"), old, deciding(**decision)) == ["add"]


async def test_an_answer_that_cannot_be_used_plans_nothing():
    """An answer that does not fit the schema raises an error and plans nothing."""
    with pytest.raises(ModelError):
        await decided(row("Likes rain"), row("Likes tea"), scripted("I cannot decide."))


async def test_what_a_tool_said_changes_nothing_that_the_user_said():
    """A tool's fact neither replaces, merges with nor links the user's."""
    old, new = row("Lives in Oslo.", days=9, **CITY), row("Lives in Lima.", origin="tool", **CITY)
    for llm in (
        None,
        deciding(action="SUPERSEDE"),
        deciding(action="UPDATE", text="x"),
        deciding(action="NOOP"),
    ):
        result = await decided(new, old, llm)
        assert [(change.kind, change.memory) for change in result.changes] == [("add", new)]


async def test_turns_as_they_were_said_are_never_changed():
    """A literal turn is neither shown to a model nor superseded."""
    turn = row("Lives in Oslo.", verbatim=True, event_ids=("e1",))
    again = row("Lives in Oslo.", verbatim=True, event_ids=("e2",))
    llm = deciding(action="SUPERSEDE")
    assert await kinds(row("Lives in Lima."), turn, llm) == ["add"]
    assert await kinds(again, turn, llm) == ["add"]
    assert llm.prompts == []


async def test_a_longer_compaction_replaces_without_a_call():
    """A longer compaction summary takes the shorter one's place without a call."""
    llm = deciding(action="ADD")
    old, new, other = (
        row(text, subject="s1", attribute=f"compaction:{start}")
        for text, start in (("They met.", 1.0), ("They met and ate.", 1.0), ("They left.", 9.0))
    )
    assert await kinds(new, old, llm) == ["add", "supersede"]
    assert await kinds(other, old, llm) == ["add"]
    assert llm.prompts == []


def test_a_slot_is_compared_without_regard_to_spelling():
    """A slot is compared without regard to spelling and needs both halves."""
    slots = [
        slot_of(row("a", subject=who, attribute=what))
        for who, what in (("The User", "Home-City"), ("user", "home city"), ("user", "city"))
    ]
    assert slots[0] == slots[1] != slots[2]
    assert None not in slots
    assert slot_of(row("a", subject="user")) is None


# -- merging what is stored --------------------------------------------------------------------


async def merged(rows, answer, cosine=0.9):
    """Return the result of a model's answer about a memory and a similar older one."""
    neighbours = {number: [(row, cosine)] for number, row in enumerate(rows[::-1])}
    return (await plan_merges(rows, neighbours, scripted(answer), now=NOW)).changes


def uniting(text, **more):
    return {"decisions": [{"fact": "F2", "action": "UPDATE", "memory": "M1", "text": text, **more}]}


@pytest.mark.parametrize(
    "answer",
    [
        {"decisions": []},
        uniting("Likes green tea, which is liked.", action="NOOP"),
        uniting("Likes green tea."),
    ],
)
async def test_without_a_usable_text_nothing_is_merged(answer):
    """Memories are merged only if the model wants it and its text contains the words of both."""
    assert await merged([row("Likes green tea."), row("Green tea is liked.")], answer) == []


@pytest.mark.parametrize(
    "other",
    [
        {"pinned": True},
        {"verbatim": True},
        {"type": "episodic"},
        {"origin": "tool"},
        {"is_error": True},
        CITY,
        {"metadata": {"project": "b"}},
        {"category": "b"},
        None,
    ],
)
async def test_what_is_of_another_kind_or_not_alike_stays_alone(other):
    """Memories of different kinds or low similarity are not offered to a model."""
    rows = [row("Likes green tea.", metadata={"project": "a"})]
    rows.append(row("Green tea is liked.", **(other or {})))
    assert await merged(rows, "no answer", cosine=0.9 if other else 0.79) == []


async def test_a_memory_is_united_once():
    """Only the first of several memories that a model merges with the same one is merged."""
    rows = [row(f"{word} tea is liked") for word in ("some", "more", "any")]
    neighbours = {1: [(rows[0], 0.9)], 2: [(rows[0], 0.95)]}
    decisions = [
        {"fact": f"F{number}", "action": "UPDATE", "memory": f"M{number - 1}", "text": text}
        for number, text in ((2, "some more tea is liked"), (3, "some any tea is liked"))
    ]
    plan = await plan_merges(rows, neighbours, scripted({"decisions": decisions}), now=NOW)
    contents = [change.memory.content for change in plan.changes if change.kind == "update"]
    assert contents == ["some more tea is liked"]
