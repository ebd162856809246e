"""JDBC URLs: those of PostgreSQL as URLs of its own client, and the drivers of other databases."""

import re
from urllib.parse import parse_qsl, quote, urlencode

from tailrace.connect.plugin.setting import Settings

URL = "connection.url"
USER = "connection.user"
PASSWORD = "connection.password"  # noqa: S105 - the name of a setting

_POSTGRES = re.compile(r"jdbc:postgresql:(?://(?P<hosts>[^/?]*+)/?)?(?P<database>[^?]*+)(?:\?(?P<parameters>.*))?")
_PARAMETERS = {
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "targetServerType": None,
}
"""Parameters of PostgreSQL's JDBC driver, and those of its C library."""
_SERVER_TYPES = {"any": "any", "primary": "read-write", "master": "read-write", "secondary": "standby"}

_PACKAGES = {
    "jdbc:mysql:": "com.mysql:mysql-connector-j:9.1.0",
    "jdbc:mariadb:": "org.mariadb.jdbc:mariadb-java-client:3.5.1",
    "jdbc:sqlserver:": "com.microsoft.sqlserver:mssql-jdbc:12.8.1.jre11",
    "jdbc:oracle:": "com.oracle.database.jdbc:ojdbc11:23.6.0.24.10",
    "jdbc:db2:": "com.ibm.db2:jcc:12.1.0.0",
    "jdbc:sqlite:": "org.xerial:sqlite-jdbc:3.47.1.0",
}
"""The packages of drivers at Maven Central."""


def is_postgres(settings: Settings) -> bool:
    """Return whether the database is PostgreSQL."""
    return settings.text(URL).startswith("jdbc:postgresql:")


def postgres_url(settings: Settings) -> str:
    """Return the URL of PostgreSQL's own client, with user and password; adds problems, which show neither."""
    match = _POSTGRES.fullmatch(settings.text(URL))
    if match is None:
        settings.refuse(URL, "it is not a URL such as jdbc:postgresql://host:5432/database")
        return ""
    given = dict(parse_qsl(match["parameters"] or "", keep_blank_values=True))
    user = settings.text(USER) or given.pop("user", "")
    password = settings.text(PASSWORD) or given.pop("password", "")
    parameters = {}
    if given.pop("ssl", "false") == "true":
        parameters["sslmode"] = "verify-full"
    for name, text in given.items():
        if name == "targetServerType" and text in _SERVER_TYPES:
            parameters["target_session_attrs"] = _SERVER_TYPES[text]
        elif (known := _PARAMETERS.get(name)) is not None:
            parameters[known] = text
        elif name not in ("user", "password"):
            settings.refuse(URL, f"its parameter {name} is not supported; remove it")
    return make_postgres_url(match["hosts"] or "localhost", match["database"], user, password, parameters)


def make_postgres_url(hosts: str, database: str, user: str, password: str, parameters: dict[str, str]) -> str:
    """Return a URL of PostgreSQL's own client."""
    account = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    query = f"?{urlencode(parameters)}" if parameters else ""
    return f"postgresql://{account}{'@' if account else ''}{hosts}/{quote(database, safe='')}{query}"


def jdbc_endpoint(settings: Settings) -> dict[str, object]:
    """Return the arguments of the connector jdbc for the database."""
    url = settings.text(URL)
    if not url.startswith("jdbc:"):
        settings.refuse(URL, "it is not a URL such as jdbc:mysql://host:3306/database")
    account = {"user": settings.text(USER), "password": settings.text(PASSWORD)}
    options = {name: text for name, text in account.items() if text}
    return {"connector": "jdbc", "url": url, **({"options": options} if options else {})}


def spark_configs(settings: Settings) -> dict[str, str]:
    """Return the configs of Spark that bring the driver of the database, if it is known."""
    url = settings.text(URL)
    found = [package for prefix, package in _PACKAGES.items() if url.startswith(prefix)]
    return {"spark.jars.packages": found[0]} if found else {}
