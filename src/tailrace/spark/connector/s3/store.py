"""Object stores by their URL, and their failures as errors that say whether a restart can help.

Credentials come from the options, or from the environment of the driver. They are sent to executors with the functions
of the flow, and no message has them: of a store's reply, messages have the code and the first sentence.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from tailrace.base.limits import SPARK_CLUSTERS_KEPT_MAX
from tailrace.spark.error import ConnectorError, PipelineError, RetriableConnectorError
from tailrace.spark.message import shorten

_PREFIXES = {
    "s3": "AWS_",
    "gs": "GOOGLE_",
    "az": "AZURE_",
    "abfs": "AZURE_",
    "abfss": "AZURE_",
    "file": None,
}
"""The beginning of the names of environment variables, by the scheme of the URL."""

_VARIABLES = frozenset(
    {
        "AWS_ACCESS_KEY_ID",
        "AWS_ALLOW_HTTP",
        "AWS_DEFAULT_REGION",
        "AWS_ENDPOINT_URL",
        "AWS_REGION",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_ACCOUNT_NAME",
        "AZURE_STORAGE_CLIENT_ID",
        "AZURE_STORAGE_CLIENT_SECRET",
        "AZURE_STORAGE_SAS_KEY",
        "AZURE_STORAGE_TENANT_ID",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
    }
)
"""The variables that are sent to executors. All others are those of each process, as roles of a machine are."""

_CODE = re.compile(r"<Code>(\w+)</Code>")
_STATUS = re.compile(r"status code: (\d{3})")
_DENIED = ("AccessDenied", "ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch")
_PASSING = ("SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "error sending request", "timed out")
_RETRY_S = 60.0
_CHECK_RETRY_S = 5.0


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where objects are, and how the store is reached."""

    url: str
    config: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    retry_s: float = _RETRY_S

    def __str__(self) -> str:
        return self.url

    def with_environment(self) -> "StoreSettings":
        """Return the settings with what the environment of this process has for this kind of store."""
        prefix = _PREFIXES[urlsplit(self.url).scheme]
        if prefix is None:
            return self
        found = {name.lower(): text for name, text in os.environ.items() if name in _VARIABLES and text}
        kept = {name: text for name, text in found.items() if name.startswith(prefix.lower())}
        return StoreSettings(self.url, tuple((kept | dict(self.config)).items()), self.retry_s)

    def for_check(self) -> "StoreSettings":
        """Return the settings for a check before Spark starts, which must not wait for long."""
        return StoreSettings(self.url, self.config, _CHECK_RETRY_S)


def check_settings(place: str, url: Any, options: Mapping[str, Any] | None) -> StoreSettings:
    """Return the settings of a store; raises `PipelineError`, whose text has no secret."""
    parts = urlsplit(url) if isinstance(url, str) else None
    scheme = "s3" if parts is not None and parts.scheme == "s3a" else "" if parts is None else parts.scheme
    if parts is None or scheme not in _PREFIXES or (scheme != "file" and not parts.hostname):
        raise PipelineError(f"{place} needs a URL such as s3://BUCKET/PREFIX; it begins with {', '.join(_PREFIXES)}")
    has_user = parts.username is not None and not scheme.startswith("abfs")
    has_port = ":" in parts.netloc  # or a secret key up to its first slash
    if has_user or has_port or parts.query:
        raise PipelineError(f"{place}: the URL has credentials or a query; give credentials with options=")
    if scheme == "file" and (parts.netloc or not parts.path.startswith("/")):
        raise PipelineError(f"{place}: a file URL has an absolute path, such as file:///data/orders")
    given = {str(name).lower(): _text(value) for name, value in (options or {}).items()}
    return StoreSettings(f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}", tuple(given.items()))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def open_store(settings: StoreSettings) -> Any:
    """Return the store of this process; raises `PipelineError` without the package or for a wrong option."""
    return _kept_store(os.getpid(), settings)


@lru_cache(SPARK_CLUSTERS_KEPT_MAX)
def _kept_store(_pid: int, settings: StoreSettings) -> Any:
    """Return a store that is kept; a forked worker must not use the connections of its parent."""
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ImportError:
        raise PipelineError("s3() needs the extra [s3]: pip install 'tailrace[s3]'") from None
    if settings.url.startswith("file:"):
        return from_url(settings.url, mkdir=True)
    config: Any = dict(settings.config)
    is_plain = any(text.startswith("http://") for text in config.values())
    retry: Any = {"retry_timeout": timedelta(seconds=settings.retry_s)}
    try:
        return from_url(settings.url, config=config, client_options={"allow_http": is_plain}, retry_config=retry)
    except BaseError as error:
        raise PipelineError(f"{settings}: {_first_line(error)}") from None


@contextmanager
def store_scope(settings: StoreSettings, what: str) -> Iterator[None]:
    """Raise `RetriableConnectorError` if the store is away, and `ConnectorError` if it refuses what is done."""
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, OSError) as error:
        raise _translate(f"{settings}: {what}", error) from None


def _translate(place: str, error: Exception) -> ConnectorError:
    from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

    text = str(error)
    found = _CODE.search(text)
    code, status = found[1] if found else "", _STATUS.search(text)
    if code == "NoSuchBucket":
        return ConnectorError(f"{place}: the bucket does not exist")
    if isinstance(error, PermissionDeniedError | UnauthenticatedError) or code in _DENIED:
        return ConnectorError(f"{place}: the store refuses the credentials{f' ({code})' if code else ''}")
    if any(word in text for word in _PASSING) or (status is not None and status[1].startswith("5")):
        return RetriableConnectorError(f"{place}: the store does not answer: {_first_line(error)}")
    return ConnectorError(f"{place}: {code or _first_line(error)}")


def _first_line(error: Exception) -> str:
    """Return the beginning of a message. What follows it may have the whole request and the config."""
    return shorten(str(error).split("\n")[0].split(": <?xml")[0])[:200]


def check_store(settings: StoreSettings) -> None:
    """List the first objects; raises `PipelineError` if that is not possible."""
    import obstore

    place = settings.for_check()
    store = open_store(place)
    try:
        with store_scope(place, "list"):
            next(iter(obstore.list(store, chunk_size=1)), None)
    except ConnectorError as error:
        raise PipelineError(str(error)) from None
