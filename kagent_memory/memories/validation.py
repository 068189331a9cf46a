"""What callers give to `Memories.open` and its verbs is checked before anything is done with it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from ..errors import ConfigurationError
from ..ingestion.extraction import SummaryProvider
from ..ingestion.extraction.transcript import checked_provider
from ..records import Filter
from ..redaction import Redactor, masked_id, redactor
from ..redaction import redact as mask_secrets
from ..redaction.personal_data import PersonalData
from ..retrieval.query import Gate
from ..retrieval.ranking import RankSettings
from ..retrieval.ranking.importance import ImportanceWeights
from ..settings import MemorySettings


def with_gate(
    gate: Gate | bool | None, settings: MemorySettings
) -> tuple[Gate | None, MemorySettings]:
    """The gate, and the settings: True and False are the setting of the same name.

    Raises:
        ConfigurationError: not a gate.
    """
    if gate is None or isinstance(gate, bool):
        return None, settings if gate is None else settings.updated({"gate": gate})
    searches = getattr(gate, "searches", None)
    if isinstance(gate, type) or not callable(searches) or not _takes(searches):
        raise ConfigurationError(
            "gate takes True, False, WordGate(…), or an object with a plain method "
            "searches(text, *, tool=False, "
            f"is_fact=None); not {_kind(gate)}."
        )
    return gate, settings


class Redactors(NamedTuple):
    """What is done to texts before anything else sees them.

    Attributes:
        save: to one that is to be stored; it may refuse one.
        mask: to one that is only searched with or logged.
        secrets: secrets alone, whatever the settings say of personal data.
    """

    save: Redactor
    mask: Redactor
    secrets: Redactor


def redactors_of(redact: Redactor, settings: MemorySettings) -> Redactors:
    """What masks secrets, as given or ours with the table that a setting names, and what the
    settings say of pii.

    Raises:
        ConfigurationError: both are given, a table cannot be read, an unknown kind of pii, or its
            extra is missing.
    """
    if settings.secrets_file and redact is not mask_secrets:
        raise ConfigurationError(
            "Pass secrets_file or redact=, not both: redact= replaces the built-in redaction."
        )
    if settings.secrets_file:
        redact = redactor(settings.secrets_file)
    rules = settings.pii
    if rules is None:
        return Redactors(redact, redact, redact)
    data = PersonalData(rules.kinds, regions=rules.regions, table=rules.file)
    mask = data.after(redact)
    save = mask if rules.mode == "mask" else data.refusing(redact, dropped=rules.mode == "drop")
    return Redactors(save, mask, redact)


def check_arguments(
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
        _check_kind("rank", rank, RankSettings)
    _check_kind("importance_weights", weights, ImportanceWeights)
    for name, call in (("redact", redact), ("clock", clock)):
        if not callable(call):
            raise ConfigurationError(f"{name} takes a function, not {_kind(call)}.")


def _check_kind(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise ConfigurationError(
            f"{name} takes kagent_memory.{kind.__name__}(…), not {_kind(value)}."
        )


def _takes(searches: Callable[..., object]) -> bool:
    """Return True if a gate's method takes what a gate is asked with."""
    if inspect.iscoroutinefunction(searches):
        return False
    try:
        inspect.signature(searches).bind("", tool=False, is_fact=None)
    except TypeError:
        return False
    except ValueError:  # compiled functions tell no signature
        return True
    return True


def _kind(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def masked_filter(filter: Filter) -> Filter:
    """Return the filter with the session id as memories carry it."""
    if filter.session_id is None:
        return filter
    return replace(filter, session_id=masked_id(filter.session_id))
