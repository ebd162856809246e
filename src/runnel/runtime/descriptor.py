"""How the descriptors of a process are shared out."""

import resource
import sys
from contextlib import suppress
from typing import NamedTuple

from runnel.base.limits import RESERVED_DESCRIPTORS, SEGMENT_DESCRIPTORS_MAX


class DescriptorShare(NamedTuple):
    """How many descriptors segments may have open, and how many connections."""

    segment_count_max: int
    connection_count_max: int


def share_descriptors() -> DescriptorShare:
    """Share out what the process may have, after asking for as many as it may ask for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard or hard == resource.RLIM_INFINITY:
        with suppress(ValueError, OSError):  # a kernel may have a limit of its own below the one it states
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return share(sys.maxsize if soft == resource.RLIM_INFINITY else soft)


def share(descriptor_count: int) -> DescriptorShare:
    """Half for segments, which open their files again when they must; the rest for connections, which cannot."""
    free_count = max(2, descriptor_count - RESERVED_DESCRIPTORS)
    segment_count = min(free_count // 2, SEGMENT_DESCRIPTORS_MAX)
    return DescriptorShare(segment_count, free_count - segment_count)
