import grpc.aio

from ._async import HealthServicer

def add_HealthServicer_to_server(servicer: HealthServicer, server: grpc.aio.Server) -> None: ...
