"""Parts that several sources use: selection of files, offsets of Kafka, decoding of messages."""
