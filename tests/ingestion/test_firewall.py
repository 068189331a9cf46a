import random
import time

import pytest

from kagent_memory.ingestion.firewall import KnownMemory, mask_recalled
from kagent_memory.records import Message

TEA = ("m1", "The user's favourite tea is Darjeeling First Flush.")
OSLO = ("m2", "The user lives in Oslo with two cats.")
NO_MEAT = ("m3", "The user does not eat meat.")
KNOWN = [TEA, OSLO, NO_MEAT]


def agent(text, **more):
    return Message(text=text, role="agent", **more)


def left(*messages, known=KNOWN):
    kept, echoed = mask_recalled(messages, [KnownMemory(*one) for one in known])
    return [message.text for message in kept], set(echoed)


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("Your favourite tea is Darjeeling First Flush.", "m1"),
        ("As you told me earlier, your favourite tea is Darjeeling First Flush!", "m1"),
        ("I remember: favourite tea: Darjeeling First Flush", "m1"),
        ("You live in Oslo with two cats.", "m2"),
        ("You live in Oslo.", "m2"),
        ("You don't eat meat.", "m3"),
    ],
)
def test_what_an_agent_says_after_memory_is_masked_and_reinforces_its_source(text, id):
    assert left(agent(text)) == ([], {id})


@pytest.mark.parametrize(
    "text",
    [
        "You live in Bergen with two cats.",
        "You live in Oslo with three cats.",
        "You eat meat.",
        "Your favourite tea is not Darjeeling First Flush.",
        "Your sister Anna lives in Oslo with two dogs and teaches physics.",
        "The deployment failed because the disk was full.",
    ],
)
def test_what_is_new_is_not_masked(text):
    assert left(agent(text)) == ([text], set())


def test_a_new_sentence_beside_an_echo_survives():
    text = "You live in Oslo with two cats. I booked the vet for 3 May. Your favourite tea is Darjeeling First Flush."
    assert left(agent(text)) == (["I booked the vet for 3 May."], {"m1", "m2"})


def test_one_sentence_made_of_two_memories_is_an_echo_of_both():
    text = "You live in Oslo with two cats, and your favourite tea is Darjeeling First Flush."
    assert left(agent(text)) == ([], {"m1", "m2"})


def test_a_memory_tools_answer_goes_whole_and_its_texts_are_masked_afterwards():
    answer = Message(text='{"memories": ["x"]}', role="tool", recalled=("Grandma's parrot is called Rico.", TEA[1]))
    later = agent("Grandma's parrot is called Rico. Shall I call her?")
    assert left(answer, later) == (["Shall I call her?"], {"m1"})


def test_other_words_for_what_was_recalled_in_the_same_turn_are_an_echo_when_they_hold_nothing_new():
    recalled = Message(text="x", role="tool", recalled=(OSLO[1],))
    assert left(recalled, agent("With your two cats in Oslo, where you live, all is well?")) == ([], {"m2"})
    assert left(recalled, agent("Your cats in Bergen?"))[0] == ["Your cats in Bergen?"]


def test_what_the_user_says_stays_but_for_an_exact_repeat_in_the_same_turn():
    user = Message(text=TEA[1])
    assert left(user) == ([TEA[1]], set())
    recalled = agent("ok then", recalled=(TEA[1],))
    assert left(user, recalled) == (["ok then"], {"m1"})
    assert left(recalled, user) == (["ok then", TEA[1]], set())


def test_an_injected_block_leaves_the_users_text_when_it_fills_whole_lines():
    block = "<PAST_CONVERSATIONS>\n- likes rain\n</PAST_CONVERSATIONS>"
    text = f"{block}\nWhat should I pack? My trip is to Rome."
    assert left(Message(text=text, recalled=(block,))) == (["What should I pack? My trip is to Rome."], set())
    assert left(Message(text="I like tea and rain", recalled=("tea",))) == (["I like tea and rain"], set())


def test_lines_of_a_recalled_block_are_known_too():
    block = "Recalled:\n- Grandma's parrot is called Rico.\n- Uncle Bob sold his boat."
    assert left(Message(text="hi", recalled=(block,)), agent("Uncle Bob sold his boat!")) == (["hi"], set())


def test_echoes_in_scripts_without_spaces_are_masked():
    known = [("z", "用户最喜欢的茶是龙井。")]
    assert left(agent("用户最喜欢的茶是龙井。我给你订了机票。"), known=known) == (["我给你订了机票。"], {"z"})


PARROT = [
    "{}",
    "As I remember, {}",
    "You told me earlier: {}",
    "Indeed, {} Welcome back!",
    "Based on our past conversations, {}",
]


def test_50_turns_of_a_parrot_add_nothing_while_a_new_fact_in_each_turn_is_found():
    rng = random.Random(7)
    cities = ["Oslo", "Lima", "Kyoto", "Accra", "Porto"]
    stored = {f"m{n}": f"The user visited {rng.choice(cities)} in {1970 + n} with {n + 2} friends." for n in range(20)}
    grown = 0
    for turn in range(50):
        recalled = rng.sample(sorted(stored), 4)
        said = [rng.choice(PARROT).format(stored[id].replace("The user", "you")) for id in recalled]
        new = f"I bought a green bicycle number {turn} for {turn + 100} euros."
        messages = [
            Message(text=new, event_id=f"u{turn}"),
            Message(text=str(recalled), role="tool", recalled=tuple(stored[id] for id in recalled)),
            agent("\n".join(said)),
        ]
        kept, echoed = mask_recalled(messages, [KnownMemory(*one) for one in stored.items()])
        assert [message.text for message in kept if message.role == "user"] == [new]
        assert set(echoed) == set(recalled)
        grown += sum("visited" in message.text for message in kept)
    assert grown == 0


def test_long_texts_and_many_memories_stay_quick():
    words = [f"word{n}" for n in range(3000)]
    known = [(str(n), " ".join(random.Random(n).sample(words, 40))) for n in range(60)] + [("all", " ".join(words))]
    begin = time.process_time()
    kept, echoed = mask_recalled([agent(" ".join(words))], [KnownMemory(*one) for one in known])
    assert (kept, "all" in echoed) == ([], True)
    assert time.process_time() - begin < 5
