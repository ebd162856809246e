"""Access to the native module, if it was built and is enabled.

TAILRACE_PURE_PYTHON=1 selects the Python twins even if the native module was built.
"""

import os
from importlib import import_module
from typing import Any


def find_native(name: str) -> Any:
    """Return the native function or class of this name, or None. A module built from older sources may lack it."""
    if os.environ.get("TAILRACE_PURE_PYTHON") == "1":
        return None
    try:
        module = import_module("tailrace.records._native")
    except ImportError:
        return None
    return getattr(module, name, None)
