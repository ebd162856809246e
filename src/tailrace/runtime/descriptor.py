"""The division of the process's file descriptors between segments and connections."""

import resource
import sys
from contextlib import suppress
from typing import NamedTuple

from tailrace.base.limits import RESERVED_DESCRIPTORS, SEGMENT_DESCRIPTORS_MAX


class DescriptorShare(NamedTuple):
    """The largest numbers of open segment files and of connections."""

    segment_count_max: int
    connection_count_max: int


def share_descriptors() -> DescriptorShare:
    """Raise the limit of open files as far as allowed, and divide the descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard or hard == resource.RLIM_INFINITY:
        with suppress(ValueError, OSError):  # the kernel may have a lower limit than it reports
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return share(sys.maxsize if soft == resource.RLIM_INFINITY else soft)


def share(descriptor_count: int) -> DescriptorShare:
    """Give half to segments, which can reopen their files, and the rest to connections, which cannot."""
    free_count = max(2, descriptor_count - RESERVED_DESCRIPTORS)
    segment_count = min(free_count // 2, SEGMENT_DESCRIPTORS_MAX)
    return DescriptorShare(segment_count, free_count - segment_count)
