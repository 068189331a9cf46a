"""The scopes of a database in order, page by page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...records import Scope
from ..codec import bounded
from ..values import in_order
from .row_codec import named, to_scope
from .session import Session

_LOWEST = "\x01"
"""The lowest character that a name may have: no name lies between another one and that one with it
at its end.
"""
SCOPES_OF: Mapping[tuple[str, ...], str] = {
    (): "scopes",
    ("tenant",): "scopes_of_tenant",
    ("app",): "scopes_of_app",
    ("user",): "scopes_of_user",
    ("tenant", "app"): "scopes_of_tenant_and_app",
    ("tenant", "user"): "scopes_of_tenant_and_user",
    ("app", "user"): "scopes_of_app_and_user",
    ("tenant", "app", "user"): "scope_of_all",
}
"""The statement that lists scopes of which these parts are given."""


async def scopes(
    session: Session,
    *,
    tenant: str | None = None,
    user: str | None = None,
    app: str | None = None,
    after: Scope | None = None,
    limit: int = 1000,
) -> Sequence[Scope]:
    """See `MemoryStore.scopes`."""
    parts = named(tenant=tenant, app=app, user=user)
    given = {name: value for name, value in parts.items() if value is not None}
    start = _first_names(given, after)
    if start is None:
        return []
    indexed = {
        **given,
        **{f"from_{name}": value for name, value in start.items()},
        "limit": bounded(limit),
    }
    others = {f"after_{name}": after and getattr(after, name) for name in parts}
    short, long = await session.several(
        [
            (SCOPES_OF[tuple(given)], indexed),
            ("long_scopes", {**parts, **others, "limit": bounded(limit)}),
        ]
    )
    return in_order(map(to_scope, (*short, *long)), limit=limit)


def _first_names(given: Mapping[str, str], after: Scope | None) -> Mapping[str, str] | None:
    """Return the names that the first scope after another one may have, in the parts that are not
    given.

    Args:
        given: the parts that all scopes have in common, in the order of the scopes.
        after: the last scope of the page before; None: there is none.

    Returns:
        The lowest names, by part; None where no scope can follow.
    """
    free = [name for name in ("tenant", "app", "user") if name not in given]
    first = dict.fromkeys(free, "")
    if after is None:
        return first
    last: str | None = None
    for name in ("tenant", "app", "user"):
        value = getattr(after, name)
        if name not in given:
            first[name], last = value, name
        elif given[name] > value:
            return first
        elif given[name] < value:
            break
    if last is None:
        return None
    first[last] += _LOWEST
    return first
