"""The TLS context of a client, made again when a file of its keys or certificates has changed."""

import logging
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path

from tailrace.base.file_stamp import take_stamps
from tailrace.config.error import ConfigError

_log = logging.getLogger(__name__)


class RenewedTls:
    """The context for new connections; those that are open keep the context with which they were opened."""

    def __init__(self, make: Callable[[], ssl.SSLContext], files: Sequence[Path]) -> None:
        """`make` reads the files, and raises `ConfigError` if they cannot be used."""
        self._make = make
        self._files = files
        self._stamps = take_stamps(files)
        self._context = make()

    def context(self) -> ssl.SSLContext:
        """Return the context of the files as they are now, or of those before if they cannot be used."""
        stamps = take_stamps(self._files)
        if stamps != self._stamps:
            self._stamps = stamps
            try:
                self._context = self._make()
            except ConfigError as error:
                # A key and its certificate are often replaced one after the other: the second change is seen as well.
                _log.warning("new connections use the keys and certificates from before: %s", error)
        return self._context
