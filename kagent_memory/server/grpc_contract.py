"""kagent's gRPC contract, from the descriptors that protoc makes of `kagent.proto`: no generated
code.

They are written by `protoc --include_imports --descriptor_set_out=kagent.binpb`; a test says when
they differ from the contract.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

SERVICE = "kagent.api.v1alpha1.MemoryService"


def descriptors() -> FileDescriptorSet:
    """Return the descriptors of what the contract imports and, last, of the contract."""
    made = files("kagent_memory.server").joinpath("kagent.binpb").read_bytes()
    return FileDescriptorSet.FromString(made)


@cache
def pool() -> DescriptorPool:
    """Return the descriptors in a pool of their own."""
    made = DescriptorPool()
    for file in descriptors().file:
        made.AddSerializedFile(file.SerializeToString())
    return made


@cache
def methods() -> dict[str, tuple[type[Message], type[Message]]]:
    """Return each method's name, and the classes of the messages that it takes and gives."""
    service: Any = pool().FindServiceByName(SERVICE)
    return {
        method.name: (GetMessageClass(method.input_type), GetMessageClass(method.output_type))
        for method in service.methods
    }
