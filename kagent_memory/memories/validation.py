"""What callers give to `Memories.open` and its verbs is checked before anything is done with it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, cast

from ..concurrency import PORTION, run_in_thread
from ..errors import ConfigurationError, InvalidInput
from ..ingestion.extraction import SummaryProvider, checked_provider
from ..records import MAX_QUERY_CHARS, Fact, checked_name, checked_text
from ..redaction import Redactor, redactor
from ..redaction import redact as mask_secrets
from ..redaction.personal_data import PersonalData
from ..retrieval.query import Gate
from ..retrieval.query.completion import EARLIER_TURNS
from ..retrieval.ranking import RankSettings
from ..retrieval.ranking.importance import ImportanceWeights
from ..settings import MemorySettings


def checked_items(items: Iterable[Fact | str]) -> list[Fact | str]:
    """What is to be added, as a list: a single text would be taken for as many as it has letters.

    Raises:
        InvalidInput: a single one, or nothing of the kind.
    """
    if isinstance(items, str | Fact) or not isinstance(items, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] callers are untyped
        raise InvalidInput(f"add takes a list of texts and facts, not a single {type(items).__name__}.")
    return list(items)


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
    """What masks secrets, as given or ours with the table that a setting names, and what the settings say of pii.

    Raises:
        ConfigurationError: both are given, a table cannot be read, an unknown kind of pii, or its extra is missing.
    """
    if settings.secrets_file and redact is not mask_secrets:
        raise ConfigurationError("Pass secrets_file or redact=, not both: redact= replaces the built-in redaction.")
    if settings.secrets_file:
        redact = redactor(settings.secrets_file)
    rules = settings.pii
    if rules is None:
        return Redactors(redact, redact, redact)
    data = PersonalData(rules.kinds, regions=rules.regions, table=rules.file)
    mask = data.after(redact)
    save = mask if rules.mode == "mask" else data.refusing(redact, dropped=rules.mode == "drop")
    return Redactors(save, mask, redact)


class _FactlessGate:
    """A gate whose method does not take `is_fact`: what the caller says is not told to it."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def searches(self, text: str, *, tool: bool = False, is_fact: bool | None = None) -> bool:
        return self._gate.searches(text, tool=tool)


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
        raise ConfigurationError(f"{name} takes kagent_memory.{kind.__name__}(…), not {_kind(value)}.")


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


def checked_limit(limit: int) -> int:
    """`limit` itself.

    Raises:
        InvalidInput: it is not a number of hits.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:  # pyright: ignore[reportUnnecessaryIsInstance] callers are untyped
        raise InvalidInput("The limit must be a whole number, 0 or more.")
    return limit


def checked_tenant(tenant: str) -> str:
    """`tenant` itself.

    Raises:
        InvalidInput: it is empty, most likely a variable that holds nothing, or can be no part of a scope.
    """
    if not checked_name(tenant, "The tenant"):
        raise InvalidInput("The tenant must not be empty; memories of no tenant are erased scope by scope with forget.")
    return tenant


def checked_min_score(min_score: float) -> float:
    """`min_score` itself.

    Raises:
        InvalidInput: it is not a cosine.
    """
    if not -1 <= min_score <= 1:  # NaN is neither
        raise InvalidInput("min_score must lie between -1 and 1; it is a cosine.")
    return min_score


async def masked_query(query: str, history: Sequence[str], redact: Redactor) -> tuple[str, list[str]]:
    """The query and the last turns before it, with secrets masked.

    Raises:
        InvalidInput: one of them is not a text that can be searched with.
    """
    if len(checked_text(query, "The query")) > MAX_QUERY_CHARS:
        raise InvalidInput(f"The query has {len(query):,} characters; at most {MAX_QUERY_CHARS:,} are allowed.")
    turns = [checked_text(turn, "A turn of the history")[:MAX_QUERY_CHARS] for turn in history[-EARLIER_TURNS:]]

    def mask() -> list[str]:
        return [redact(text) for text in (query, *turns)]

    text, *earlier = await run_in_thread(len(query) + sum(map(len, turns)), mask)
    return text, earlier


def text_size(*values: object) -> int:
    """About how many characters are read when these are checked and masked; stops counting once they are many."""
    size, left = 0, list(values)
    while left and size <= PORTION * 8:
        value = left.pop()
        match value:
            case str() as text:
                size += len(text)
            case Fact() as fact:
                left += (fact.text, fact.subject, fact.attribute, fact.topics, fact.tags, fact.event_ids, fact.metadata)
            case Mapping():
                pairs = cast("Mapping[object, object]", value)
                left += pairs.values()
                size += 50 * len(pairs)
            case list() | tuple():
                left += cast("Sequence[object]", value)
            case _:
                size += 10
    return size
