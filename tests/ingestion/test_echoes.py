"""Agents and tools that repeat memories teach nothing, and news beside an echo is learned."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kagent_memory.ingestion.echoes import Statements, mask_recalled
from kagent_memory.ingestion.sessions import kept_beside
from kagent_memory.ingestion.summary_provider import PassthroughSummary
from kagent_memory.records import Fact, Memory, Message, Scope, source_id
from kagent_memory.retention.lifecycle import to_memory
from kagent_memory.testing import ScriptedLlm

from .ground import opened

SCOPE = Scope("acme", "u-17", "desk")
ITEMS = tomllib.loads((Path(__file__).parent / "items/echoes.toml").read_text("utf-8"))["item"]
OSLO, TEA = (
    "The user lives in Oslo with two cats.",
    "The user's favourite tea is Darjeeling First Flush.",
)
NO_MEAT, NAME = "The user does not eat meat.", "The user's name is Ada."
FRAMES = [
    "As of 2026-05-06, {}.",
    "[2026-05-06, from Travel Desk] {}.",
    "According to what you told me on 2026-05-06, {}.",
    "I have 3 memories about this: {}.",
    "Memory #2: {}.",
    "No problem, {}.",
    "Yes, Ada, {}.",
    "{}, isn't it?",
    "{}, if I remember correctly.",
    "**{}**",
    "- {}",
]
ECHOES = {
    "you live in Oslo with two cats": OSLO,
    "your favourite tea is Darjeeling First Flush": TEA,
    "you don't eat meat": NO_MEAT,
}


def agent(text: str, **more: Any) -> Message:
    return Message(text=text, role="agent", **more)


def remembered(text: str) -> Memory:
    return to_memory(Fact(text), now=datetime(2026, 5, 6, tzinfo=UTC), id=text)


def known_from(*texts: str) -> Statements:
    return Statements(map(remembered, texts))


def news_of(*messages: Message, known: Collection[str] = (OSLO, TEA, NO_MEAT)) -> list[str]:
    """Return the texts that remain of messages."""
    statements = known_from(NAME, *known)
    return [message.text for message in mask_recalled(messages, statements) if message.text]


@pytest.mark.parametrize("recalled", [False, True])
def test_most_natural_echoes_are_not_learnt_and_no_news_is_lost(recalled: bool) -> None:
    """Echoes in five languages are recognized after a recall in the same turn or long ago, at least
    as what may repeat their memory, and no news is left out.
    """

    def learnt(text: str, fact: str, role: Any = "agent") -> list[str]:
        recall = [Message(text="", role="tool", recalled=(fact,))] if recalled else []
        return news_of(*recall, Message(text=text, role=role), known=[fact])

    again = [
        text
        for item in ITEMS
        for text in item["echoes"]
        if learnt(text, item["known"]) and not known_from(item["known"]).repeated(text)
    ]
    assert len(again) <= 1, again
    for item in ITEMS:
        for text in item["news"]:
            assert learnt(text, item["known"]) == learnt(text, item["known"], "tool") == [text]


async def test_a_turn_that_may_repeat_a_fact_is_kept_beside_it(store_uri: str) -> None:
    """Without a model, what an agent says in most words of a fact is no memory of its own, but
    found with the fact, whatever it is; a new number, name or denial makes it one, and so does a
    label, and another text of its event. It goes with the fact.
    """
    fact, other = "The user's car is parked in garage B, level 2.", "The user likes tea."
    beside = "Your car was towed from the garage this morning."
    news = ["Your car is parked in garage B, level 3.", "Your car is not in garage B, level 2."]
    async with opened(store_uri, llm=False) as memories:
        [car, _] = await memories.add(SCOPE, [fact, other])
        said = [agent(text, event_id=text) for text in (beside, *news)]
        said.append(agent(beside, event_id="labelled", fields={"tags": ["car"]}))
        said += [agent(beside, event_id="two"), Message(text=other, event_id="two")]
        said.append(Message(text=beside, event_id="u"))
        await memories.remember(SCOPE, said, "s1")
        await memories.work(until_idle=True)
        listed = (await memories.list(SCOPE)).memories
        assert {memory.content for memory in listed} == {fact, other, beside, *news}
        apart = [(turn.origin, turn.tags) for turn in listed if turn.content == beside]
        assert sorted(apart) == [("agent", ()), ("agent", ("car",)), ("user", ())]
        hit = next(h for h in await memories.recall(SCOPE, "a car in a garage") if h.sources)
        assert (hit.memory.content, hit.sources[0].content) == (fact, beside)
        assert len((await memories.forget(SCOPE, [car])).ids) == 2


async def test_a_turn_beside_a_fact_that_was_just_forgotten_is_a_memory(store_uri: str) -> None:
    """A turn is not hidden from lists if its fact is forgotten while the job runs."""

    class Forgetting(PassthroughSummary):
        async def facts(self, transcript: Any) -> Any:
            await memories.forget(SCOPE, [car])
            return await super().facts(transcript)

    async with opened(store_uri, llm=False, summary=Forgetting()) as memories:
        [car] = await memories.add(SCOPE, ["The user's car is parked in a garage."])
        said = agent("Your car left the garage.", event_id="e")
        await memories.remember(SCOPE, [said], "s1")
        await memories.work(until_idle=True)
        [turn] = (await memories.list(SCOPE)).memories
        assert (turn.content, turn.links) == (said.text, ())


def test_a_turn_is_kept_beside_a_fact_for_its_own_words_alone() -> None:
    """What a provider made of a user's words, of several events or with labels stays a memory."""
    turn = to_memory(
        Fact(TEA, origin="agent", event_ids=("e",), verbatim=True), now=datetime.now(UTC)
    )
    others = ({"event_ids": ("d", "e")}, {"origin": "user"}, {"pinned": True}, {"tags": ("tea",)})
    rows = [turn, turn, *(replace(turn, **fields) for fields in others)]
    first, second, *rest = kept_beside(rows, {"e": ["id"]})
    assert (first.state, second.state, rest) == ("source", "source", rows[2:])
    # an import may have brought the turn before its session is saved again
    assert (first.id, second.id) == (source_id(None, "e"), source_id(None, "e\n2"))


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("sentence", ECHOES)
def test_whatever_is_said_around_an_echo_it_stays_one(sentence: str, frame: str) -> None:
    """Greetings, dates of the memory, labels and marks around an echo are no news."""
    assert news_of(agent(frame.format(sentence))) == []


