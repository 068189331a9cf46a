"""The durable queue: transcripts come in, workers take them in, and each is applied exactly once."""

from .intake import Intake
from .providers import Providers, Unresolvable
from .steps import Steps
from .worker import Worker

__all__ = ["Intake", "Providers", "Steps", "Unresolvable", "Worker"]
