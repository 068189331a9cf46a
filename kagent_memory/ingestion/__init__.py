"""The durable queue: transcripts come in, workers take them in, and each is applied exactly
once.
"""

from .job_handlers import JobHandlers
from .providers import Providers, ProviderUnavailable
from .worker import Worker

__all__ = ["JobHandlers", "ProviderUnavailable", "Providers", "Worker"]
