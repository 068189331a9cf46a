from typing import Any

import pytest

from kagent_memory.language.follow_ups import complete, is_vague
from kagent_memory.retrieval.query import WordGate
from kagent_memory.retrieval.search import rewrite


@pytest.mark.parametrize(
    "text",
    [
        "Hi",
        "hello!",
        "Thanks a lot!!",
        "Thank you so much for your help.",
        "ok great, thanks",
        "Good morning, how are you?",
        "👍",
        "",
        "你好！",
        "ありがとうございます",
        "안녕하세요",
        "Merci beaucoup !",
        "Hallo, wie geht's?",
        "Vielen Dank für deine Hilfe!",
        "¡Hola! ¿Qué tal?",
        "谢谢你的帮助！",
        "晚安，明天见",
        "おやすみなさい",
        "bye bye bye",
        "What is the capital of France?",
        "What's 2+2?",
        "What is photosynthesis?",
        "Who wrote Hamlet?",
        "Define entropy",
        "How does photosynthesis work?",
        "what does HTTP stand for?",
        "Explain quantum computing",
        "What's 15% of 80?",
        "2 to the power of 10",
        "Why is the sky blue?",
        "Who invented the telephone?",
        "Was ist die Hauptstadt von Spanien?",
        "¿Cuál es la capital de Francia?",
        "法国的首都是哪里？",
        "光合成とは何ですか？",
    ],
)
def test_small_talk_and_general_knowledge_are_not_searched(text: str):
    """Greetings, thanks and what an encyclopedia answers are held back, in several languages."""
    assert not WordGate().searches(text)


@pytest.mark.parametrize(
    "text",
    [
        "Hi, what's my budget?",
        "What is my budget for the Hawaii trip?",
        "Who is Anna?",
        "What is Project Falcon?",
        "what is the deploy command",
        "What does my contract mean?",
        "What is ERR-00123?",
        "我的预算是多少？",
        "hi there, book a table",
        "What is the capital we talked about?",
        "Define our style guide",
        "what does ERR-00123 mean",
        "who painted the kitchen",
        "who was the president of the club in 2020",
        "how does the handover work",
        "define the scope for the Q3 project",
        "what is the distance to the office",
        "Translate Anna's message",
        "what's next?",
        "what is left to pack",
        "what is bob allergic to",
        "how many items in stock",
        "555-1234",
        "2024-05-07",
        "192.168.1.10",
        "danke, und wann kommt Lisa?",
        "谢谢，那航班呢？",
        "Falconとは何ですか",
        "什么是我的账号？",
        "thanks a lot " * 9_000 + "x",  # read in linear time
    ],
    ids=lambda text: text[:40],
)
def test_what_may_be_personal_is_searched(text: str):
    """In doubt a message is searched."""
    assert WordGate().searches(text)


def test_the_words_of_the_gate_are_its_caller_s():
    """The lists of words are arguments."""
    assert WordGate(small_talk=()).searches("hello")
    assert WordGate(general=()).searches("What is photosynthesis?")
    assert not WordGate(small_talk=("ahoy",)).searches("Ahoy!")
    assert not WordGate(personal=()).searches("Define our style guide")


@pytest.mark.parametrize(
    "text",
    [
        "how much?",
        "and the second one?",
        "What about it?",
        "price?",
        "why",
        "多少钱？",
        "and in Berlin?",
        "what about Lisa?",
        "und wie alt ist er?",
        "wann war das?",
        "¿y dónde vive?",
        "et à Berlin ?",
        "а сколько ей лет?",
        "那酒店呢？",
        "それはいつ？",
        "何歳ですか？",
        "몇 살이야?",
    ],
)
def test_short_or_pointing_follow_ups_are_vague(text: str):
    """They say too little of what they are about."""
    assert is_vague(text)


@pytest.mark.parametrize(
    "text",
    [
        "Who is Anna?",
        "ERR-00123",
        "is it ERR-00123?",
        "budget",
        "Where did we stay in Rome?",
        "猫の名前は何ですか",
        "Wie heißt der Hund von Lisa?",
        "¿Dónde está mi pasaporte?",
        "what is the wifi password",
        "我上次住的酒店叫什么？",
    ],
)
def test_texts_that_name_something_are_not(text: str):
    """A text that names what it is about stands alone."""
    assert not is_vague(text)


def test_a_vague_follow_up_takes_the_last_three_turns():
    """Those of the user that say something."""
    earlier = ["I like tea", "Plan my Hawaii trip", "thanks", "What about hotels?"]
    assert complete("how much?", earlier) == "Plan my Hawaii trip\nWhat about hotels?\nhow much?"
    assert complete("Where is my passport?", earlier) == "Where is my passport?"
    assert complete("how much?", []) == "how much?"


class _Model:
    name = "scripted"

    def __init__(self, *, answer: str) -> None:
        self.answer, self.prompts = answer, list[str]()

    async def complete(self, prompt: str, *, schema: Any) -> Any:
        self.prompts.append(prompt)
        return schema(**{next(iter(schema.model_fields)): self.answer})


async def test_a_rewrite_sees_the_earlier_turns_and_replaces_the_text():
    """A model that says nothing leaves the text as it is."""
    model = _Model(answer="price of the hotel in Hawaii")
    assert await rewrite(model, "how {much}?", ["a {message} hotel"]) == model.answer
    assert "how {much}?" in model.prompts[0]
    assert "a {message} hotel" in model.prompts[0]


async def test_a_models_answer_is_searched_as_bounded_text():
    """Without an answer the text stands."""
    assert await rewrite(_Model(answer=" "), "how much?") == "how much?"
    assert await rewrite(_Model(answer="tea\0 \ud800 hot "), "x") == "tea  ? hot"
    model = _Model(answer="x " * 9_000)
    assert len(await rewrite(model, "<" * 9_000, ["<" * 9_000])) <= 2_000
    assert len(model.prompts[0]) < 20_000, "each character is escaped by four"
