"""A file for a secret that a library reads by its path, kept off the disk if the system allows it."""

import contextlib
import os
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def secret_file(data: bytes) -> Iterator[str]:
    """Yield the path of a file with this content, which exists until the block ends.

    On Linux it is in memory, and only this process can open it. Elsewhere only its user can read it.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tailrace", os.MFD_CLOEXEC)
        try:
            _write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        descriptor, path = tempfile.mkstemp(prefix="tailrace")
        try:
            try:
                _write(descriptor, data)
            finally:
                os.close(descriptor)
            yield path
        finally:
            os.unlink(path)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
