"""PostgreSQL's JDBC driver, from Maven Central."""

from __future__ import annotations

from bench.maven import Classpath

JDBC_DRIVER = "org.postgresql:postgresql:42.7.13"


def jdbc_classpath() -> Classpath:
    """Return the class path of the driver alone."""
    return Classpath.of(JDBC_DRIVER.replace(":", "-"), [JDBC_DRIVER], is_transitive=False)
