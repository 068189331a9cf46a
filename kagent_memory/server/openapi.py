"""The part of `/openapi.json` on `/api/v1`, made from the signatures and docstrings of verbs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from .. import __version__
from ..memories.verbs import Verb
from .api import JSON, VERBS

DESCRIPTION = (
    "Long-term memory for agents: one route a verb. Where a call is about the memories of one "
    "agent and user, the "
    "query names them: `app`, `user` and `tenant`. What else a `GET` or `DELETE` takes stands "
    "in the query too, lists "
    "and objects as JSON; what others take stands in the body."
)
WHOSE: Mapping[str, str] = {
    "tenant": "Whose memories. Default: the caller's tenant, or the server's.",
    "user": "Whose memories: the user.",
    "app": "Whose memories: the agent's app name.",
}
NAMED_WITH_SCOPE = frozenset({"user", "app"})
Schema = dict[str, Any]


@cache
def document() -> Schema:
    """Return the description of all routes."""
    named = [(name, "validation", verb.wire_parameters) for name, verb in VERBS.items()]
    named += [
        (name, "serialization", verb.answer) for name, verb in VERBS.items() if not _is_lines(verb)
    ]
    schemas, shared = TypeAdapter.json_schemas(named, ref_template=("#/components/schemas/{model}"))  # pyright: ignore[reportArgumentType]
    definitions = dict(shared["$defs"])
    paths: dict[str, Schema] = {
        "/api/v1/info": {"get": _operation("info", "Say what this server is.", {})}
    }
    for name, verb in VERBS.items():
        arguments = _resolved(schemas[name, "validation"], definitions)["properties"]
        answer = {} if _is_lines(verb) else schemas[name, "serialization"]
        operation = _operation(name, verb.doc, answer, lines=_is_lines(verb)) | _request(
            verb, arguments
        )
        paths.setdefault(f"/api/v1{verb.path}", {})[verb.method.lower()] = operation
    for name in VERBS:
        definitions.pop(name, None)
    about = {"title": "kagent_memory", "version": __version__, "description": DESCRIPTION}
    return {
        "openapi": "3.1.0",
        "info": about,
        "paths": paths,
        "components": {"schemas": definitions},
    }


def _is_lines(verb: Verb) -> bool:
    return verb.is_stream or bool(verb.takes_file)


def _resolved(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    return definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def _operation(name: str, doc: str, answer: Schema, *, lines: bool = False) -> Schema:
    content = (
        {"application/jsonl": {"schema": {"type": "string"}}}
        if lines
        else {JSON: {"schema": answer}}
    )
    problem = {"application/problem+json": {"schema": {"type": "object"}}}
    return {
        "operationId": name,
        "summary": doc.partition(".")[0].replace("\n", " "),
        "description": doc,
        "responses": {
            "200": {"description": "The answer.", "content": content},
            "default": {"description": "What is wrong (RFC 9457).", "content": problem},
        },
    }


def _request(verb: Verb, arguments: Mapping[str, Schema]) -> Schema:
    """Return where the arguments of a verb stand."""
    described = {name: schema for name, schema in arguments.items() if name != "payloads"}
    required, in_query = verb.required - {"scope"}, set[str]()
    if verb.in_query:
        in_query |= described.keys()
    if "scope" in described:
        if not _names_several(described["scope"]):
            del described["scope"]
            required |= NAMED_WITH_SCOPE - verb.types.keys()
        described |= {name: {"type": "string", "description": text} for name, text in WHOSE.items()}
        in_query |= WHOSE.keys()
    in_path = {name for name in described if f"{{{name}}}" in verb.path}
    parameters = [
        _parameter(
            name,
            "path" if name in in_path else "query",
            described.pop(name),
            required=name in required | in_path,
        )
        for name in [*described]
        if name in in_path | in_query
    ]
    if verb.takes_file:
        file = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        return {"parameters": parameters, "requestBody": {"required": True, "content": file}}
    if verb.in_query:
        return {"parameters": parameters}
    schema = {
        "type": "object",
        "properties": described,
        "required": [name for name in described if name in required],
        "additionalProperties": False,
    }
    body = {"required": True, "content": {JSON: {"schema": schema}}}
    return {"parameters": parameters, "requestBody": body}


def _names_several(schema: Schema) -> bool:
    return any(part.get("type") == "array" for part in schema.get("anyOf", ()))


def _parameter(name: str, place: str, schema: Schema, *, required: bool) -> Schema:
    parts: Sequence[Schema] = schema.get("anyOf", [schema])
    has_parts = any("$ref" in part or part.get("type") in ("array", "object") for part in parts)
    value = {"content": {JSON: {"schema": schema}}} if has_parts else {"schema": schema}
    return {"name": name, "in": place, "required": required, **value}
