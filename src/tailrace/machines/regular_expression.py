"""Regular expressions of clients, in the syntax of RE2, which matches in linear time for any pattern."""

from typing import Any

import re2

from tailrace.base.request_limits import REGEX_BYTES_MAX

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = REGEX_BYTES_MAX


def compile_pattern(pattern: str | bytes) -> Any:
    """Compile a pattern that matches text or bytes like itself; raise `re2.error` if it is invalid or too large."""
    return re2.compile(pattern, _OPTIONS)
