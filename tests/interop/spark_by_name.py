"""Spark SQL with Hudi's bundle and a Hive Metastore: statements of a JSON list on standard input, their rows as JSON.

It runs inside an environment with PySpark 3.5, where hoodie is not installed, and imports nothing of this repository:

    python spark_by_name.py <bundle jar> <uri of the metastore>
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession


def main(bundle: str, uri: str) -> None:
    session = (
        SparkSession.builder.appName("hoodie-interop-by-name")
        .master("local[1]")
        .config("spark.driver.extraClassPath", bundle)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC -XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
        .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.hudi.catalog.HoodieCatalog")
        .config("spark.hadoop.hive.metastore.uris", uri)
        .enableHiveSupport()
        .getOrCreate()
    )
    answers = []
    for statement in json.load(sys.stdin):
        rows = session.sql(statement).collect()
        answers.append([list(row) for row in rows])
    print(json.dumps(answers, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
