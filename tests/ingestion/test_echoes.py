"""What an agent says of what memory holds is not learnt again, and news beside it is."""

import time
import tomllib
from pathlib import Path

import pytest

from kagent_memory.ingestion.firewall import KnownMemory, mask_recalled
from kagent_memory.records import Message

ITEMS = tomllib.loads((Path(__file__).parent / "items/echoes.toml").read_text("utf-8"))["item"]
OSLO, TEA = "The user lives in Oslo with two cats.", "The user's favourite tea is Darjeeling First Flush."
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


def learnt(said, *known, recalled=False, role="agent"):
    """Return what is left of what an agent or tool says, and the memories that it repeats."""
    memories = [KnownMemory(f"m{number}", text, "2026-05-06") for number, text in enumerate(known)]
    called = KnownMemory("name", "The user's name is Ada.")
    given = [Message(text="", role="tool", recalled=tuple(known))] if recalled else []
    messages = [Message(text="Hm?"), *given, Message(text=said, role=role)]
    kept, echoed = mask_recalled(messages, [called, *memories])
    return [message.text for message in kept if message.role == role], set(echoed) - {"name"}


@pytest.mark.parametrize("recalled", [False, True])
def test_most_natural_echoes_are_not_learnt_and_no_news_is_lost(recalled):
    """Items in five languages, which a recall handed over in the same turn or long ago."""
    echoes = [(item["known"], said) for item in ITEMS for said in item["echoes"]]
    news = [(item["known"], said) for item in ITEMS for said in item["news"]]
    again = [said for known, said in echoes if learnt(said, known, recalled=recalled)[0]]
    assert len(again) <= 4, again
    for role in ("agent", "tool"):
        kept = [learnt(said, known, recalled=recalled, role=role)[0] for known, said in news]
        assert kept == [[said] for _, said in news]


@pytest.mark.parametrize("frame", FRAMES)
def test_whatever_is_said_around_an_echo_it_stays_one(frame):
    for known, said in (
        (OSLO, "you live in Oslo with two cats"),
        (TEA, "your favourite tea is Darjeeling First Flush"),
    ):
        assert learnt(frame.format(said), known) == ([], {"m0"})


@pytest.mark.parametrize(
    "said",
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
    ],
)
def test_what_says_something_else_of_the_same_is_news(said):
    assert learnt(said, OSLO) == ([said], set())


def test_several_memories_said_in_one_sentence_are_echoes_of_all():
    said = "You live in Oslo with two cats, and your favourite tea is Darjeeling First Flush."
    assert learnt(said, OSLO, TEA) == ([], {"m0", "m1"})


def test_news_and_echoes_of_one_message_are_told_apart():
    said = (
        "You live in Oslo with two cats. The vet can see them on 3 May. Your favourite tea is Darjeeling First Flush."
    )
    assert learnt(said, OSLO, TEA) == (["The vet can see them on 3 May."], {"m0", "m1"})


def test_the_work_is_linear_when_every_sentence_is_another_one():
    def seconds(count):
        known = [
            KnownMemory(str(n), f"The user visited town{n % 97} in {n} with {n % 89} friends.") for n in range(count)
        ]
        said = " ".join(f"You visited town{n % 89} in {n} with {n % 97} friends." for n in range(count))
        begin = time.process_time()
        mask_recalled([Message(text=said, role="agent")], known)
        return time.process_time() - begin

    seconds(50)
    few, many = seconds(250), seconds(2_000)
    assert many < 30 * few
