"""Real Hudi as a server: one JVM that does what lines of JSON on standard input say, and answers with lines of JSON.

It runs inside an environment with PySpark 3.5, where hoodie is not installed, and imports nothing of this repository.
Rows come and go as Parquet files. Started by `tests.interop.hudi_process`:

    python hudi_server.py <bundle jar> <work folder>
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
import traceback
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def start_session(bundle: str, work_folder: str) -> SparkSession:
    session = (
        SparkSession.builder.appName("hoodie-interop")
        .master("local[1]")
        .config("spark.driver.extraClassPath", bundle)
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.default.parallelism", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC -XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
        .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.hudi.catalog.HoodieCatalog")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .config("spark.sql.parquet.datetimeRebaseModeInRead", "CORRECTED")
        .config("spark.sql.parquet.datetimeRebaseModeInWrite", "CORRECTED")
        .config("spark.sql.warehouse.dir", os.path.join(work_folder, "warehouse"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("WARN")
    return session


def write(spark: SparkSession, command: dict[str, Any]) -> None:
    """Write the rows of a Parquet file to the table, as they stand there."""
    writer = spark.read.parquet(command["rows"]).write.format("hudi").options(**command["options"])
    writer.mode(command["mode"]).save(command["base_path"])


def read(spark: SparkSession, command: dict[str, Any]) -> None:
    """Write the rows of the table, meta columns included, to a folder of Parquet files: all, or those asked for."""
    table = spark.read.format("hudi").options(**command["options"]).load(command["base_path"])
    if command.get("condition"):
        table = table.where(command["condition"])
    table.coalesce(1).write.mode("overwrite").parquet(command["rows"])


def read_each(spark: SparkSession, command: dict[str, Any]) -> list[str | None]:
    """Read the table once for each set of options, each to a folder of its own; what went wrong, or null."""
    errors: list[str | None] = []
    for number, options in enumerate(command["queries"]):
        rows = os.path.join(command["rows"], str(number))
        try:
            read(spark, {"base_path": command["base_path"], "options": options, "rows": rows})
        except Exception:
            errors.append(traceback.format_exc())
        else:
            errors.append(None)
    return errors


def stream(spark: SparkSession, command: dict[str, Any]) -> None:
    """Write the Parquet files of a folder as a stream, one file a batch, until all are written."""
    schema = spark.read.parquet(command["source"]).schema
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(command["source"])
    writer = frame.writeStream.format("hudi").options(**command["options"]).outputMode("append")
    writer = writer.option("checkpointLocation", command["checkpoint"]).trigger(availableNow=True)
    writer.start(command["base_path"]).awaitTermination()


def read_stream(spark: SparkSession, command: dict[str, Any]) -> None:
    """Go on with a stream of the table's changes until there are no more; the rows go to a folder of Parquet files."""
    frame = spark.readStream.format("hudi").options(**command["options"]).load(command["base_path"])
    writer = frame.writeStream.format("parquet").option("path", command["rows"]).outputMode("append")
    writer = writer.option("checkpointLocation", command["checkpoint"]).trigger(availableNow=True)
    writer.start().awaitTermination()


def set_table_properties(spark: SparkSession, command: dict[str, Any]) -> None:
    """Store properties of the table with Hudi's own code."""
    jvm = spark.sparkContext._jvm
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    conf = jvm.org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConfWithCopy(hadoop)
    builder = jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
    meta_client = builder.setConf(conf).setBasePath(command["base_path"]).build()
    properties = jvm.java.util.Properties()
    for name, value in command["properties"].items():
        properties.setProperty(name, value)
    update = jvm.org.apache.hudi.common.table.HoodieTableConfig.update
    update(meta_client.getStorage(), meta_client.getMetaPath(), properties)


