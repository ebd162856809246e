"""The native module, where it was built and is wanted.

RUNNEL_PURE_PYTHON=1 chooses the twins in Python even where the native ones are there.
"""

import os
from importlib import import_module
from typing import Any


def find_native(name: str) -> Any:
    """The native twin of this name, or None. A module built from older sources may lack one."""
    if os.environ.get("RUNNEL_PURE_PYTHON") == "1":
        return None
    try:
        module = import_module("runnel.records._native")
    except ImportError:
        return None
    return getattr(module, name, None)
