"""Failures of a schema registry as errors of a pipeline, which say whether a restart can help."""

from collections.abc import Iterator
from contextlib import contextmanager

from tailrace.config.error import ConfigError
from tailrace.schema.error import RegistryError, RegistryUnavailable
from tailrace.schema.setting import RegistrySettings
from tailrace.spark.error import RegistryRefusal, RetriableRegistryError

_NOT_FOUND = 404
_FAILED = 500


@contextmanager
def registry_scope(settings: RegistrySettings) -> Iterator[None]:
    """Raise `RetriableRegistryError` if the registry cannot be reached, and `RegistryRefusal` if it refuses."""
    try:
        yield
    except RegistryUnavailable as error:
        raise RetriableRegistryError(f"no registry answers: {error}. Start it, or change registry=") from None
    except RegistryError as error:
        kind = RetriableRegistryError if error.status >= _FAILED else RegistryRefusal
        raise kind(f"the registry at {settings} answered: {error}") from None
    except ConfigError as error:
        raise RegistryRefusal(f"the registry at {settings} cannot be used: {error}") from None


def is_missing(error: RegistryError) -> bool:
    """Return whether the registry does not have the subject, the version or the schema."""
    return error.status == _NOT_FOUND
