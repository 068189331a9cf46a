"""Preparation of a query: the gate, follow-ups completed, rewritten on wish."""

from .gate import Gate, WordGate, is_known
from .query_words import GENERAL, PERSONAL, SMALL_TALK

__all__ = ["GENERAL", "PERSONAL", "SMALL_TALK", "Gate", "WordGate", "is_known"]
