"""Connections to databases by modules of Python's DB-API (PEP 249), by the URLs of JDBC.

The password is in the arguments of the connection only: it is neither shown nor part of a message.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import attrs

from hoodie.exception import HoodieConfigException, HoodieReadFromSourceException, HoodieSourceTimeoutException

_JDBC: Final = "jdbc:"
_MODULES: Final = {
    "postgresql": ("psycopg", "pip install 'hoodie[jdbc]'"),
    "mysql": ("pymysql", "pip install 'hoodie[jdbc]'"),
    "mariadb": ("pymysql", "pip install 'hoodie[jdbc]'"),
    "sqlite": ("sqlite3", ""),
}
_PORTS: Final = {"postgresql": 5432, "mysql": 3306, "mariadb": 3306}
_WITH_LIMIT: Final = frozenset(_MODULES)
_OF_POSTGRES: Final = {
    "connectTimeout": "connect_timeout",
    "ApplicationName": "application_name",
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
}
_OF_SPARK: Final = {
    "fetchsize", "numpartitions", "partitioncolumn", "lowerbound", "upperbound", "querytimeout", "timestampformat",
    "sessioninitstatement", "pushdownpredicate", "pushdownaggregate", "pushdownlimit", "customschema",
}  # fmt: skip
"""Options of Spark's JDBC reader, in lower case."""
_UNREACHABLE: Final = (
    "timeout", "timed out", "connection refused", "could not", "unreachable", "reset", "can't connect", "resolve",
    "server running", "starting up", "too many",
)  # fmt: skip


@attrs.frozen(repr=False)
class Database:
    """A database, and the way to connect to it. Picklable; prints without its password.

    Attributes:
        kind: The name in the URL: ``postgresql``, ``mysql``, ``sqlite`` or another one.
        shown: The URL without user, password and options.
        module: The name of the module that connects.
        arguments: The positional arguments of ``connect``.
        options: Its other arguments, the password among them.
        advice: The way to get the module.
    """

    kind: str
    shown: str
    module: str
    arguments: tuple[str, ...] = ()
    options: Mapping[str, Any] = attrs.field(factory=dict)
    advice: str = ""

    def __repr__(self) -> str:
        return f"Database({self.shown!r}, module={self.module!r})"

    @classmethod
    def of(
        cls, url: str, user: str = "", password: str = "", extra: Mapping[str, str] | None = None, module: str = ""
    ) -> Database:
        """The database of a URL of JDBC.

        Args:
            url: The URL.
            user: The user; "" for that of the URL.
            password: The password; "" for that of the URL.
            extra: More arguments of the connection; options of Spark's reader are left out.
            module: The module that connects; "" for the default.

        Raises:
            HoodieConfigException: The URL is of no known form, or of a database without a default module.
        """
        text = url.removeprefix(_JDBC)
        kind, colon, rest = text.partition(":")
        kind = kind.lower()
        if not colon or not url.startswith(_JDBC):
            raise HoodieConfigException(
                "hoodie.streamer.jdbc.url is no URL of JDBC: give jdbc:postgresql://host:5432/database, "
                "jdbc:mysql://host:3306/database or jdbc:sqlite:FILE"
            )
        known, advice = _MODULES.get(kind, ("", ""))
        if not (module or known):
            raise HoodieConfigException(
                f"hoodie.streamer.jdbc.url is of {kind}: give hoodie.streamer.jdbc.driver.module, the Python module "
                "that connects to it"
            )
        given = {key: value for key, value in (extra or {}).items() if key.lower() not in _OF_SPARK}
        secrets = {name: value for name, value in (("user", user), ("password", password)) if value}
        if kind == "sqlite" and not module:
            # Without this mode, a file that is missing would be made.
            path = rest.partition("?")[0]
            address = f"file:{quote(path)}?mode=rw"
            return cls(kind, f"{_JDBC}{kind}:{path}", known, (address,), {"uri": True, **given})
        if not rest.startswith("//"):
            return cls(kind, f"{_JDBC}{kind}:{rest.partition('?')[0]}", module or known, (rest,), {**secrets, **given})
        try:
            parts = urlsplit(f"{kind}:{rest}")
            port = parts.port or _PORTS.get(kind)
        except ValueError as error:
            raise HoodieConfigException("hoodie.streamer.jdbc.url has no valid host and port") from error
        database = unquote(parts.path.lstrip("/"))
        in_url = dict(parse_qsl(parts.query))
        options: dict[str, Any] = {"host": parts.hostname, "port": port}
        options |= {"dbname" if kind == "postgresql" else "database": database}
        options |= {
            "user": parts.username and unquote(parts.username),
            "password": parts.password and unquote(parts.password),
        }
        options |= {name: in_url[name] for name in ("user", "password") if name in in_url}
        if kind == "postgresql":
            options |= {ours: in_url[name] for name, ours in _OF_POSTGRES.items() if name in in_url}
            if "currentSchema" in in_url:
                options["options"] = f"-c search_path={in_url['currentSchema']}"
        options = {name: value for name, value in options.items() if value} | secrets | given
        host = parts.hostname or ""
        shown = f"{_JDBC}{kind}://{host}{f':{port}' if host and port else ''}/{database}"
        return cls(kind, shown, module or known, (), options, advice)

    @property
    def has_limit(self) -> bool:
        """Whether its SQL has ``LIMIT n OFFSET m``."""
        return self.kind in _WITH_LIMIT

    def load_module(self) -> Any:
        """Import the module that connects.

        Raises:
            HoodieConfigException: It is missing, or is no such module.
        """
        try:
            module = importlib.import_module(self.module)
        except ImportError as error:
            advice = self.advice or "install it, or check hoodie.streamer.jdbc.driver.module"
            raise HoodieConfigException(f"{self.shown} needs the Python module {self.module}: {advice}") from error
        if not callable(getattr(module, "connect", None)):
            raise HoodieConfigException(
                f"hoodie.streamer.jdbc.driver.module = {self.module} has no connect(): name a module as PEP 249 "
                "describes"
            )
        return module

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """A connection, closed at the end without a commit.

        Raises:
            HoodieConfigException: See `load_module`.
            HoodieSourceTimeoutException: The database does not answer.
            HoodieReadFromSourceException: It refuses the connection.
        """
        module = self.load_module()
        try:
            opened = module.connect(*self.arguments, **self.options)
        except Exception as error:  # Each module has its own classes.
            text = self.hide(error)
            message = f"JdbcSource cannot connect to {self.shown}: {text}"
            is_away = isinstance(error, TimeoutError) or any(word in text.lower() for word in _UNREACHABLE)
            kind = HoodieSourceTimeoutException if is_away else HoodieReadFromSourceException
            raise kind(message) from self.cause(error)
        with closing(opened):
            yield Connection(self, module, opened)

    def hide(self, error: BaseException) -> str:
        """The class and text of an error of the module, without the password.

        Args:
            error: The error.
        """
        text = f"{type(error).__name__}: {error}".strip()
        password = str(self.options.get("password") or "")
        return text.replace(password, "***") if password else text

    def cause(self, error: BaseException) -> BaseException | None:
        """The error as the cause of another one; None if it shows the password.

        Args:
            error: The error.
        """
        password = str(self.options.get("password") or "")
        return None if password and password in f"{error!r} {error}" else error


