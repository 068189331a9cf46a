"""Which version of the package serves."""

from __future__ import annotations

from importlib.metadata import version

VERSION = version("kagent-memory")
