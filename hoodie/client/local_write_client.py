"""The in-process write client: no Spark, no JVM.

Hudi: org.apache.hudi.client.HoodieJavaWriteClient.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from hoodie.client.base_write_client import BaseHoodieWriteClient
from hoodie.client.validator.pre_commit_validators import HoodiePreCommitValidator, Validator
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.metrics.progress import ProgressCallback


class HoodieLocalWriteClient(BaseHoodieWriteClient):
    """Writes one table from this process, on all its cores.

    ``records`` may be anything with ``__arrow_c_stream__`` (pyarrow, pandas, polars, DuckDB), or a LazyFrame of polars;
    a `pyarrow.dataset.Dataset`, or paths or globs of CSV, JSON lines, Parquet or Arrow files; an iterator of record
    batches; a list of dicts, of `HoodieRecord`, or of instances of dataclasses, attrs classes or pydantic models; or a
    dict of name to list. See `hoodie.common.data.record_source.record_batches`. ``bulk_insert`` reads files and
    iterators as a stream and holds a few batches; the other operations hold the input.

    Args:
        config: The writer's configuration; or the table's folder, for one without properties.
        context: The engine; None creates one that uses all cores.
        on_progress: Called with every `ProgressEvent`; see `BaseHoodieWriteClient`.
        validators: Asked before each commit; see `BaseHoodieWriteClient`.

    Hudi: org.apache.hudi.client.HoodieJavaWriteClient.
    """

    def __init__(
        self,
        config: HoodieWriteConfig | str | os.PathLike[str],
        context: LocalEngineContext | None = None,
        *,
        on_progress: ProgressCallback | None = None,
        validators: Sequence[Validator | HoodiePreCommitValidator] = (),
    ) -> None:
        if isinstance(config, str | os.PathLike):
            config = HoodieWriteConfig.from_properties(os.fspath(config), {})
        super().__init__(context or LocalEngineContext(), config, on_progress, validators)