class Connection:
    """An open connection.

    Args:
        database: The database.
        module: The module of the connection.
        opened: The connection of the module.
    """

    def __init__(self, database: Database, module: Any, opened: Any) -> None:
        self.database = database
        self.module = module
        self._opened = opened

    @contextmanager
    def run(self, sql: str, parameters: Sequence[Any] = (), *, streams: bool = False) -> Iterator[Any]:
        """A cursor that has run a query.

        Args:
            sql: The query; each ``?`` that `placeholders` gave stands for a parameter.
            parameters: The values.
            streams: Whether there may be many rows, which the server then gives in parts.

        Raises:
            HoodieReadFromSourceException: The query fails, or reading its rows does.
        """
        try:
            cursor = self._streaming_cursor() if streams else self._opened.cursor()
            with closing(cursor):
                if parameters:
                    named = {f"p{number}": value for number, value in enumerate(parameters, 1)}
                    cursor.execute(sql, named if self._style == "named" else tuple(parameters))
                else:
                    cursor.execute(sql)
                yield cursor
        except (HoodieReadFromSourceException, HoodieConfigException):
            raise
        except Exception as error:  # Each module has its own classes.
            raise HoodieReadFromSourceException(
                f"JdbcSource: a query of {self.database.shown} failed ({self.database.hide(error)}): {sql}"
            ) from self.database.cause(error)

    def first(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """The first value of the first row of a query; None without rows.

        Args:
            sql: See `run`.
            parameters: See `run`.
        """
        with self.run(sql, parameters) as cursor:
            row = cursor.fetchone()
            return None if row is None else row[0]

    def placeholder(self, number: int) -> str:
        """The text that stands for a parameter in a query.

        Args:
            number: The number of the parameter, from 1 on.
        """
        match self._style:
            case "qmark":
                return "?"
            case "numeric":
                return f":{number}"
            case "named":
                return f":p{number}"
        return "%s"

    def escape(self, sql: str) -> str:
        """A part of a query that has parameters elsewhere: percent signs are doubled where they stand for parameters.

        Args:
            sql: The part.
        """
        return sql.replace("%", "%%") if self._style in ("format", "pyformat") else sql

    @property
    def _style(self) -> str:
        return str(getattr(self.module, "paramstyle", "qmark"))

    def _streaming_cursor(self) -> Any:
        """A cursor of the server: other cursors of these modules keep all rows in memory."""
        if self.module.__name__ in ("psycopg", "psycopg2"):
            return self._opened.cursor(name="hoodie")
        with suppress(ImportError, AttributeError):
            if self.module.__name__ in ("pymysql", "MySQLdb"):
                cursors = importlib.import_module(f"{self.module.__name__}.cursors")
                return self._opened.cursor(cursors.SSCursor)
        return self._opened.cursor()
