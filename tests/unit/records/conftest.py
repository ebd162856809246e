"""The codecs, one after the other."""

import pytest

from tailrace.records.compression import Compression


@pytest.fixture(params=list(Compression), ids=lambda codec: codec.config_name)
def codec(request: pytest.FixtureRequest) -> Compression:
    return Compression(request.param)


@pytest.fixture(params=list(Compression)[1:], ids=lambda codec: codec.config_name)
def packing_codec(request: pytest.FixtureRequest) -> Compression:
    """Every codec that makes anything smaller."""
    return Compression(request.param)
