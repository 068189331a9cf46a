from . import _async as aio

SERVICE_NAME: str

__all__ = ["SERVICE_NAME", "aio"]
