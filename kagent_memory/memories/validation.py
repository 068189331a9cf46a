"""What a caller brings to `Memories.open` beside models is looked at before anything is opened with it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import datetime

from ..errors import ConfigurationError
from ..ingestion.extraction import SummaryProvider, checked_provider
from ..redaction import Redactor, redactor
from ..redaction import redact as mask_secrets
from ..retrieval.query import Gate
from ..retrieval.ranking import RankSettings
from ..retrieval.ranking.importance import ImportanceWeights
from ..settings import MemorySettings


def with_gate(gate: Gate | bool | None, settings: MemorySettings) -> tuple[Gate | None, MemorySettings]:
    """The gate, and the settings: True and False are the setting of the same name.

    Raises:
        ConfigurationError: not a gate.
    """
    if gate is None or isinstance(gate, bool):
        return None, settings if gate is None else settings.updated({"gate": gate})
    searches = getattr(gate, "searches", None)
    if isinstance(gate, type) or not callable(searches) or not _takes(searches):
        raise ConfigurationError(
            f"gate takes True, False, WordGate(…), or an object with a plain method searches(text, *, tool=False, "
            f"is_fact=None); not {_kind(gate)}."
        )
    return (gate if _takes(searches, is_fact=None) else _FactlessGate(gate)), settings


def with_table(redact: Redactor, settings: MemorySettings) -> Redactor:
    """What masks secrets: as given, or ours with the table that a setting names.

    Raises:
        ConfigurationError: both are given, or the table cannot be read.
    """
    if not settings.secrets_file:
        return redact
    if redact is not mask_secrets:
        raise ConfigurationError("Pass secrets_file or redact=, not both: redact= replaces the built-in redaction.")
    return redactor(settings.secrets_file)


class _FactlessGate:
    """A gate whose method does not take `is_fact`: what the caller says is not told to it."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def searches(self, text: str, *, tool: bool = False, is_fact: bool | None = None) -> bool:
        return self._gate.searches(text, tool=tool)


def check_given(
    summary: SummaryProvider | None,
    rank: RankSettings | None,
    weights: ImportanceWeights,
    *,
    redact: Callable[[str], str],
    clock: Callable[[], datetime],
) -> None:
    """Refuses what would fail at every later use.

    Raises:
        ConfigurationError: says which argument does not fit, and what it takes.
    """
    if summary is not None:
        checked_provider(summary)
    if rank is not None:
        _check_kind("rank", rank, RankSettings, "retrieval.ranking")
    _check_kind("importance_weights", weights, ImportanceWeights, "retrieval.ranking.importance")
    for name, call in (("redact", redact), ("clock", clock)):
        if not callable(call):
            raise ConfigurationError(f"{name} takes a function, not {_kind(call)}.")


def _check_kind(name: str, value: object, kind: type, home: str) -> None:
    if not isinstance(value, kind):
        raise ConfigurationError(f"{name} takes {kind.__name__}(…) of kagent_memory.{home}, not {_kind(value)}.")


def _takes(searches: Callable[..., object], **more: object) -> bool:
    """Whether a gate's method takes a message, and this too."""
    if inspect.iscoroutinefunction(searches):
        return False
    try:
        inspect.signature(searches).bind("", tool=False, **more)
    except TypeError:
        return False
    except ValueError:  # compiled functions tell no signature
        return True
    return True


def _kind(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
