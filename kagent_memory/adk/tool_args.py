"""Arguments as models give them: checked, and turned into a filter. Failures are worded for the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from ..errors import InvalidInput
from ..memories.tool_answers import moment
from ..records import MEMORY_TYPES, Filter


def asked_filter(args: Mapping[str, Any]) -> Filter:
    """The filter that a model's arguments name.

    Raises:
        InvalidInput: one of them does not fit; the text is for the model.
    """
    types_ = labels(args, "types")
    if unknown := sorted(set(types_) - set(MEMORY_TYPES)):
        raise InvalidInput(f"Unknown types {', '.join(unknown)}; use {', '.join(MEMORY_TYPES)}.")
    importance = args.get("min_importance")
    if importance is not None and (isinstance(importance, bool) or not isinstance(importance, (int, float))):
        raise InvalidInput("min_importance must be a number from 0 to 1.")
    return Filter(
        types=cast("Any", types_),
        topics=labels(args, "topics"),
        tags=labels(args, "tags"),
        min_importance=float(importance) if importance is not None else None,
        happened_after=moment(args, "after"),
        happened_before=moment(args, "before"),
    )


def narrowed(fixed: Filter, asked: Filter) -> Filter:
    """Both filters at once; where one field can hold only one of them, the fixed one stays."""
    return replace(
        asked,
        types=tuple(kind for kind in asked.types if kind in fixed.types) or fixed.types or asked.types,
        topics=fixed.topics or asked.topics,
        tags=tuple(dict.fromkeys((*fixed.tags, *asked.tags))),
        origins=fixed.origins,
        metadata=fixed.metadata,
        author=fixed.author,
        category=fixed.category,
        session_id=fixed.session_id or asked.session_id,
        min_importance=max(
            (value for value in (fixed.min_importance, asked.min_importance) if value is not None), default=None
        ),
        created_after=fixed.created_after,
        created_before=fixed.created_before,
        happened_after=max(filter(None, (fixed.happened_after, asked.happened_after)), default=None),
        happened_before=min(filter(None, (fixed.happened_before, asked.happened_before)), default=None),
    )


def labels(args: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A list of texts; models give a single one bare."""
    value = args.get(name)
    if value is None or value == "":
        return ()
    listed = cast("Sequence[Any]", value) if isinstance(value, (list, tuple)) else [value]
    if not all(isinstance(label, str) for label in listed):
        raise InvalidInput(f"{name} must be a list of strings.")
    return tuple(listed)


def holds_all(text: str, query: str) -> bool:
    """Whether the text holds every word of the query, in any form."""
    from ..language.tokenizer import index_terms

    wanted = set(index_terms(query))
    return bool(wanted) and wanted <= set(index_terms(text))