def index(spark: SparkSession, command: dict[str, Any]) -> bool:
    """Carry out a plan of indexing; whether something was built."""
    jvm = spark.sparkContext._jvm
    no_table = jvm.scala.Option.apply(None)
    make_client = jvm.org.apache.hudi.HoodieCLIUtils.createHoodieWriteClient
    options = jvm.PythonUtils.toScalaMap(command["options"])
    client = make_client(spark._jsparkSession, command["base_path"], options, no_table)
    try:
        return bool(client.index(command["instant_time"]).isPresent())
    finally:
        client.close()


def schedule_log_compaction(spark: SparkSession, command: dict[str, Any]) -> str | None:
    """Plan a log compaction; its instant, if there is one."""
    jvm = spark.sparkContext._jvm
    no_table = jvm.scala.Option.apply(None)
    make_client = jvm.org.apache.hudi.HoodieCLIUtils.createHoodieWriteClient
    options = jvm.PythonUtils.toScalaMap(command["options"])
    client = make_client(spark._jsparkSession, command["base_path"], options, no_table)
    try:
        planned = client.scheduleLogCompaction(jvm.org.apache.hudi.common.util.Option.empty())
        return str(planned.get()) if planned.isPresent() else None
    finally:
        client.close()


def rollback(spark: SparkSession, command: dict[str, Any]) -> bool:
    """Roll back a completed instant. The procedure ``rollback_to_instant`` of 1.x does not find such timelines."""
    jvm = spark.sparkContext._jvm
    options = jvm.PythonUtils.toScalaMap({**command["options"], "hoodie.rollback.using.markers": "false"})
    no_table = jvm.scala.Option.apply(None)
    make_client = jvm.org.apache.hudi.HoodieCLIUtils.createHoodieWriteClient
    client = make_client(spark._jsparkSession, command["base_path"], options, no_table)
    try:
        return bool(client.rollback(command["instant_time"]))
    finally:
        client.close()


def hive_sync(spark: SparkSession, command: dict[str, Any]) -> None:
    """Tell a Hive metastore of a table with Hudi's own tool."""
    context = spark.sparkContext
    conf = context._jvm.org.apache.hadoop.conf.Configuration(context._jsc.hadoopConfiguration())
    conf.set("hive.metastore.uris", command["uri"])
    properties = context._jvm.java.util.Properties()
    for name, value in command["properties"].items():
        properties.setProperty(name, value)
    tool = context._jvm.org.apache.hudi.hive.HiveSyncTool(properties, conf)
    try:
        tool.syncHoodieTable()
    finally:
        tool.close()


def set_hadoop_property(spark: SparkSession, command: dict[str, Any]) -> None:
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    if command["value"] is None:
        configuration.unset(command["name"])
    else:
        configuration.set(command["name"], command["value"])


def sql(spark: SparkSession, command: dict[str, Any]) -> list[list[str]]:
    return [[str(value) for value in row] for row in spark.sql(command["text"]).collect()]


def bucket_hashes(spark: SparkSession, command: dict[str, Any]) -> list[int]:
    """Hash of each (hash fields, record key): the bucket among as many as there can be."""
    identifier = spark.sparkContext._jvm.org.apache.hudi.index.bucket.BucketIdentifier
    return [identifier.getBucketId(key, fields, 2**31 - 1) for fields, key in command["keys"]]


def partition_values(spark: SparkSession, command: dict[str, Any]) -> list[list[str] | None]:
    """The values of each path by one of Hudi's extractors; None where it raises an error."""
    extractor = getattr(spark.sparkContext._jvm.org.apache.hudi.hive, command["extractor"])()
    found: list[list[str] | None] = []
    for path in command["paths"]:
        try:
            found.append(list(extractor.extractPartitionValuesInPath(path)))
        except (Py4JJavaError, PySparkException):
            found.append(None)
    return found


