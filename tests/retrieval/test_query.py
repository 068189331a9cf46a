import time

import pytest

from kagent_memory.retrieval.query import WordGate


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
    ],
)
def test_small_talk_is_not_searched(text: str) -> None:
    """Greetings and thanks are held back, in several languages."""
    assert not WordGate().searches(text)


@pytest.mark.parametrize(
    "text",
    [
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
def test_general_knowledge_is_not_searched(text: str) -> None:
    """A question that an encyclopedia answers is held back."""
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
    ],
)
def test_what_may_be_personal_is_searched(text: str) -> None:
    """In doubt a message is searched."""
    assert WordGate().searches(text)


def test_the_caller_marks_tool_queries() -> None:
    """The lists of words are arguments."""
    assert not WordGate().searches("What did I buy?", tool=True)
    assert WordGate(small_talk=()).searches("hello")
    assert WordGate(general=()).searches("What is photosynthesis?")
    assert not WordGate(small_talk=("ahoy",)).searches("Ahoy!")
    assert not WordGate(personal=()).searches("Define our style guide")


@pytest.mark.parametrize(
    "text", ["bye " * 60 + "x", "thanks a lot " * 22 + "x", "thanks a lot " * 9_000 + "x"]
)
def test_no_message_holds_the_gate_up(text: str) -> None:
    """The gate takes time linear in the length of a message."""
    started = time.process_time()
    assert WordGate().searches(text)
    assert time.process_time() - started < 1
