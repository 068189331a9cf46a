"""`MemoryPlugin`: memory for a whole `App`, whichever of its agents is running."""

from __future__ import annotations

import asyncio
import time
import weakref

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin
from typing_extensions import override

from ..memories.tool_answers import report
from .arguments import check_option
from .autosave import AutoSave, save_if_due
from .prefetch import Prefetch
from .service import KagentMemoryService


class MemoryPlugin(BasePlugin):
    """Prefetch at the start of a session and save it by itself, with the memory service of the
    runner.

    Args:
        name: as ADK's command line passes it.
        auto_save: when sessions are saved; None: never.
        prefetch: what is put before the model; None: nothing.
        drain_seconds: how long `close` waits for queued work; ADK allows 5 s.

    Raises:
        ConfigurationError: `auto_save` or `prefetch` is something else.
    """

    def __init__(
        self,
        name: str = "kagent_memory",
        *,
        auto_save: AutoSave | None = AutoSave(),
        prefetch: Prefetch | None = Prefetch(),
        drain_seconds: float = 4.0,
    ) -> None:
        super().__init__(name=name)
        self.auto_save = check_option("auto_save", auto_save, AutoSave | None)
        self.prefetch = check_option("prefetch", prefetch, Prefetch | None)
        self.drain_seconds = drain_seconds
        self._served: weakref.WeakSet[KagentMemoryService] = weakref.WeakSet()

    @override
    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """Insert what was prefetched for this invocation; it never raises."""
        if self.prefetch is not None:
            await self.prefetch.insert(callback_context, llm_request)

    @override
    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Save what is due; it never raises."""
        if isinstance(invocation_context.memory_service, KagentMemoryService):
            self._served.add(invocation_context.memory_service)
        if self.auto_save is not None:
            await save_if_due(invocation_context, self.auto_save)

    @override
    async def close(self) -> None:
        """Let queued work end for some seconds; the services stay open, for they are not the
        plugin's.
        """
        end = time.monotonic() + self.drain_seconds
        for service in list(self._served):
            left = max(0.0, end - time.monotonic())
            try:
                await asyncio.wait_for(service.drain(left), left + 0.1)
            except Exception as error:
                report(self.name, error)