def curve_numbers(spark: SparkSession, command: dict[str, Any]) -> list[dict[str, Any]]:
    """For each row and column the 8 bytes of the Z-order, in hex, and the number of the Hilbert curve."""
    jvm, gateway = spark.sparkContext._jvm, spark.sparkContext._gateway
    frame = spark.read.parquet(command["rows"])._jdf
    fields, types = list(frame.schema().fieldNames()), [field.dataType() for field in frame.schema().fields()]
    class_of = jvm.java.lang.Class.forName
    parameters = gateway.new_array(jvm.java.lang.Class, 3)
    parameters[0] = class_of("org.apache.spark.sql.Row")
    parameters[1] = jvm.java.lang.Integer.TYPE
    parameters[2] = class_of("org.apache.spark.sql.types.DataType")
    helper = class_of("org.apache.hudi.sort.SpaceCurveSortingHelper")
    methods = [helper.getDeclaredMethod(f"mapColumnValueTo{kind}", parameters) for kind in ("8Bytes", "Long")]
    for method in methods:
        method.setAccessible(True)
    found = []
    for row in frame.collectAsList():
        numbers = {}
        for name in command["columns"]:
            given = gateway.new_array(jvm.java.lang.Object, 3)
            given[0], given[1], given[2] = row, fields.index(name), types[fields.index(name)]
            stored, number = (method.invoke(None, given) for method in methods)
            numbers[name] = (bytes(stored).hex(), number)
        found.append(numbers)
    return found


def sorted_along_curve(spark: SparkSession, command: dict[str, Any]) -> list[int]:
    """The values of the column ``number`` in the order in which a clustering puts the rows."""
    jvm = spark.sparkContext._jvm
    frame = spark.read.parquet(command["rows"])
    strategies = _package(jvm, "org.apache.hudi.config.HoodieClusteringConfig$LayoutOptimizationStrategy")
    sort = jvm.org.apache.hudi.sort.SpaceCurveSortingHelper.orderDataFrameByMappingValues
    columns = jvm.java.util.ArrayList(command["columns"])
    ordered = sort(frame._jdf, strategies.valueOf(command["strategy"]), columns, 1)
    return [row.getLong(0) for row in ordered.select("number", jvm.PythonUtils.toSeq([])).collectAsList()]


def archived_commits(spark: SparkSession, command: dict[str, Any]) -> list[list[str]]:
    """Time and operation of the commits in the archived timeline, as Hudi reads it."""
    jvm = spark.sparkContext._jvm
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    conf = jvm.org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConfWithCopy(hadoop)
    builder = jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
    timeline = builder.setConf(conf).setBasePath(command["base_path"]).build().getArchivedTimeline()
    timeline.loadCompletedInstantDetailsInMemory()
    found = []
    for instant in timeline.getInstants():
        if instant.getAction() == "commit" and instant.isCompleted():
            metadata = jvm.org.apache.hudi.common.table.timeline.TimelineUtils.getCommitMetadata(instant, timeline)
            found.append([_time_of(instant), metadata.getOperationType().name()])
    return sorted(found)


def instants(spark: SparkSession, command: dict[str, Any]) -> dict[str, list[list[str]]]:
    """Time and action of the completed instants of both timelines, as Hudi reads them."""
    jvm = spark.sparkContext._jvm
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    conf = jvm.org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConfWithCopy(hadoop)
    builder = jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
    meta_client = builder.setConf(conf).setBasePath(command["base_path"]).build()
    return {
        name: sorted([_time_of(i), i.getAction()] for i in timeline.getInstants() if i.isCompleted())
        for name, timeline in (
            ("active", meta_client.getActiveTimeline()),
            ("archived", meta_client.getArchivedTimeline()),
        )
    }


def _time_of(instant: Any) -> str:
    # The method that gives the time has another name in each release.
    return re.search(r"\d{17}", instant.toString()).group()


def decode_avro(spark: SparkSession, command: dict[str, Any]) -> dict[str, Any]:
    """A file of the timeline as an object of one of Hudi's classes, which is read as Hudi does."""
    jvm = spark.sparkContext._jvm
    model = getattr(jvm.org.apache.hudi.avro.model, command["class_name"])
    reader = jvm.org.apache.avro.specific.SpecificDatumReader(model.getClassSchema())
    file = jvm.org.apache.avro.file.DataFileReader(jvm.java.io.File(command["path"]), reader)
    try:
        record = file.next()
        assert record.getClass().getSimpleName() == command["class_name"]
        decoded: dict[str, Any] = json.loads(record.toString())
    finally:
        file.close()
    return decoded


