"""Hudi's key generators by their names, as properties of tables and writers spell them.

Hudi: org.apache.hudi.keygen.constant.KeyGeneratorType.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

KEY_GENERATOR_PACKAGE = "org.apache.hudi.keygen."
KEY_GENERATORS: Mapping[str, str] = {
    "SIMPLE": "SimpleKeyGenerator",
    "COMPLEX": "ComplexKeyGenerator",
    "NON_PARTITION": "NonpartitionedKeyGenerator",
    "TIMESTAMP": "TimestampBasedKeyGenerator",
    "CUSTOM": "CustomKeyGenerator",
}
"""The key generators that hoodie has: type -> class without its package.

Each has a twin in Hudi, for Avro records: see `avro_name`. The type of the twin is ``SIMPLE_AVRO`` and so on.
"""

USER_PROVIDED = "USER_PROVIDED"
"""The type of a user's class, which ``hoodie.table.keygenerator.class`` names."""

GENERATED_KEYS = "generated"
"""The value of ``record_key_fields`` that makes a table without record key fields."""


def avro_name(class_name: str) -> str:
    """The twin of a class, which makes the same keys from Avro records: ``SimpleAvroKeyGenerator``."""
    return class_name.replace("KeyGenerator", "AvroKeyGenerator")


def class_of_type(name: str) -> str:
    """The class, with its package, of a type such as ``SIMPLE``; another name is returned unchanged.

    Args:
        name: The value of a property ``keygenerator.type``.
    """
    kind = name.upper()
    found = KEY_GENERATORS.get(kind.removesuffix("_AVRO"))
    if found is None:
        return name
    return KEY_GENERATOR_PACKAGE + (avro_name(found) if kind.endswith("_AVRO") else found)


def type_of_class(name: str) -> str:
    """The name of a class's type, as ``hoodie.table.keygenerator.type`` of versions 8 and 9 holds it.

    Args:
        name: A class of Hudi without its package, or a user's class.

    Returns:
        Such as ``SIMPLE``; `USER_PROVIDED` for a user's class.
    """
    return next((kind for kind, class_name in KEY_GENERATORS.items() if class_name == name), USER_PROVIDED)


def infer_key_generator_type(record_key_fields: Sequence[str], partition_fields: Sequence[str]) -> str:
    """The type that Hudi uses if none is named: NON_PARTITION, SIMPLE (one field each) or COMPLEX.

    Without record key fields, whose keys are generated, the partition fields alone decide.

    Hudi: org.apache.hudi.keygen.KeyGenUtils.inferKeyGeneratorType.
    """
    if not partition_fields:
        return "NON_PARTITION"
    return "SIMPLE" if len(record_key_fields) <= 1 and len(partition_fields) == 1 else "COMPLEX"