@pytest.mark.parametrize(
    "sentence",
    [
        "You live in Bergen with two cats.",
        "You live in Oslo with three cats.",
        "You don't live in Oslo with two cats.",
        "You no longer live in Oslo with two cats.",
        "You used to live in Oslo with two cats.",
        "You live in Oslo with two cats and a dog.",
        "Your two cats in Oslo need a vet.",
        "Your brother lives in Oslo with two cats.",
        "You live in Oslo with two cats until March.",
        "You eat meat.",
        "Your favourite tea is not Darjeeling First Flush.",
        "You live in Oslo with two cats since 7 May 2026.",
        "The deployment failed because the disk was full.",
    ],
)
def test_what_says_something_else_of_the_same_is_news(sentence: str) -> None:
    """A sentence with another name, number, person, denial or end is never an echo."""
    assert news_of(agent(sentence)) == [sentence]


@pytest.mark.parametrize(
    ("sentence", "known"),
    [
        (
            "You told me in May 2026 that you live in Oslo with two cats.",
            (OSLO, "The user lives in Oslo with two dogs and four cats.", "Ada calls in May."),
        ),
    ],
)
def test_a_rare_word_elsewhere_hides_no_echo(sentence: str, known: Collection[str]) -> None:
    """A word that an echo adds does not hide its source, however rare the word is."""
    assert news_of(agent(sentence), known=known) == []


def test_news_and_echoes_of_one_message_are_told_apart() -> None:
    """A message is judged by sentence, and one sentence may echo two memories."""
    both = "You live in Oslo with two cats, and your favourite tea is Darjeeling First Flush."
    text = f"{both} The vet can see them on 3 May. You don't eat meat."
    assert news_of(agent(text)) == ["The vet can see them on 3 May."]