def read_hfile(spark: SparkSession, command: dict[str, Any]) -> dict[str, Any]:
    """The entries of an HFile, and which keys are found by seeking them in order; by HBase's reader or Hudi's own."""
    read = _read_by_hbase if command["reader"] == "hbase" else _read_by_hudi
    return read(spark.sparkContext, command["path"], command["keys"])


def _read_by_hbase(context: Any, path: str, keys: list[str]) -> dict[str, Any]:
    jvm, conf = context._jvm, context._jsc.hadoopConfiguration()
    hbase = jvm.org.apache.hudi.org.apache.hadoop.hbase
    file = jvm.org.apache.hadoop.fs.Path(path)
    reader = hbase.io.hfile.HFile.createReader(file.getFileSystem(conf), file, conf)
    scanner = reader.getScanner(False, True)
    entries, more = [], scanner.seekTo()
    while more:
        cell = scanner.getCell()
        entries.append((hbase.CellUtil.cloneRow(cell), hbase.CellUtil.cloneValue(cell)))
        more = scanner.next()
    empty = bytearray()
    cells = [hbase.KeyValue(bytearray(key.encode()), empty, empty, empty) for key in keys]
    schema = reader.getHFileInfo().get(bytearray(b"schema"))
    meta = reader.getMetaBlock("bloomFilter", False)
    found = {
        "entries": [[bytes(row).decode(), _base64(value)] for row, value in entries],
        "found": [scanner.seekTo(cell) == 0 for cell in cells] if entries else [],
        "schema": bytes(schema).decode(),
        "bloom_filter": None if meta is None else bytes(meta.getBufferWithoutHeader().toBytes()).decode(),
    }
    reader.close()
    return found


def _read_by_hudi(context: Any, path: str, keys: list[str]) -> dict[str, Any]:
    jvm = context._jvm
    data = jvm.java.nio.file.Files.readAllBytes(jvm.java.io.File(path).toPath())
    io = jvm.org.apache.hudi.io

    def open_reader() -> Any:
        # The class of the buffer moved between releases.
        for name in ("org.apache.hudi.io", "org.apache.hudi.common.util.io"):
            try:
                buffer = _package(jvm, name).ByteBufferBackedInputStream(data)
            except TypeError:
                continue
            reader = io.hfile.HFileReaderImpl(io.ByteArraySeekableDataInputStream(buffer), len(data))
            reader.initializeMetadata()
            return reader
        raise LookupError("ByteBufferBackedInputStream")

    reader = open_reader()
    entries, more = [], reader.getNumKeyValueEntries() > 0 and reader.seekTo()
    while more:
        entry = reader.getKeyValue().get()
        start, length = entry.getValueOffset(), entry.getValueLength()
        value = jvm.java.util.Arrays.copyOfRange(entry.getBytes(), start, start + length)
        entries.append([entry.getKey().getContentInString(), _base64(value)])
        more = reader.next()
    schema = reader.getMetaInfo(io.hfile.UTF8StringKey("schema"))
    meta = reader.getMetaBlock("bloomFilter")
    seeker = open_reader()
    seeker.seekTo()
    found = {
        "entries": entries,
        "found": [seeker.seekTo(io.hfile.UTF8StringKey(key)) == 0 for key in keys] if entries else [],
        "schema": bytes(schema.get()).decode(),
        "bloom_filter": bytes(_rest_of(meta.get())).decode() if meta.isPresent() else None,
    }
    seeker.close()
    reader.close()
    return found


