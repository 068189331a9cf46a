"""The page: choose an agent and a user, look through the memories, open one, correct it, delete it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ..errors import InvalidInput, NotFound
from ..records import MEMORY_TYPES, Filter, Memory, MemoryType, Scope
from ..stores.base import Order
from .auth import COOKIE
from .dependencies import caller_of, known_id, memories_of, who
from .maintenance import visible_scopes
from .page_helpers import field, listed, number, own_form, page, page_scope, set_cookie, shown_settings, to, whole

router = APIRouter(include_in_schema=False)

SHOWN = 25
FOUND = 20
SHOWN_SCOPES = 200
LONGEST_LABEL = 256
COMPARED = ("content", "type", "topics", "tags", "importance", "ttl_days", "pinned", "state")
ORDERS: Mapping[Order, str] = {
    "newest": "Newest first",
    "oldest": "Oldest first",
    "delivered": "Most delivered",
    "expires": "Expiring soonest",
    "importance": "Most important",
}


@router.get("/")
async def start(request: Request) -> Response:
    """Whose memories to look at."""
    memories, caller = memories_of(request), caller_of(request)
    scopes = await visible_scopes(memories, caller, limit=SHOWN_SCOPES)
    rows = [(scope, await memories.stats(scope)) for scope in scopes]
    tenant = memories.settings.tenant if caller.tenant is None else caller.tenant
    return page(
        request, "start.html", {"rows": rows, "tenant": tenant, "most": SHOWN_SCOPES, **shown_settings(request)}
    )


@router.get("/memories")
async def list_memories(request: Request) -> Response:
    """The memories of one agent and user: sorted, filtered, searched."""
    memories, scope = memories_of(request), page_scope(request)
    params = request.query_params
    query, order = params.get("q", "").strip(), _order(params.get("order", ""))
    filter = _filter(params)
    values: dict[str, Any] = {"hits": None, "cursor": None, "memories": ()}
    if query:
        values["hits"] = await memories.recall(scope, query, limit=FOUND, filter=filter, explain=True, deliver=False)
    else:
        found = await memories.list(scope, filter=filter, order=order, limit=SHOWN, cursor=params.get("cursor") or None)
        values |= {"memories": found.memories, "cursor": found.cursor}
    values |= {"scope": scope, "query": query, "order": order, "orders": ORDERS, "types": MEMORY_TYPES}
    chosen = {name: params.get(name, "") for name in ("type", "topic", "tag")}
    return page(request, "memories.html", {**values, "chosen": chosen, **shown_settings(request)})


def _order(text: str) -> Order:
    return text if text in ORDERS else "newest"  # pyright: ignore[reportReturnType] its keys are the orders


def _filter(params: Mapping[str, str]) -> Filter:
    kind, topic, tag = params.get("type", ""), params.get("topic", ""), params.get("tag", "")
    if "\0" in kind + topic + tag or max(map(len, (kind, topic, tag))) > LONGEST_LABEL:
        raise InvalidInput(f"A filter holds a NUL character, or more than {LONGEST_LABEL} characters.")
    return Filter(types=_types(kind), topics=(topic,) if topic else (), tags=(tag,) if tag else ())


def _types(text: str) -> tuple[MemoryType, ...]:
    return tuple(kind for kind in MEMORY_TYPES if kind == text)


@router.post("/memories/add")
async def add(request: Request) -> Response:
    """Stores what somebody typed."""
    scope, form = page_scope(request), await own_form(request)
    await memories_of(request).add(scope, [field(form, "content")], who=_who(request))
    return to("/memories", scope, done="added")


@router.get("/memories/delete-all")
async def confirm_delete_all(request: Request) -> Response:
    """Asks before everything goes."""
    scope = page_scope(request)
    stats = await memories_of(request).stats(scope)
    return page(request, "delete_all.html", {"scope": scope, "stats": stats})


@router.post("/memories/delete-all")
async def delete_all(request: Request) -> Response:
    """Deletes everything of the scope."""
    scope = page_scope(request)
    await own_form(request)
    await memories_of(request).forget(scope, everything=True)
    return to("/memories", scope, done="all-deleted")


@router.get("/memories/{id}")
async def show(request: Request, id: str) -> Response:
    """One memory with its history."""
    scope, memory = page_scope(request), await _memory(request, id)
    revisions = await memories_of(request).history(scope, memory.id)
    later = [*(revision.before for revision in revisions[1:]), memory]
    told = [(revision, former(revision.before, after)) for revision, after in zip(revisions, later, strict=False)]
    values = {"scope": scope, "memory": memory, "revisions": told[::-1], "types": MEMORY_TYPES}
    return page(request, "memory.html", {**values, **shown_settings(request)})


def former(before: Memory | None, after: Memory | None) -> list[tuple[str, str]]:
    """What a change replaced: the parts that differ, each with its former value in words."""
    if before is None or after is None:
        return []
    pairs = [(name, getattr(before, name)) for name in COMPARED if getattr(before, name) != getattr(after, name)]
    return [(name.replace("_", " "), _worded(value)) for name, value in pairs]


def _worded(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = ", ".join(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else str(value)
    return text or "–"


async def _memory(request: Request, id: str) -> Memory:
    """A memory as it is, also when another one took its place."""
    memories, scope, id = memories_of(request), page_scope(request), known_id(id, "memory")
    try:
        return await memories.get(scope, id, superseded=True)
    except NotFound as error:
        raise NotFound("No such memory; it may have expired or been deleted.") from error


@router.post("/memories/{id}/edit")
async def edit(request: Request, id: str) -> Response:
    """Sets what the form says."""
    scope, form, id = page_scope(request), await own_form(request), known_id(id, "memory")
    memory = await _memory(request, id)
    ttl_days, kind = whole(field(form, "ttl_days"), "Days to live"), _types(field(form, "type"))
    await memories_of(request).edit(
        scope,
        id,
        content=_changed(field(form, "content"), memory.content),
        type=kind[0] if kind else None,
        topics=listed(field(form, "topics")),
        tags=listed(field(form, "tags")),
        importance=number(field(form, "importance"), "Importance"),
        ttl_days=_changed(ttl_days, memory.ttl_days),
        revision=whole(field(form, "revision"), "The revision"),
        who=_who(request),
        why=field(form, "why"),
    )
    return to(f"/memories/{id}", scope, done="edited")


def _changed(value: Any, former: Any) -> Any:
    return None if value == former else value


@router.post("/memories/{id}/pin")
async def pin(request: Request, id: str) -> Response:
    """Pins, or lets go."""
    scope, form, id = page_scope(request), await own_form(request), known_id(id, "memory")
    pinned = field(form, "pinned") == "yes"
    await memories_of(request).pin(scope, id, pinned, who=_who(request))
    return to(f"/memories/{id}", scope, done="pinned" if pinned else "unpinned")


@router.post("/memories/{id}/undo")
async def undo(request: Request, id: str) -> Response:
    """Takes the last change back."""
    scope, _, id = page_scope(request), await own_form(request), known_id(id, "memory")
    await memories_of(request).undo(scope, id, who=_who(request))
    return to(f"/memories/{id}", scope, done="undone")


@router.post("/memories/{id}/delete")
async def delete(request: Request, id: str) -> Response:
    """Deletes one memory for good."""
    scope, _, id = page_scope(request), await own_form(request), known_id(id, "memory")
    await memories_of(request).forget(scope, [id])
    return to("/memories", scope, done="deleted")


@router.get("/login")
async def login_form(request: Request) -> Response:
    """Asks for a token."""
    return page(request, "login.html", {"wrong": False})


@router.post("/login")
async def login(request: Request) -> Response:
    """Keeps the token in a cookie when it holds."""
    form = await own_form(request)
    secret = field(form, "token")
    if await memories_of(request).authenticate(secret) is None:
        return page(request, "login.html", {"wrong": True}, 401)
    answer = to("/")
    set_cookie(request, answer, COOKIE, secret)
    return answer


@router.post("/logout")
async def logout(request: Request) -> Response:
    """Drops the cookie."""
    await own_form(request)
    answer = to("/login")
    answer.delete_cookie(COOKIE, path="/")
    return answer


def _who(request: Request) -> str:
    return who("page", caller_of(request))


def scope_or_none(request: Request) -> Scope | None:
    """The scope in the page's address, if it names one."""
    params = cast("Mapping[str, str]", request.query_params)
    return page_scope(request) if params.get("app") and params.get("user") else None
