from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc.aio

from ._async import ReflectionServicer
from .reflection_pb2 import ServerReflectionRequest

class ServerReflectionStub:
    def __init__(self, channel: grpc.aio.Channel) -> None: ...
    def ServerReflectionInfo(
        self, request_iterator: Iterator[ServerReflectionRequest]
    ) -> AsyncIterator[Any]: ...

def add_ServerReflectionServicer_to_server(
    servicer: ReflectionServicer, server: grpc.aio.Server
) -> None: ...
