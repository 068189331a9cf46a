"""The words of many languages that tell things apart, each once: plain data by language, and tables to find them in."""

from .tables import holds_together, is_acronym, keeps_case, months, weekdays

__all__ = ["holds_together", "is_acronym", "keeps_case", "months", "weekdays"]
