"""The offsets of connectors."""

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel

from tailrace.connect.core.error import ConnectError
from tailrace.connect.http.call import read_name, service_of
from tailrace.web.body import BoundedRoute
from tailrace.web.member import Items

router = APIRouter(prefix="/connectors/{connector}/offsets", tags=["Offsets"], route_class=BoundedRoute)


class PartitionOffset(BaseModel):
    """A partition of a connector, and where it goes on; null forgets that."""

    partition: dict[str, Any] | None = None
    offset: dict[str, Any] | None = None


class NewOffsets(BaseModel):
    """Offsets to set."""

    offsets: Items[PartitionOffset] | None = None


@router.get("")
async def get_offsets(request: Request, connector: str) -> Any:
    """Return how far a connector has come."""
    service = service_of(request)
    found = service.find(read_name(connector))
    return {"offsets": await service.offsets.read(found, service.plugin_of(found))}


@router.patch("")
async def alter_offsets(request: Request, connector: str, new: NewOffsets) -> Any:
    """Let a stopped connector go on at other offsets."""
    if not new.offsets:
        raise ConnectError(400, "Partitions / offsets need to be provided for an alter offsets request")
    offsets = [{"partition": each.partition, "offset": each.offset} for each in new.offsets]
    return {"message": await service_of(request).alter_offsets(read_name(connector), offsets)}


@router.delete("")
async def reset_offsets(request: Request, connector: str) -> Any:
    """Let a stopped connector start anew."""
    return {"message": await service_of(request).alter_offsets(read_name(connector), None)}
