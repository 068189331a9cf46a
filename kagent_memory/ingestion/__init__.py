"""The durable queue: workers learn from queued transcripts, each exactly once."""

from .job_handlers import JobHandlers
from .providers import Providers, ProviderUnavailable
from .worker import Worker

__all__ = ["JobHandlers", "ProviderUnavailable", "Providers", "Worker"]
