from collections.abc import AsyncGenerator, AsyncIterator, Iterable

import grpc.aio
from google.protobuf.descriptor_pool import DescriptorPool

class ReflectionServicer:
    def __init__(
        self, service_names: Iterable[str], pool: DescriptorPool | None = None
    ) -> None: ...
    def ServerReflectionInfo(
        self,
        request_iterator: AsyncIterator[object],
        unused_context: grpc.aio.ServicerContext[object, object],
    ) -> AsyncGenerator[object]: ...
