"""What a registry tells of itself: its version, its cluster, its health and its metrics."""

from importlib.metadata import version as package_version
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from tailrace.registry.http.call import answer, registry_of
from tailrace.registry.http.metric import render
from tailrace.registry.http.model import HealthAnswer
from tailrace.web.body import BoundedRoute

router = APIRouter(tags=["Server"], route_class=BoundedRoute)


@router.get("/", response_model=dict[str, str])
async def root() -> Response:
    """Answer with an empty object, so that clients can see that a registry is here."""
    return answer({})


@router.post("/", response_model=dict[str, str])
async def post_root() -> Response:
    """Answer as to GET."""
    return answer({})


@router.get("/v1/metadata/deployment", response_model=dict[str, list[str]])
async def deployment() -> Response:
    """Return what is special about the deployment of the registry: nothing."""
    return answer({"attributes": []})


@router.get("/v1/metadata/id", response_model=dict[str, Any])
async def cluster_id(request: Request) -> Response:
    """Return the ids of the Kafka cluster and of the group of registries."""
    registry = registry_of(request)
    clusters = {"kafka-cluster": registry.store.cluster.view.cluster_id, "schema-registry-cluster": registry.group_id}
    return answer({"scope": {"path": [], "clusters": clusters}})


@router.get("/v1/metadata/version", response_model=dict[str, str])
async def server_version() -> Response:
    """Return the version of the registry."""
    return answer({"version": package_version("tailrace"), "commitId": ""})


@router.get("/health", response_model=HealthAnswer, responses={503: {"model": HealthAnswer}})
async def health(request: Request) -> Response:
    """Return 200 if the registry can serve reads and knows the leader that serves writes, and 503 otherwise."""
    registry = registry_of(request)
    leader = registry.leader
    is_healthy = leader is not None and registry.store.is_reading
    members = {
        "healthy": is_healthy,
        "leader": None if leader is None else leader.url,
        "is_leader": registry.is_leader,
        "reason": registry.problem,
    }
    return answer(members, 200 if is_healthy else 503)


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Return the metrics of the registry in the text format of Prometheus."""
    return Response(render(registry_of(request), request.app.state.counters), media_type="text/plain; version=0.0.4")
