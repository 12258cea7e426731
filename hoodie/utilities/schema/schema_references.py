"""Avro schemas that refer to types of other schemas, as one schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hoodie.avro.schema_reader import PRIMITIVES, full_name
from hoodie.exception import HoodieSchemaException

_MAX_DEPTH = 200


def inline_references(schema: str, definitions: Mapping[str, str]) -> str:
    """The schema with the definitions of the types that it refers to, each at its first use.

    Args:
        schema: JSON of a schema.
        definitions: The full name of a type -> JSON of its schema, which may refer to others of these.

    Raises:
        HoodieSchemaException: A text is no JSON, or types nest too deeply.
    """
    return json.dumps(_Inliner(definitions).inline(_parsed(schema), "", 0))


class _Inliner:
    def __init__(self, definitions: Mapping[str, str]) -> None:
        self._definitions = definitions
        self._defined: set[str] = set()

    def inline(self, avro: Any, namespace: str, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise HoodieSchemaException("the schema is nested too deeply")
        if isinstance(avro, list):
            return [self.inline(branch, namespace, depth + 1) for branch in avro]
        if isinstance(avro, str):
            return self._reference(avro, namespace, depth)
        if not isinstance(avro, dict):
            return avro
        if isinstance(avro.get("name"), str) and avro.get("type") in ("record", "error", "enum", "fixed"):
            name, namespace = full_name(avro, namespace)
            self._defined.add(name)
        changed = dict(avro)
        for key in ("items", "values"):
            if key in avro:
                changed[key] = self.inline(avro[key], namespace, depth + 1)
        if avro.get("type") not in ("record", "error", "enum", "fixed", "array", "map") and "type" in avro:
            changed["type"] = self.inline(avro["type"], namespace, depth + 1)
        if isinstance(avro.get("fields"), list):
            changed["fields"] = [
                {**field, "type": self.inline(field["type"], namespace, depth + 1)}
                if isinstance(field, dict) and "type" in field
                else field
                for field in avro["fields"]
            ]
        return changed

    def _reference(self, name: str, namespace: str, depth: int) -> Any:
        if name in PRIMITIVES:
            return name
        inside = f"{namespace}.{name}" if namespace and "." not in name else name
        for candidate in (inside, name):
            if candidate in self._defined:
                return candidate
            if candidate in self._definitions:
                definition = _parsed(self._definitions[candidate])
                if isinstance(definition, dict) and isinstance(definition.get("name"), str):
                    # Its own namespace, not that of the place where it stands now.
                    full, space = full_name(definition, "")
                    definition |= {"name": full.rpartition(".")[2], "namespace": space}
                return self.inline(definition, "", depth + 1)
        return name


def _parsed(schema: str) -> Any:
    try:
        return json.loads(schema)
    except (ValueError, RecursionError) as error:
        raise HoodieSchemaException(f"a schema is not JSON ({error})") from error
