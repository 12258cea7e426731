"""Descriptor sets of Protobuf, as protoc writes them, and their messages."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2

Field = descriptor_pb2.FieldDescriptorProto
SCALARS = ("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes", "uint32",
           "sfixed32", "sfixed64", "sint32", "sint64")  # fmt: skip


def field(message: Any, name: str, kind: str, number: int, label: int = Field.LABEL_OPTIONAL, **more: Any) -> Any:
    """Add a field to a message; a kind with a dot is the type of a message or of an enum."""
    found = message.field.add(name=name, number=number, label=label, **more)
    if kind.startswith("enum "):
        found.type, found.type_name = Field.TYPE_ENUM, kind.removeprefix("enum ")
    elif "." in kind:
        found.type, found.type_name = Field.TYPE_MESSAGE, kind
    else:
        found.type = getattr(Field, f"TYPE_{kind.upper()}")
    return found


def trip_file() -> Any:
    """The file ``trips.proto``, with a field of each kind."""
    file = descriptor_pb2.FileDescriptorProto(name="trips.proto", package="trips", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    color = file.enum_type.add(name="Color")
    for number, name in enumerate(["RED", "GREEN"]):
        color.value.add(name=name, number=number)
    file.message_type.add(name="Other")
    trip = file.message_type.add(name="Trip")
    for number, kind in enumerate(SCALARS, 1):
        field(trip, f"a_{kind}", kind, number)
    repeated = Field.LABEL_REPEATED
    field(trip, "color", "enum .trips.Color", 20)
    field(trip, "at", ".google.protobuf.Timestamp", 21)
    field(trip, "count", ".google.protobuf.Int64Value", 22)
    field(trip, "tags", "string", 23, repeated)
    field(trip, "point", ".trips.Trip.Point", 24)
    field(trip, "points", ".trips.Trip.Point", 25, repeated)
    field(trip, "fares", ".trips.Trip.FaresEntry", 26, repeated)
    trip.oneof_decl.add(name="either")
    field(trip, "left", "int32", 27, oneof_index=0)
    field(trip, "right", "string", 28, oneof_index=0)
    trip.oneof_decl.add(name="_maybe")
    field(trip, "maybe", "int32", 29, oneof_index=1, proto3_optional=True)
    field(trip, "next", ".trips.Trip", 30)
    field(trip, "instants", ".google.protobuf.Timestamp", 31, repeated)
    point = trip.nested_type.add(name="Point")
    field(point, "x", "double", 1)
    field(point, "color", "enum .trips.Color", 2)
    entry = trip.nested_type.add(name="FaresEntry")
    entry.options.map_entry = True
    field(entry, "key", "string", 1)
    field(entry, "value", ".trips.Trip.Point", 2)
    return file


def descriptor_set(*files: Any, with_imports: bool = True) -> bytes:
    """The content of a descriptor set file."""
    found = descriptor_pb2.FileDescriptorSet()
    for module in (timestamp_pb2, wrappers_pb2) if with_imports else ():
        module.DESCRIPTOR.CopyToProto(found.file.add())
    found.file.extend(files)
    return bytes(found.SerializeToString())


def message_class(descriptors: bytes, name: str) -> Any:
    """The class of messages, apart from the decoder's own."""
    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors)
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
