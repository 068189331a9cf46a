import grpc.aio

from ._async import HealthServicer
from .health_pb2 import HealthCheckRequest, HealthCheckResponse

class HealthStub:
    def __init__(self, channel: grpc.aio.Channel) -> None: ...
    async def Check(self, request: HealthCheckRequest) -> HealthCheckResponse: ...

def add_HealthServicer_to_server(servicer: HealthServicer, server: grpc.aio.Server) -> None: ...
