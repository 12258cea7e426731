"""Show a client in a notebook."""

from __future__ import annotations

from collections.abc import Sequence

from hoodie.common.config.property import display_value
from hoodie.common.util.shown_table import ShownTable
from hoodie.config.write_config import HoodieWriteConfig


def client_html(name: str, config: HoodieWriteConfig, state: Sequence[str]) -> str:
    """A client as HTML: its table, its index, its state and the options that were given.

    Nothing is read from storage, and no secret is shown.

    Args:
        name: The client's class.
        config: Its options.
        state: Further facts, such as pending instants, or that the client is closed.
    """
    rows = [
        ("table", _shown("hoodie.base.path", config.base_path)),
        ("index", config.index.index_name),
        *(("state", text) for text in state),
        *((key, _shown(key, value)) for key, value in sorted(config.properties.items())),
    ]
    return ShownTable(("", ""), rows, len(rows), title=(name,)).to_html()


def _shown(key: str, value: object) -> str:
    return display_value(key, value).removeprefix("'").removesuffix("'")
