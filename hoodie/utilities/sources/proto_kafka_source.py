"""Protobuf messages of a topic of Kafka."""

from __future__ import annotations

from hoodie.exception import HoodieConfigException
from hoodie.utilities.config.proto_kafka_source_config import (
    CLASS_NAME,
    DESCRIPTOR_FILE,
    MESSAGE_NAME,
    ProtoDeserializer,
    ProtoKafkaSourceConfig,
)
from hoodie.utilities.schema.schema_files import read_bytes
from hoodie.utilities.sources.helpers.message_decoder import MessageDecoder
from hoodie.utilities.sources.helpers.proto_columns import ProtoOptions
from hoodie.utilities.sources.helpers.proto_decoder import ProtoDecoder, require_protobuf
from hoodie.utilities.sources.kafka_source import FirstMessages, KafkaSource
from hoodie.utilities.sources.source import SourceContext


class ProtoKafkaSource(KafkaSource):
    """A topic whose messages are of one type of Protobuf; a descriptor set file tells their columns.

    Args:
        context: The properties and storage of the run.

    Raises:
        HoodieConfigException: Properties are missing or wrong, or protobuf is missing.

    Hudi: org.apache.hudi.utilities.sources.ProtoKafkaSource. Differs: a file and a name describe the messages, not a
        class of Java.
    """

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        require_protobuf()
        self._decoding = context.properties.read(ProtoKafkaSourceConfig)
        if self._decoding.descriptor_file is None or self._decoding.message_name is None:
            given = self._decoding.class_name
            java = "" if given is None else f"; {CLASS_NAME} = {given} is a class of Java, which does not run here"
            raise HoodieConfigException(
                f"ProtoKafkaSource needs {DESCRIPTOR_FILE}, which protoc --include_imports --descriptor_set_out=FILE "
                f"makes, and {MESSAGE_NAME}, such as trips.Trip{java}"
            )
        self._file, self._message_name = self._decoding.descriptor_file, self._decoding.message_name

    def make_decoder(self, first_messages: FirstMessages) -> MessageDecoder:
        """The decoder of this round, of the file as it is now; see `KafkaSource.make_decoder`.

        Args:
            first_messages: Not used.
        """
        options = ProtoOptions(
            self._decoding.wrappers_as_records,
            self._decoding.timestamps_as_records,
            self._decoding.max_recursion_depth,
        )
        return ProtoDecoder(
            read_bytes(self._file, self.context.storage_options, "descriptor set"),
            self._message_name,
            options,
            self._decoding.deserializer_class is ProtoDeserializer.REGISTRY,
            f"the descriptor set {self._file}",
        )
