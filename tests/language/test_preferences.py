"""Preferences are recognised by their form: lasting wishes, not wishes for one time."""

from __future__ import annotations

import pytest

from kagent_memory.language.preferences import PREFERENCE_TERM, states_preference
from kagent_memory.language.tokenizer import index_terms, query_terms


@pytest.mark.parametrize(
    "text",
    [
        "Always answer in metric units.",
        "Thanks. Please never use emojis in replies to me.",
        "I'm building a shop, and I prefer function-based views; can you help me?",
        "From now on, call me Sam.",
        "Antworte immer auf Deutsch.",
        "Responde siempre en español.",
        "Je préfère les réponses courtes.",
        "D'ora in poi rispondi in italiano.",
        "以后请用中文回答。",
        "今後は短く答えてください。",
    ],
)
def test_a_lasting_wish_is_a_preference(text: str):
    """A standing instruction or stated preference is recognised in any of eight languages."""
    assert states_preference(text)
    assert states_preference(text, "user")


@pytest.mark.parametrize(
    "text",
    [
        "Never mind.",
        "My train is always late.",
        "Do you always use Celsius?",
        "Make this one shorter.",
        "She prefers tea.",
        "",
    ],
)
def test_what_holds_for_one_time_is_none(text: str):
    """A habit, a question or a wish for this one time is no preference."""
    assert not states_preference(text)


def test_only_users_state_preferences():
    """An agent's statement of what it always does is no preference of the user."""
    assert not states_preference("Always back up your data.", "assistant")
    assert PREFERENCE_TERM not in index_terms("Always back up your data.", "assistant")


def test_no_query_asks_for_the_marker():
    """The index term of a preference cannot be typed."""
    assert PREFERENCE_TERM in index_terms("Always answer in metric units.", "user")
    assert PREFERENCE_TERM not in query_terms(f"always {PREFERENCE_TERM} preference")
