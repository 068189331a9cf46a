"""What is asked of memory: whether to search at all, follow-ups completed, long questions split, rewritten on wish."""

from .completion import EARLIER_TURNS, complete, is_vague, split
from .gate import Gate, WordGate
from .query_words import GENERAL, PERSONAL, SMALL_TALK
from .rewriting import hypothetical, rewrite

__all__ = [
    "EARLIER_TURNS",
    "GENERAL",
    "PERSONAL",
    "SMALL_TALK",
    "Gate",
    "WordGate",
    "complete",
    "hypothetical",
    "is_vague",
    "rewrite",
    "split",
]
