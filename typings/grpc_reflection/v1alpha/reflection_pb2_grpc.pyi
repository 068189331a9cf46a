import grpc.aio

from ._async import ReflectionServicer

def add_ServerReflectionServicer_to_server(
    servicer: ReflectionServicer, server: grpc.aio.Server
) -> None: ...
