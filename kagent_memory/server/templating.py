"""The page's templates: Jinja2 with escaping always on, and the few filters they use."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from ..records import Scope
from .why import contributions, sentences

SHELL: Mapping[str, Any] = {
    "caller": None,
    "csrf": "",
    "scope": None,
    "done": None,
    "here": "",
    "has_login": False,
}


def day(at: datetime | None) -> str:
    """2026-01-31, or a dash."""
    return at.strftime("%Y-%m-%d") if at else "–"


def moment(at: datetime | None) -> str:
    """2026-01-31 09:30 UTC, or a dash."""
    return at.strftime("%Y-%m-%d %H:%M UTC") if at else "–"


def scope_query(scope: Scope, **more: Any) -> str:
    """The query string that names a scope whole, an empty tenant too, and whatever else is set."""
    further = {name: value for name, value in more.items() if value not in ("", None)}
    return urlencode({"app": scope.app, "user": scope.user, "tenant": scope.tenant, **further})


@cache
def environment() -> Environment:
    """The one environment; every value is escaped, an unknown name is an error."""
    made = Environment(
        loader=PackageLoader("kagent_memory.server"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(day=day, moment=moment, sentences=sentences, contributions=contributions)  # pyright: ignore[reportCallIssue, reportArgumentType]
    made.globals.update(scope_query=scope_query)  # pyright: ignore[reportCallIssue, reportArgumentType]
    return made


def render(template: str, values: Mapping[str, Any]) -> str:
    """The page, as text."""
    return environment().get_template(template).render({**SHELL, **values})
