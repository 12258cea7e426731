"""The cause of the end of a Spark job, as an error of hoodie: a cancellation, a function of the input, or Spark
itself.

Cancellations by users, and errors in their own functions, come from Spark as ``Py4JJavaError``, ``PythonException`` or
``UnknownException`` with pages of Java's stack. hoodie raises an error with one line instead, which has Spark's error
as its cause.
"""

from __future__ import annotations

import re

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from hoodie.exception import HoodieException, HoodieWriteException
from hoodie.spark.spark_compatibility import was_interrupted

_MISSING_MODULE = re.compile(r"No module named '(hoodie|attrs?|avro|fastavro|numpy|obstore|pandas|pyarrow)\b")
_FRAME = re.compile(r'^ *File "([^"]+)", line (\d+), in (.+)$', re.MULTILINE)
_PYTHON_ERROR = re.compile(r"^((?:[A-Za-z_]\w*\.)*[A-Z]\w*): ?(.*)$", re.MULTILINE)
_OURS = re.compile(
    r"[/\\]hoodie[/\\](avro|client|common|engine|execution|index|io|keygen|merge|metadata|query|spark|storage|table)[/\\]"
)
_OF_SPARK = re.compile(r"[/\\]pyspark(\.zip)?[/\\]")
_MEMORY = re.compile(r"^(MemoryError|numpy\.[\w.]*MemoryError|pyarrow\.lib\.ArrowMemoryError)\b.*$", re.MULTILINE)
_CAUSE = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
_ONLY_AROUND = re.compile(
    r"Exception thrown in awaitResult|Job aborted|An exception was thrown from the Python worker|"
    r"Multiple failures (\(\d+\) )?in stage materialization"
)
"""The texts that Spark puts around the actual error."""
_SHOWN = 300

MEMORY_OPTION = "spark.executor.pyspark.memory"
"""The limit of the memory of each Python worker, which PySpark sets by ``RLIMIT_AS``."""
MISSING_MODULE = (
    "the Python of Spark's workers has no module {!r}: install hoodie there as well, or set PYSPARK_PYTHON (or "
    "spark.pyspark.python) to a Python that has it, before the session is created. Nothing was committed"
)


def interrupted_by_user(error: BaseException, handled: BaseException | None = None) -> bool:
    """Whether Ctrl-C caused an error: PySpark raises the error of the cancelled job in its place.

    Args:
        error: The error.
        handled: The exception that was handled when the work began; it and earlier ones do not count.
    """
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is None or one is handled or id(one) in seen:
            continue
        if isinstance(one, KeyboardInterrupt):
            return True
        seen.add(id(one))
        pending += [one.__cause__, one.__context__]
    return False


def as_hoodie_error(error: Exception, work: str) -> HoodieException | None:
    """The error of hoodie for the end of a Spark job; None for an error that is not Spark's.

    Args:
        error: The error of a call of Spark.
        work: The work, such as ``tag location (SIMPLE)``.
    """
    if not isinstance(error, PySparkException | Py4JError):
        return None
    text = str(error)
    missing = _MISSING_MODULE.search(text)
    if missing is not None:
        return HoodieException(MISSING_MODULE.format(missing[1]))
    if was_interrupted(error):
        return HoodieWriteException(
            f"{work}: its Spark jobs were cancelled (cancelJobGroup, interruptTag, Spark's pages, or the end of the "
            "session); nothing was committed. Call again"
        )
    if _MEMORY.search(text):
        return HoodieException(
            f"{work}: a Python worker of Spark had no memory left ({_MEMORY.findall(text)[-1]}); nothing was "
            f"committed. Raise {MEMORY_OPTION}, which is shared by the cores of an executor, or leave it out; or give "
            "an executor fewer cores"
        )
    own = _function_of_input(text)
    if own is not None:
        return HoodieException(
            f"{work}: a Python function of the input failed, not hoodie: {own}; nothing was committed. Spark runs the "
            "input when hoodie reads it"
        )
    return HoodieException(f"{work}: Spark failed: {_reason(error)}; nothing was committed")


def _function_of_input(text: str) -> str | None:
    """The error of a user's function and its line, if no frame of the Python traceback is in code of ours.

    Spark prints a traceback of each attempt, and of the errors around it; the first one is where it began.
    """
    begin = text.find("Traceback (most recent call last)")
    if begin < 0:
        return None
    frames = list(_FRAME.finditer(text, begin))
    error = _PYTHON_ERROR.search(text, frames[0].end()) if frames else None
    if error is None:
        return None
    frames = [frame for frame in frames if frame.start() < error.start()]
    own = [frame for frame in frames if not _OF_SPARK.search(frame[1])]
    if not own or any(_OURS.search(frame[1]) for frame in own):
        return None
    path, line, function = own[-1].groups()
    return f"{_shortened(error[0].strip())} ({path}, line {line}, in {function})"


def _reason(error: Exception) -> str:
    """The first informative line, with the inner error if that line is only put around one."""
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    if not _ONLY_AROUND.search(first):
        return _shortened(first)
    whole = str(error)
    _, _, traceback = whole.partition("Traceback (most recent call last)")
    in_python = _PYTHON_ERROR.search(traceback)
    found = _CAUSE.findall(whole)
    inner = [one for one in found if not _ONLY_AROUND.search(one)]
    # A job that Spark itself gives up says why in the last line around it.
    causes = [in_python[0]] if in_python else inner or found[-1:]
    return _shortened(" ".join([first, *causes[:1]]).strip())


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
