"""The contract of the classes of ``--initial-checkpoint-provider``, and the one that a user names.

Hudi: org.apache.hudi.utilities.checkpointing.InitialCheckPointProvider.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from hoodie.exception import HoodieConfigException
from hoodie.storage.storage_options import StorageOptions
from hoodie.utilities.class_names import INITIAL_CHECKPOINT_PROVIDERS, find_class
from hoodie.utilities.config.streamer_properties import StreamerProperties

PATH: Final = "hoodie.streamer.checkpoint.provider.path"
"""The property with the folder that a provider looks at."""
FLAG: Final = "--initial-checkpoint-provider"


class InitialCheckPointProvider(ABC):
    """Tells the position of the first round of a table, from what another program has written.

    Hudi: org.apache.hudi.utilities.checkpointing.InitialCheckPointProvider.

    Args:
        properties: The properties of the run.
        storage_options: Options of the storage.

    Raises:
        HoodieConfigException: ``hoodie.streamer.checkpoint.provider.path`` is missing.
    """

    def __init__(self, properties: StreamerProperties, storage_options: StorageOptions | None = None) -> None:
        self.properties = properties
        self.storage_options = storage_options
        self.path = properties.get(PATH, "").strip()
        if not self.path:
            raise HoodieConfigException(
                f"{FLAG} {type(self).__name__} needs {PATH}: the folder that tells the position"
            )

    @abstractmethod
    def load_checkpoint(self) -> str:
        """Find the position, as ``--checkpoint`` takes it.

        Raises:
            HoodieStreamerException: There is none; the message says what was looked at.
        """


def make_initial_checkpoint_provider(
    name: str, properties: StreamerProperties, storage_options: StorageOptions | None = None
) -> InitialCheckPointProvider:
    """Make the provider that a user names.

    Args:
        name: A class of Hudi, or a subclass of `InitialCheckPointProvider` as ``module:Class``.
        properties: The properties of the run.
        storage_options: Options of the storage.

    Raises:
        HoodieConfigException: There is no such class, or the path is missing.
    """
    found = find_class(name, INITIAL_CHECKPOINT_PROVIDERS, FLAG, InitialCheckPointProvider)
    return found(properties, storage_options)
