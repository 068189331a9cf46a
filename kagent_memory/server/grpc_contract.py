"""kagent's gRPC contract, read from its .proto when it is first wanted: no generated code."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any

from google.protobuf import descriptor_pb2, struct_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

FILE, PACKAGE = "kagent/api/v1alpha1/memory.proto", "kagent.api.v1alpha1"
SERVICE = f"{PACKAGE}.MemoryService"
_LINE = re.compile(
    r"message (?P<message>\w+) \{|rpc (?P<method>\w+)\((?P<takes>\w+)\) returns \((?P<gives>\w+)\);"
    r"|(?P<label>optional |repeated )?(?P<type>[\w.]+) (?P<field>\w+) = (?P<number>\d+);"
)
_Field = descriptor_pb2.FieldDescriptorProto


@cache
def pool() -> DescriptorPool:
    """The descriptors of the contract and of what it imports, in a pool of their own."""
    made = DescriptorPool()
    for imported in (struct_pb2, timestamp_pb2):
        made.AddSerializedFile(imported.DESCRIPTOR.serialized_pb)
    made.AddSerializedFile(file_descriptor().SerializeToString())
    return made


def file_descriptor() -> descriptor_pb2.FileDescriptorProto:
    """Return the descriptor that a compiler would make of the .proto."""
    file = descriptor_pb2.FileDescriptorProto(name=FILE, package=PACKAGE, syntax="proto3")
    file.dependency.extend([struct_pb2.DESCRIPTOR.name, timestamp_pb2.DESCRIPTOR.name])
    service = file.service.add(name="MemoryService")
    text = files("kagent_memory.server").joinpath("kagent.proto").read_text(encoding="utf-8")
    for match in filter(None, (_LINE.fullmatch(line.strip()) for line in text.splitlines())):
        if match["message"]:
            file.message_type.add(name=match["message"])
            continue
        if match["method"]:
            takes, gives = (f".{PACKAGE}.{match[part]}" for part in ("takes", "gives"))
            service.method.add(name=match["method"], input_type=takes, output_type=gives)
            continue
        message, kind = file.message_type[-1], match["type"]
        label = _Field.LABEL_REPEATED if match["label"] == "repeated " else _Field.LABEL_OPTIONAL
        field = message.field.add(name=match["field"], number=int(match["number"]), label=label)
        head, *more = match["field"].split("_")
        field.json_name = head + "".join(part.capitalize() for part in more)
        if kind.islower() and "." not in kind:
            field.type = _Field.Type.Value(f"TYPE_{kind.upper()}")
        else:
            field.type, field.type_name = (
                _Field.TYPE_MESSAGE,
                f".{kind}" if "." in kind else f".{PACKAGE}.{kind}",
            )
        if match["label"] == "optional ":  # proto3 tells what was given by a choice of one
            field.proto3_optional, field.oneof_index = True, len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{match['field']}")
    return file


@cache
def message_class(name: str) -> type[Message]:
    """The class of a message of the contract."""
    return GetMessageClass(pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))


def methods() -> dict[str, tuple[str, str]]:
    """Each method's name, and the names of the messages that it takes and gives."""
    service: Any = pool().FindServiceByName(SERVICE)
    return {
        method.name: (method.input_type.name, method.output_type.name) for method in service.methods
    }
