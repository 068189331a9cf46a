"""The scopes of a database in order, page by page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...records import Scope
from ..codec import bounded
from ..decisions import in_order
from .row_codec import named, to_scope
from .session import Transaction

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
    session: Transaction,
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
    free = [name for name in parts if name not in given]
    if after is not None and not free:
        return []
    first = {f"from_{name}": getattr(after, name) if after else "" for name in free}
    if after is not None:
        first[f"from_{free[-1]}"] += _LOWEST
    others = {f"after_{name}": after and getattr(after, name) for name in parts}
    short, long = await session.several(
        [
            (SCOPES_OF[tuple(given)], {**given, **first, "limit": bounded(limit)}),
            ("long_scopes", {**parts, **others, "limit": bounded(limit)}),
        ]
    )
    return in_order(map(to_scope, (*short, *long)), limit=limit)
