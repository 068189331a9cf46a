import pytest

from kagent_memory.language.dates import TIME_TERMS, asks_when
from kagent_memory.language.tokenizer import index_terms


@pytest.mark.parametrize(
    "query",
    [
        "When did Ann move?",
        "  so when is it?",
        "Since when does she ski?",
        "In which year was it built?",
        "what month did they marry in",
        "How long ago did she start?",
        "Wann war das?",
        "Seit wann läuft er?",
        "¿Cuándo se casaron?",
        "Quand est-elle partie ?",
    ],
)
def test_questions_for_a_time(query: str):
    """A question that wants a time as its answer is recognised."""
    assert asks_when(query)


@pytest.mark.parametrize(
    "query",
    [
        "When she was in Rome, what did she eat?",
        "When it rains, do they stay?",
        "Whenever you like",
        "What did she say when he left?",
        "What time-zone rules apply, and who wrote them?, who",
        "Quandary",
        "",
    ],
)
def test_questions_for_something_else(query: str):
    """A question that wants anything but a time is not taken for one."""
    assert not asks_when(query)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("We left yesterday.", True),
        ("It was in March", True),
        ("Moved in 1999", True),
        ("Letzten Sommer waren wir da", True),
        ("el lunes", True),
        ("mardi", True),
        ("She may come", True),  # a month as well
        ("The sun sat on mars", False),
        ("12345 or 3000 pieces", False),
    ],
)
def test_texts_that_name_a_time(content: str, named: bool):
    """A text names a time if its words say one."""
    assert (not TIME_TERMS.isdisjoint(index_terms(content))) is named


def test_words_that_seldom_mean_a_time_are_left_out():
    """A word that usually means something else is not a time term."""
    assert TIME_TERMS.isdisjoint(("sun", "sat", "mar", "moi", "an", "a", "on"))
