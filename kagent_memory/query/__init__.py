"""What is asked of memory: whether to search at all, follow-ups completed, long questions split, rewritten on wish."""

from .complete import EARLIER_TURNS, complete, is_vague, split
from .gate import Gate, WordGate
from .rewrite import hypothetical, rewrite
from .words import GENERAL, PERSONAL, SMALL_TALK

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
