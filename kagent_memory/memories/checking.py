"""What a doctor wants to know of memories that were opened."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from ..errors import KagentMemoryError
from ..records import new_id
from .components import Components


async def check(parts: Components) -> Mapping[str, str]:
    """See `MemoryApi.check`."""
    findings = {"store": "ok", "embedding": "keyword mode"}
    try:
        findings.update(await parts.store.about())
    except KagentMemoryError as error:
        findings["store"] = str(error)
    else:
        if "lacking" not in findings:
            findings["writing"] = await _outcome(parts.store.lease("doctor", new_id(), seconds=1))
    if parts.vectors is not None:
        findings["embedding"] = await _outcome(parts.vectors.ping())
    return findings


async def _outcome(attempt: Awaitable[object]) -> str:
    try:
        await attempt
    except KagentMemoryError as error:
        return str(error)
    return "ok"
