"""The page's templates: Jinja2 with escaping always on, and the filters they use: times, and why a
memory was found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from ..records import Hit, Scope

KINDS = {
    "semantic": "fact",
    "episodic": "event",
    "procedural": "how-to",
    "reflective": "insight",
}
_WORDS = re.compile(r"(\w+)")


def moment(at: datetime | None) -> str:
    """Write 2026-01-31 09:30 UTC, or a dash."""
    return at.strftime("%Y-%m-%d %H:%M UTC") if at else "–"


def relative(at: datetime | None, now: datetime) -> str:
    """Write 3 days ago, in 5 hours, just now; a dash without a time."""
    if at is None:
        return "–"
    seconds = int((at - now).total_seconds())
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if count := round(abs(seconds) / size):
            text = f"{count} {unit}{'s' if count > 1 else ''}"
            return f"in {text}" if seconds > 0 else f"{text} ago"
    return "just now"


def marked(text: str, query: str) -> Markup:
    """Return the text with every word marked that begins with a word of the query."""
    wanted = tuple(word.casefold() for word in _WORDS.findall(query) if len(word) >= 3)
    parts = _WORDS.split(text)  # every second one is a word
    return Markup("").join(
        Markup("<mark>{}</mark>").format(part)
        if number % 2 and part.casefold().startswith(wanted)
        else escape(part)
        for number, part in enumerate(parts)
    )


def scope_query(scope: Scope, **more: Any) -> str:
    """Return the query string that names a scope whole, an empty tenant too, and what is set."""
    further = {name: value for name, value in more.items() if value not in ("", None)}
    return urlencode({"app": scope.app, "user": scope.user, "tenant": scope.tenant, **further})


def sentences(hit: Hit) -> list[str]:
    """Say what found a memory."""
    why: Mapping[str, Any] = hit.why
    legs: Sequence[str] = why.get("legs", ())
    said: list[str] = []
    if "text" in legs:
        said.append(f"It shares words with your question; {_place(why.get('text_rank'))} by words.")
    if hit.cosine is not None:
        said.append(
            f"Its meaning is {hit.cosine:.0%} like your question's; "
            f"{_place(why.get('vector_rank'))} by meaning."
        )
    if "date" in legs:
        said.append("It is from the time that your question names.")
    if not said:
        said.append("What stands beside it in its conversation matches your question.")
    return said


def _place(rank: object) -> str:
    return "the best match" if rank == 1 else f"number {rank}"


@cache
def environment() -> Environment:
    """Return the one environment; every value is escaped, an unknown name is an error."""
    made = Environment(
        loader=PackageLoader("kagent_memory.server"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: Any = {
        "moment": moment,
        "relative": relative,
        "marked": marked,
        "kind": KINDS.get,
        "sentences": sentences,
    }
    made.filters.update(filters)
    made.globals.update(scope_query=scope_query)  # pyright: ignore[reportCallIssue, reportArgumentType]
    return made
