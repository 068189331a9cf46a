"""Our URI schemes for `--memory_service_uri` of ADK's command line."""

from __future__ import annotations

from google.adk.cli.service_registry import get_service_registry

from .service import KagentMemoryService

STORES = ("libsql", "libsql+http", "libsql+https", "postgresql", "postgres", "pgserver")
SCHEMES = ("kagent", *STORES, *(f"kagent+{store}" for store in STORES))


def register() -> None:
    """Add our schemes to ADK's service registry in this process; repeating it is harmless."""
    registry = get_service_registry()
    for scheme in SCHEMES:
        registry.register_memory_service(scheme, KagentMemoryService)


def main() -> None:
    """Run `kagent-memory-adk …`: ADK's own command line with our schemes."""
    # fastapi and more: only for the command line
    from google.adk.cli.cli_tools_click import main as adk

    register()
    adk()