def write_hfile(spark: SparkSession, command: dict[str, Any]) -> None:
    """Write an HFile as Hudi's base files are written; by HBase's writer or Hudi's own."""
    jvm, conf = spark.sparkContext._jvm, spark.sparkContext._jsc.hadoopConfiguration()
    entries = [(key, bytearray(base64.b64decode(value))) for key, value in command["entries"]]
    schema = bytearray(command["schema"].encode())
    if command["writer"] == "hudi":
        io = jvm.org.apache.hudi.io
        codec = getattr(io.compress.CompressionCodec, {"GZ": "GZIP", "NONE": "NONE"}[command["codec"]])
        context = io.hfile.HFileContext.builder().blockSize(command["block_bytes"]).compressionCodec(codec).build()
        stream = jvm.java.io.FileOutputStream(command["path"])
        writer = io.hfile.HFileWriterImpl(context, stream)
        writer.appendFileInfo("schema", schema)
        for key, value in entries:
            writer.append(key, value)
        writer.close()
        stream.close()
        return
    hbase = jvm.org.apache.hudi.org.apache.hadoop.hbase
    codec = getattr(jvm, "org.apache.hudi.org.apache.hadoop.hbase.io.compress.Compression$Algorithm").valueOf(
        command["codec"]
    )
    comparator = jvm.org.apache.hudi.io.storage.HoodieHBaseKVComparator()
    builder = hbase.io.hfile.HFileContextBuilder().withBlockSize(command["block_bytes"]).withCompression(codec)
    file = jvm.org.apache.hadoop.fs.Path(command["path"])
    factory = hbase.io.hfile.HFile.getWriterFactoryNoCache(conf).withPath(file.getFileSystem(conf), file)
    writer = factory.withFileContext(builder.withCellComparator(comparator).build()).create()
    writer.appendFileInfo(bytearray(b"schema"), schema)
    empty = bytearray()
    for key, value in entries:
        writer.append(hbase.KeyValue(bytearray(key.encode()), empty, empty, value))
    writer.close()


def _package(jvm: Any, name: str) -> Any:
    for part in name.split("."):
        jvm = getattr(jvm, part)
    return jvm


def _rest_of(buffer: Any) -> bytes:
    data = bytearray(buffer.remaining())
    for place in range(len(data)):
        data[place] = buffer.get() & 0xFF
    return bytes(data)


def _base64(data: Any) -> str:
    return base64.b64encode(bytes(data)).decode()


def write_manifest(spark: SparkSession, command: dict[str, Any]) -> None:
    """Write the manifest of latest base files with Hudi's own code."""
    jvm = spark.sparkContext._jvm
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    conf = jvm.org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConfWithCopy(hadoop)
    builder = jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
    meta_client = builder.setConf(conf).setBasePath(command["base_path"]).build()
    writer = jvm.org.apache.hudi.sync.common.util.ManifestFileWriter.builder().setMetaClient(meta_client)
    by_metadata_table = writer.setUseFileListingFromMetadata(command["by_metadata_table"])
    by_metadata_table.build().writeManifestFile(command["absolute_paths"])


COMMANDS = {
    "archived_commits": archived_commits,
    "bucket_hashes": bucket_hashes,
    "curve_numbers": curve_numbers,
    "decode_avro": decode_avro,
    "instants": instants,
    "write": write,
    "write_hfile": write_hfile,
    "write_manifest": write_manifest,
    "read": read,
    "read_hfile": read_hfile,
    "read_each": read_each,
    "read_stream": read_stream,
    "hive_sync": hive_sync,
    "index": index,
    "partition_values": partition_values,
    "rollback": rollback,
    "schedule_log_compaction": schedule_log_compaction,
    "set_table_properties": set_table_properties,
    "set_hadoop_property": set_hadoop_property,
    "sorted_along_curve": sorted_along_curve,
    "sql": sql,
    "stream": stream,
}


def main() -> None:
    bundle, work_folder = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)  # what the JVM prints belongs to the log
    spark = start_session(bundle, work_folder)
    answers.write(json.dumps({"ok": True, "result": spark.version}) + "\n")
    for line in sys.stdin:
        command = json.loads(line)
        name = command.pop("command")
        if name == "stop":
            break
        try:
            answer = {"ok": True, "result": COMMANDS[name](spark, command)}
        except Exception:
            answer = {"ok": False, "error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
