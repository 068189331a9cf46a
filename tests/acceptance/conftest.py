"""Journeys of users: whole programs and long conversations."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "ignore:.*EXPERIMENTAL.*:UserWarning")  # of old ADKs
