"""The firewall over a corpus of its own: nothing that memory said is learnt again, and no news is lost beside it."""

import time
from datetime import UTC, datetime

import pytest

from kagent_memory.ingestion.firewall import KnownMemory, mask_recalled
from kagent_memory.ingestion.recalled_filter import days_of
from kagent_memory.records import Message

from .parrot import FRAMES, MIXED, NEWS, SAID_ON, SHORTER, STORED, UNITED

DAY = days_of([datetime.fromisoformat(SAID_ON).replace(tzinfo=UTC)])
NAME = KnownMemory("name", "The user's name is Ada.")


def learnt(said, *known, role="agent", more=(NAME,)):
    """What is left of what an agent or tool says, where this is known."""
    memories = [KnownMemory(f"m{number}", text, DAY) for number, text in enumerate(known)]
    kept, echoed = mask_recalled([Message(text="Hm?"), Message(text=said, role=role)], [*more, *memories])
    return [message.text for message in kept if message.role != "user"], set(echoed) - {"name"}


def capital(text):
    return text[0].upper() + text[1:]


@pytest.mark.parametrize(("known", "said"), STORED, ids=range(len(STORED)))
def test_whatever_is_said_around_an_echo_it_stays_one(known, said):
    again = [frame.replace("{}", said if not frame.startswith("{}") else capital(said)) for frame in FRAMES]
    assert [text for text in again if learnt(text, known) != ([], {"m0"})] == []


@pytest.mark.parametrize(("known", "said"), NEWS)
def test_news_beside_what_is_known_is_kept(known, said):
    for role in ("agent", "tool"):
        assert learnt(said, known, role=role) == ([said], set())


@pytest.mark.parametrize("frame", FRAMES)
def test_news_is_kept_whatever_is_said_around_it(frame):
    told = [(known, frame.replace("{}", inner(said).rstrip("."))) for known, said in NEWS if said.isascii()]
    assert [text for known, text in told if not any(len(left) > 12 for left in learnt(text, known)[0])] == []


def inner(text):
    """As it stands within a sentence."""
    return text[0].lower() + text[1:] if text.startswith(("You", "The", "Flight", "Seat")) else text


@pytest.mark.parametrize(("known", "said"), MIXED)
def test_the_words_of_several_memories_may_be_news(known, said):
    assert learnt(said, *known) == ([said], set())


@pytest.mark.parametrize(("known", "said"), UNITED)
def test_several_memories_said_in_one_sentence_are_echoes_of_all(known, said):
    assert learnt(said, *known) == ([], {f"m{number}" for number in range(len(known))})


@pytest.mark.parametrize(("known", "said"), SHORTER)
def test_an_echo_may_leave_out_and_say_otherwise_what_means_the_same(known, said):
    assert learnt(said, known) == ([], {"m0"})


def test_news_and_echoes_of_one_message_are_told_apart():
    echoes = [capital(said) + "." for _, said in STORED]
    for _, news in NEWS[:60]:
        text = " ".join((*echoes[:4], news, *echoes[4:]))
        left, echoed = learnt(text, *(known for known, _ in STORED))
        assert (left, len(echoed)) == ([news], len(STORED)), news


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
