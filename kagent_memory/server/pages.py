"""The page: choose an agent and a user, look through the memories, open one, correct it, delete
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ..errors import Conflict, InvalidInput, KagentMemoryError, NotFound, family_of
from ..ingestion.editing import last_change
from ..memories import Memories
from ..memories.tool_answers import moment
from ..records import MEMORY_TYPES, Filter, Memory, MemoryType, Recall, Scope, Scopes
from ..stores.base import Order
from ..stores.values import with_after
from .auth import COOKIE
from .dependencies import caller_of, known_id, memories_of, scope_of, tenant_of, who
from .error_responses import message_of
from .page_helpers import (
    field,
    listed,
    number,
    own_form,
    page,
    page_scope,
    set_cookie,
    shown_settings,
    to,
    whole,
)

router = APIRouter(include_in_schema=False)

SHOWN = 25
FOUND = 20
SHOWN_SCOPES = 200
MOST_LABELS = 100  # topics and tags to choose from
MOST_SKIPPED = 10_000  # memories before a page that is named by its number
SKIPPED_AT_ONCE = 1000
NARROWED = ("type", "category", "topic", "tag")
EDITED = ("content", "type", "category", "importance", "ttl_days", "why", "topics", "tags")
LONGEST_LABEL = 256
COMPARED = (
    "content",
    "type",
    "category",
    "topics",
    "tags",
    "importance",
    "ttl_days",
    "pinned",
    "state",
)
ORDERS: Mapping[Order, str] = {
    "newest": "Newest first",
    "oldest": "Oldest first",
}
CHANGED = {"pin": "chosen-pinned", "unpin": "chosen-unpinned", "delete": "chosen-deleted"}
WIDTHS: Mapping[str, str] = {
    "": "This user's memories with this agent",
    "user": "This user's memories with every agent",
    "app": "Every user's memories with this agent",
}


@router.get("/")
async def start(request: Request) -> Response:
    """Whose memories to look at."""
    memories, caller = memories_of(request), caller_of(request)
    scopes = await memories.scopes(
        tenant=caller.tenant, user=caller.user, app=caller.app, limit=SHOWN_SCOPES
    )
    by = "user" if request.query_params.get("by") == "user" else "app"
    rows = [
        (scope, await memories.stats(scope))
        for scope in sorted(scopes, key=lambda scope: (getattr(scope, by), scope.user, scope.app))
    ]
    return page(
        request,
        "start.html",
        {
            "rows": rows,
            "by": by,
            "tenant": tenant_of(request),
            "most": SHOWN_SCOPES,
            **shown_settings(request),
        },
    )


@router.get("/memories")
async def list_memories(request: Request) -> Response:
    """The memories of one agent and user: sorted, filtered, searched."""
    return await _memories_page(request, {"wrong": "", "content": ""})


async def _memories_page(request: Request, typed: Mapping[str, str], status: int = 200) -> Response:
    memories, scope, params = memories_of(request), page_scope(request), request.query_params
    query, filter = params.get("q", "").strip(), _filter(params)
    if query:
        shown = {"hits": await _hits(request, query, filter), "memories": ()}
    else:
        shown = await _listed(request, filter)
    labels = await memories.facets(
        scope, filter=Filter(superseded=filter.superseded), limit=MOST_LABELS
    )
    chosen = {name: params.get(name, "") for name in (*NARROWED, "as_of", "width", "also")}
    chosen["show"] = "replaced" if filter.superseded else ""
    values = {
        "scope": scope,
        "query": query,
        "order": _order(params),
        "orders": ORDERS,
        "types": MEMORY_TYPES,
        "widths": WIDTHS,
        "stats": await memories.stats(scope),
        "topics": labels.topics,
        "tags": labels.tags,
        "chosen": chosen,
        "is_narrowed": any(chosen.values()),
        **typed,
    }
    return page(request, "memories.html", {**values, **shown, **shown_settings(request)}, status)


async def _hits(request: Request, query: str, filter: Filter) -> Recall:
    """Search the scopes that the address chooses; replaced memories are never searched."""
    scope, params = page_scope(request), request.query_params
    widths = {
        "user": Scopes(tenant=scope.tenant, user=scope.user),
        "app": Scopes(tenant=scope.tenant, app=scope.app),
    }
    searched = [caller_of(request).checked(widths.get(params.get("width", ""), scope))]
    if also := params.get("also", "").strip():  # another user of the same agent
        searched.append(scope_of(request, tenant=scope.tenant, user=also, app=scope.app))
    return await memories_of(request).recall(
        searched,
        query,
        limit=FOUND,
        filter=replace(filter, superseded=False),
        explain=True,
        deliver=False,
        as_of=moment(params, "as_of"),
        handover=True,
    )


async def _listed(request: Request, filter: Filter) -> dict[str, Any]:
    """Return a page of the list, and its place in it."""
    memories, scope, params = memories_of(request), page_scope(request), request.query_params
    text, order, cursor = params.get("page", ""), _order(params), params.get("cursor") or None
    number = max(1, int(text)) if text.isdecimal() and len(text) < 10 else 1
    if cursor is None and number > 1:
        cursor, number = await _cursor_of(memories, scope, filter, order, number)
    shown = await memories.list(scope, filter=filter, order=order, limit=SHOWN, cursor=cursor)
    return {
        "hits": None,
        "memories": shown.memories,
        "cursor": shown.cursor,
        "page": number,
        "first": (number - 1) * SHOWN + 1,
        "can_go_back": number * SHOWN <= MOST_SKIPPED,
        "total": (await memories.facets(scope, filter=filter, limit=0)).total,
    }


def _order(params: Mapping[str, str]) -> Order:
    orders: dict[str, Order] = {name: name for name in ORDERS}
    return orders.get(params.get("order", ""), "newest")


async def _cursor_of(
    memories: Memories, scope: Scope, filter: Filter, order: Order, number: int
) -> tuple[str | None, int]:
    """Where a page begins, and which page that is: an earlier one when there are not so many."""
    left, cursor = min((number - 1) * SHOWN, MOST_SKIPPED), None
    while left:
        skipped = await memories.list(
            scope, filter=filter, order=order, limit=min(left, SKIPPED_AT_ONCE), cursor=cursor
        )
        if skipped.cursor is None:
            return None, 1
        left, cursor = left - len(skipped.memories), skipped.cursor
    return cursor, min(number, MOST_SKIPPED // SHOWN + 1)


def _filter(params: Mapping[str, str]) -> Filter:
    kind, category, topic, tag = (params.get(name, "") for name in NARROWED)
    if (
        "\0" in kind + category + topic + tag
        or max(map(len, (kind, category, topic, tag))) > LONGEST_LABEL
    ):
        raise InvalidInput(
            f"A filter holds a NUL character, or more than {LONGEST_LABEL} characters."
        )
    return Filter(
        types=_types(kind),
        category=category or None,
        topics=(topic,) if topic else (),
        tags=(tag,) if tag else (),
        superseded="only" if params.get("show") == "replaced" else False,
    )


def _types(text: str) -> tuple[MemoryType, ...]:
    return tuple(kind for kind in MEMORY_TYPES if kind == text)


@router.post("/memories/add")
async def add(request: Request) -> Response:
    """Stores what somebody typed."""
    scope, form = page_scope(request), await own_form(request)
    content = field(form, "content")
    try:
        await memories_of(request).add(scope, [content], who=_who(request))
    except KagentMemoryError as error:
        return await _memories_page(
            request, {"wrong": message_of(error), "content": content}, family_of(error).http_status
        )
    return to("/memories", scope, done="added")


@router.post("/memories/chosen")
async def change_chosen(request: Request) -> Response:
    """Pins, unpins or deletes the memories that are ticked."""
    scope, form, memories = page_scope(request), await own_form(request), memories_of(request)
    ids = [known_id(id, "memory") for id in form.getlist("id") if isinstance(id, str)]
    what = field(form, "do")
    for id in ids if what in CHANGED else ():
        with suppress(NotFound):  # it went with another, or has expired
            if what == "delete":
                await memories.forget(scope, [id], who=_who(request))
            else:
                await memories.pin(scope, id, what == "pin", who=_who(request))
    return to("/memories", scope, done=CHANGED.get(what, "none") if ids else "none")


@router.get("/memories/delete-all")
async def confirm_delete_all(request: Request) -> Response:
    """Asks before everything is deleted."""
    scope = page_scope(request)
    stats = await memories_of(request).stats(scope)
    return page(request, "delete_all.html", {"scope": scope, "stats": stats})


@router.post("/memories/delete-all")
async def delete_all(request: Request) -> Response:
    """Deletes everything of the scope."""
    scope = page_scope(request)
    await own_form(request)
    await memories_of(request).forget(scope, everything=True, who=_who(request))
    return to("/memories", scope, done="all-deleted")


@router.get("/memories/{id}")
async def show(request: Request, id: str) -> Response:
    """One memory with its history."""
    return await _memory_page(request, await _memory(request, id), {}, "")


async def _memory_page(
    request: Request, memory: Memory, typed: Mapping[str, str], wrong: str, status: int = 200
) -> Response:
    """The page of a memory; `typed`: what its form holds instead of what is stored, `wrong`: why it
    was not stored.
    """
    scope = page_scope(request)
    revisions = await memories_of(request).history(scope, memory.id)
    told = [
        (revision, former(revision.before, after))
        for revision, after in with_after(memory, revisions)
    ]
    stored = {
        "content": memory.content,
        "type": memory.type,
        "category": memory.category or "",
        "importance": str(memory.importance),
        "ttl_days": "" if memory.ttl_days is None else str(memory.ttl_days),
        "topics": ", ".join(memory.topics),
        "tags": ", ".join(memory.tags),
        "why": "",
    }
    linked: list[Memory] = []
    for id in (*memory.links, *memory.source_ids):
        with suppress(NotFound):  # it has expired
            linked.append(await memories_of(request).get(scope, id))
    values = {
        "scope": scope,
        "memory": memory,
        "revisions": told[::-1],
        "types": MEMORY_TYPES,
        "wrong": wrong,
    }
    values |= {
        "linked": [one for one in linked if "source" not in (one.state, memory.state)],
        "words": [one for one in linked if one.state == "source"],
        "facts": [one for one in linked if memory.state == "source"],
    }
    values |= {"form": {**stored, **typed}, "can_undo": last_change(revisions) is not None}
    return page(request, "memory.html", {**values, **shown_settings(request)}, status)


def former(before: Memory | None, after: Memory | None) -> list[tuple[str, str]]:
    """What a change replaced: the parts that differ, each with its former value in words."""
    if before is None or after is None:
        return []
    replaced: list[tuple[str, str]] = []
    for name in COMPARED:
        value = getattr(before, name)
        if value == getattr(after, name):
            continue
        if isinstance(value, bool):
            value = "yes" if value else "no"
        elif isinstance(value, tuple):
            value = ", ".join(cast("tuple[str, ...]", value))
        replaced.append((name.replace("_", " "), "–" if value in (None, "") else str(value)))
    return replaced


async def _memory(request: Request, id: str) -> Memory:
    """A memory as it is, also when another one took its place."""
    memories, scope, id = memories_of(request), page_scope(request), known_id(id, "memory")
    try:
        return await memories.get(scope, id, superseded=True)
    except NotFound as error:
        raise NotFound("No such memory; it may have expired or been deleted.") from error


@router.post("/memories/{id}/edit")
async def edit(request: Request, id: str) -> Response:
    """Sets what the form says; when that fails, the form keeps what was typed."""
    scope, form, id = page_scope(request), await own_form(request), known_id(id, "memory")
    typed = {name: field(form, name) for name in EDITED}
    try:
        memory = await _memory(request, id)
    except (
        NotFound
    ) as error:  # meanwhile it expired or was deleted: what was typed can be stored as a new one
        return await _memories_page(
            request, {"wrong": message_of(error), "content": typed["content"]}, 404
        )
    try:
        ttl_days, kind = whole(typed["ttl_days"], "Days to live"), _types(typed["type"])
        await memories_of(request).edit(
            scope,
            id,
            content=_changed(typed["content"], memory.content),
            type=kind[0] if kind else None,
            category=_changed(typed["category"], memory.category or ""),
            topics=listed(typed["topics"]),
            tags=listed(typed["tags"]),
            importance=number(typed["importance"], "Importance"),
            ttl_days=_changed(ttl_days, memory.ttl_days),
            revision=whole(field(form, "revision"), "The revision"),
            who=_who(request),
            why=typed["why"],
        )
    except Conflict as error:
        wrong = f"{message_of(error)} Above is what is stored now; the form holds what you typed."
        return await _memory_page(request, await _memory(request, id), typed, wrong, 409)
    except KagentMemoryError as error:
        return await _memory_page(
            request, memory, typed, message_of(error), family_of(error).http_status
        )
    return to(f"/memories/{id}", scope, done="edited")


def _changed(value: Any, former: Any) -> Any:
    return None if value == former else value


@router.post("/memories/{id}/pin")
async def pin(request: Request, id: str) -> Response:
    """Pins or unpins a memory."""
    scope, form, id = page_scope(request), await own_form(request), known_id(id, "memory")
    pinned = field(form, "pinned") == "yes"
    await memories_of(request).pin(scope, id, pinned, who=_who(request))
    return to(f"/memories/{id}", scope, done="pinned" if pinned else "unpinned")


@router.post("/memories/{id}/undo")
async def undo(request: Request, id: str) -> Response:
    """Undoes the last change."""
    scope, _, id = page_scope(request), await own_form(request), known_id(id, "memory")
    await memories_of(request).undo(scope, id, who=_who(request))
    return to(f"/memories/{id}", scope, done="undone")


@router.post("/memories/{id}/delete")
async def delete(request: Request, id: str) -> Response:
    """Deletes one memory for good."""
    scope, _, id = page_scope(request), await own_form(request), known_id(id, "memory")
    await memories_of(request).forget(scope, [id], who=_who(request))
    return to("/memories", scope, done="deleted")


@router.get("/login")
async def login_form(request: Request) -> Response:
    """Asks for a token."""
    return page(request, "login.html", {"wrong": False})


@router.post("/login")
async def login(request: Request) -> Response:
    """Keeps the token in a cookie when it is valid."""
    form = await own_form(request)
    secret = field(form, "token")
    if await memories_of(request).tokens.authenticate(secret) is None:
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
