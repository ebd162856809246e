"""The version of the package, and whether its native module is in use."""

import os

from tailrace import __version__


def version_line() -> str:
    """Return the version, with the reason if the slower functions in Python are used."""
    reason = pure_python_reason()
    return f"tailrace {__version__}" if reason is None else f"tailrace {__version__} (pure Python: {reason})"


def pure_python_reason() -> str | None:
    """Return why the native module is not in use; None if it is."""
    # Imported here: `tailrace --help` does not need it.
    from tailrace.records.native import find_native

    if find_native("walk_records") is not None:
        return None
    if os.environ.get("TAILRACE_PURE_PYTHON") == "1":
        return "TAILRACE_PURE_PYTHON is set"
    return "the native module was not built; install a C compiler and reinstall for full speed"