def test_a_memory_tools_answer_goes_whole() -> None:
    """A memory tool's answer is removed as a whole, and sentences that repeat it are echoes."""
    answer = Message(
        text='{"memories": ["x"]}', role="tool", recalled=("Grandma's parrot is called Rico.", TEA)
    )
    assert news_of(answer, agent("Grandma's parrot is called Rico. Shall I call her?")) == [
        "Shall I call her?"
    ]


def test_what_the_user_says_always_counts() -> None:
    """A user's text is kept even if it repeats a recalled memory literally: it may be true
    again.
    """
    user, recalled = Message(text=TEA), agent("ok then", recalled=(TEA,))
    assert news_of(user) == [TEA]
    assert news_of(user, recalled) == [TEA, "ok then"]
    assert news_of(recalled, user) == ["ok then", TEA]
    assert news_of(replace(user, recalled=(TEA,))) == [TEA]


def test_an_injected_block_leaves_the_users_text() -> None:
    """An injected block is removed from a user's text, which keeps words that merely equal a
    recalled text.
    """
    block = "<PAST_CONVERSATIONS>\n- likes rain\n- Uncle Bob sold his boat.\n</PAST_CONVERSATIONS>"
    user = Message(text=f"{block}\nWhat should I pack? My trip is to Rome.", recalled=(block,))
    assert news_of(user, agent("Uncle Bob sold his boat!")) == [
        "What should I pack? My trip is to Rome."
    ]
    assert news_of(Message(text="I like tea and rain", recalled=("tea",))) == [
        "I like tea and rain"
    ]


def test_blanks_beside_an_injected_block_cost_no_time() -> None:
    """Finding an injected block takes time linear in the text."""
    text = f"rain\n{' ' * 200_000}x\nWhat should I pack?"
    began = time.process_time()
    news_of(Message(text=text, recalled=("rain\n\nand boats",)))
    assert time.process_time() - began < 10


def test_echoes_in_scripts_without_spaces_are_masked() -> None:
    """An echo is recognized in a script that ends sentences without a space."""
    fact = "用户最喜欢的茶是龙井，3，500克。"
    assert news_of(agent(f"{fact}我给你订了机票。"), known=[fact]) == ["我给你订了机票。"]


def test_the_work_is_linear_when_every_sentence_is_another_one() -> None:
    """Eight times as many different sentences take at most thirty times as long."""

    def seconds(count: int) -> float:
        facts = [
            f"The user visited town{n % 97} in {n} with {n % 89} friends." for n in range(count)
        ]
        text = " ".join(
            f"You visited town{n % 89} in {n} with {n % 97} friends." for n in range(count)
        )
        begin = time.process_time()
        news_of(agent(text), known=facts)
        return time.process_time() - begin

    seconds(50)
    few, many = (min(seconds(count) for _ in range(3)) for count in (250, 2_000))
    assert many < 30 * few


# -- through the queue: what a model is asked to learn from --------------------------------------

CITIES = ["Oslo", "Lima", "Kyoto", "Accra", "Porto", "Tbilisi", "Quito"]
VISITS = [
    f"The user visited {CITIES[n % 7]} in {1970 + n // 2} with {n % 5 + 2} friends."
    for n in range(70)
]
RECITED = [f"No problem, Grace: {text.replace('The user', 'You')[:-1]}, right?" for text in VISITS]
NEWS = "Your hotel in Quito burnt down."


@pytest.mark.parametrize("turns", [["\n".join((*RECITED, NEWS))], [*RECITED, NEWS]], ids=len)
async def test_what_is_recited_is_not_learnt_again(store_uri: str, turns: list[str]) -> None:
    """An agent that recites most of the memories at once teaches only the news beside them."""
    llm = ScriptedLlm(lambda _: {"facts": [], "decisions": [], "summary": ""})
    async with opened(store_uri, llm=llm) as memories:
        await memories.add(SCOPE, ["The user's name is Grace Hopper.", *VISITS])
        messages = [agent(text, event_id=f"a{number}") for number, text in enumerate(turns)]
        await memories.remember(SCOPE, [Message(text="Well?", event_id="u"), *messages], "s1")
        assert await memories.work(until_idle=True)
    prompts = "\n".join(llm.prompts)
    assert NEWS in prompts
    assert "visited" not in prompts
