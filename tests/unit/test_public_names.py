"""What `import hoodie` gives."""

from __future__ import annotations

import re
import subprocess
import sys
from types import ModuleType

import pytest

import hoodie
from hoodie import exception


@pytest.mark.parametrize("name", exception.__all__)
def test_every_error_is_a_name_of_the_package(name: str) -> None:
    assert name in hoodie.__all__
    assert getattr(hoodie, name) is getattr(exception, name)


def test_the_drawn_tree_of_errors_is_that_of_the_classes() -> None:
    """Each line of the drawing: the class, below which other it hangs, and the builtin class that it is besides."""
    drawn: dict[str, tuple[str, ...]] = {"HoodieException": ("Exception",)}
    above = ["HoodieException"]
    for line in (exception.__doc__ or "").splitlines():
        found = re.match(r"    ((?:│   |    )*)[├└]── (\w+)(?: \((\w+)\))?", line)
        if found is None:
            continue
        depth = 1 + len(found[1]) // 4
        drawn[found[2]] = (above[depth - 1], *([found[3]] if found[3] else []))
        above[depth:] = [found[2]]
    classes = {name: tuple(base.__name__ for base in getattr(exception, name).__bases__) for name in exception.__all__}
    assert drawn == classes
    here = {
        name
        for name, value in vars(exception).items()
        if isinstance(value, type) and issubclass(value, exception.HoodieException)
    }
    assert here == set(drawn)


def test_every_public_name_is_there_once() -> None:
    assert len(set(hoodie.__all__)) == len(hoodie.__all__)
    for name in hoodie.__all__:
        assert getattr(hoodie, name).__name__ == name


def test_a_name_that_there_is_not_is_an_error() -> None:
    with pytest.raises(AttributeError, match="module 'hoodie' has no attribute 'HoodieNothing'"):
        _ = hoodie.HoodieNothing  # type: ignore[attr-defined]


def test_nothing_but_the_public_names_is_shown() -> None:
    modules = {"metadata", "plot", "spark", "stats"}
    assert [name for name in dir(hoodie) if not name.startswith("_")] == sorted({*hoodie.__all__, *modules})
    assert {"__doc__", "__file__", "__version__"} <= set(dir(hoodie))


def test_what_the_package_imports_for_itself_is_no_name_of_it() -> None:
    modules = {name for name, value in vars(hoodie).items() if isinstance(value, ModuleType)}
    shown = {name for name in vars(hoodie) if not name.startswith("_")}
    assert shown - modules <= set(hoodie.__all__)
    assert {name for name in modules if not vars(hoodie)[name].__name__.startswith("hoodie.")} <= {
        "_importlib",
        "_typing",
    }


@pytest.mark.parametrize(
    "place",
    [
        "config.write_config.HoodieWriteConfig",
        "engine.local_engine_context.LocalEngineContext",
        "index.index.IndexedTable",
        "transaction.lock.lock_provider.LockProvider",
        "storage.local_storage.LocalStorage",
        "interface.reads.scan_table",
    ],
)
def test_a_module_is_found_from_the_package_that_holds_it(place: str) -> None:
    program = f"import hoodie; print(hoodie.{place}.__name__)"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output.strip() == place.rpartition(".")[2]


def test_importing_hoodie_loads_no_library_that_a_write_may_not_need() -> None:
    program = (
        "import hoodie, sys; [getattr(hoodie, name) for name in hoodie.__all__ if 'Spark' not in name]; "
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    loaded = set(output.split())
    assert "pyarrow" in loaded
    assert loaded & NOT_AT_THE_START == set()


@pytest.mark.parametrize(
    ("use", "name"),
    [
        ("from hoodie import *", "hoodie.HoodieSparkEngineContext"),
        ("import hoodie; hoodie.SparkRDDWriteClient", "hoodie.SparkRDDWriteClient"),
        ("from hoodie.spark import read", "hoodie.spark.read"),
        ("import hoodie.spark; hoodie.spark.merge_into", "hoodie.spark.merge_into"),
    ],
)
def test_names_of_spark_without_pyspark_say_what_to_install(use: str, name: str) -> None:
    program = f"import sys; sys.modules['pyspark'] = None\n{use}"
    errors = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False).stderr
    assert errors.splitlines()[-1].startswith(
        f"ModuleNotFoundError: {name} needs PySpark: pip install 'hoodie[spark]' ("
    )


NOT_AT_THE_START = {
    "asyncio",
    "avro",
    "boto3",
    "botocore",
    "fastavro",
    "fsspec",
    "http",
    "kazoo",
    "matplotlib",
    "obstore",
    "pandas",
    "prometheus_client",
    "psycopg",
    "pyspark",
}


def test_what_tasks_of_spark_import_loads_no_reader_or_writer() -> None:
    program = "import sys, hoodie.spark.spark_data; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "hoodie.spark.spark_data" in loaded
    assert set(loaded) & {"hoodie.spark.reader", "hoodie.spark.writer", "hoodie.spark.spark_rdd_write_client"} == set()
    assert [name for name in loaded if name.startswith("hoodie.client")] == []
    # PySpark itself loads others of them.
    assert set(loaded) & {"avro", "fastavro", "fsspec", "obstore", "pandas", "prometheus_client"} == set()
