"""The choice of files in folders that are named for a day, of which only the newest are listed."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence

from hoodie.common.util.date_pattern import DatePattern
from hoodie.exception import HoodieReadFromSourceException
from hoodie.storage.storage import FileStatus
from hoodie.storage.storage_options import StorageOptions
from hoodie.utilities.config.dfs_source_config import DatePartitionPathSelectorConfig
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.sources.helpers.dfs_path_selector import DFSPathSelector
from hoodie.utilities.sources.helpers.source_listing import children_of, each_at_once, files_below, is_hidden

_DEPTH_KEY = "hoodie.streamer.source.dfs.datepartitioned.selector.depth"
_FORMAT_KEY = "hoodie.streamer.source.dfs.datepartitioned.date.format"
_EPOCH = datetime.date(1970, 1, 1)
_DAY_MS = 86_400_000


class DatePartitionPathSelector(DFSPathSelector):
    """Lists only the folders of the last days, so that a bucket of many years is looked at quickly.

    The folders are named as ``2026-07-05`` or ``dt=2026-07-05``, at one level below the root.

    Args:
        properties: The properties of the run.
        storage_options: Options of the storage of the files.

    Raises:
        HoodieConfigException: Properties are wrong.

    Hudi: org.apache.hudi.utilities.sources.helpers.DatePartitionPathSelector.
    """

    def __init__(self, properties: StreamerProperties, storage_options: StorageOptions | None = None) -> None:
        super().__init__(properties, storage_options)
        self._dated = properties.read(DatePartitionPathSelectorConfig)

    @property
    def parallelism(self) -> int:
        """See `DFSPathSelector.parallelism`."""
        return self._dated.parallelism

    def list_files(self) -> Iterable[FileStatus]:
        """The files below the folders of the last days; see `DFSPathSelector.list_files`.

        Raises:
            HoodieReadFromSourceException: The root is missing, or a name at the level of the days is no day.
            HoodieIOException: Storage failed.
        """
        if self._dated.depth == 0:
            return super().list_files()
        below = each_at_once(
            lambda folder: list(files_below(self.storage, folder)), self.list_dated_folders(), self.parallelism
        )
        return (file for files in below for file in files)

    def list_dated_folders(self) -> Sequence[str]:
        """The folders of the last days; the root alone if there are no dated folders.

        Raises:
            HoodieReadFromSourceException: The root is missing, or a name at the level of the days is no day.
            HoodieIOException: Storage failed.
        """
        found: list[FileStatus] = list(self.list_roots())
        for _ in range(self._dated.depth):
            self._refuse_files(found)
            listed = each_at_once(
                lambda path: [child for child in children_of(self.storage, path) if not is_hidden(child.name)],
                [folder.path for folder in found],
                self.parallelism,
            )
            found = [child for children in listed for child in children]
        self._refuse_files(found)
        if self._dated.depth == 0:
            return [folder.path for folder in found]
        last = self._dated.current_date or datetime.date.today()
        first = last - datetime.timedelta(days=min(self._dated.lookback_days, (last - datetime.date.min).days))
        return [folder.path for folder in found if first <= self._day_of(folder) <= last]

    def _refuse_files(self, found: Iterable[FileStatus]) -> None:
        for status in found:
            if not status.is_directory:
                raise HoodieReadFromSourceException(
                    f"{status.path} is a file, where a folder is expected that is named for a day or has such folders. "
                    f"Move the file, or correct {_DEPTH_KEY} = {self._dated.depth}"
                )

    def _day_of(self, folder: FileStatus) -> datetime.date:
        text = folder.name.partition("=")[2] if folder.name.count("=") == 1 else folder.name
        day = read_day(text, self._dated.date_format)
        if day is None:
            raise HoodieReadFromSourceException(
                f"The folder {folder.path} is not named for a day as {self._dated.date_format.text} ({_FORMAT_KEY}). "
                f"Correct the format, or {_DEPTH_KEY} = {self._dated.depth}, or give the folder a name that begins "
                "with '_'"
            )
        return day


def read_day(text: str, pattern: DatePattern) -> datetime.date | None:
    """The day that a text names; None if it names none.

    Args:
        text: The text.
        pattern: Its form.
    """
    try:
        found = pattern.read(text)
        return None if found is None else _EPOCH + datetime.timedelta(days=found.local_ms // _DAY_MS)
    except (ValueError, OverflowError):
        return None
