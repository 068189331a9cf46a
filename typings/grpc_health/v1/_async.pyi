import grpc.aio

from .health_pb2 import HealthCheckRequest

class HealthServicer:
    async def set(self, service: str, status: int) -> None: ...
    async def enter_graceful_shutdown(self) -> None: ...
    async def Watch(
        self, request: HealthCheckRequest, context: grpc.aio.ServicerContext[object, object]
    ) -> None: ...
