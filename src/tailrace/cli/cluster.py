"""`tailrace cluster`: ZooKeeper and brokers on this machine, each in its own process, `describe` and `unregister`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrace.cli.cluster_describe import describe
from tailrace.cli.cluster_plan import ClusterPlan, Member
from tailrace.cli.cluster_start import start_cluster
from tailrace.cli.option import broker_options, json_option, read_pairs, run_with_cluster
from tailrace.cli.output import write_json, write_line, write_table

if TYPE_CHECKING:
    from tailrace.client.cluster import Cluster

_STOP_TIMEOUT_S = 60.0
_PORT = 9092

data_option = click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("tailrace-cluster"),
    show_default=True,
    metavar="DIR",
    help="Folder of the cluster, with a data folder and a log file for each process.",
)


@click.group()
def cluster() -> None:
    """Start and stop clusters on this machine, describe any.

    The processes run in the background. For several machines, run `tailrace zookeeper start` and
    `tailrace start --set zookeeper.connect=…` on them instead. `describe` and `unregister` work with any cluster.
    """


cluster.add_command(describe)


@cluster.command()
@click.option("--brokers", "broker_count", type=click.IntRange(1, 100), help="Number of brokers.")
@click.option("--broker", "broker_id", type=int, metavar="ID", help="Start only this broker.")
@data_option
@click.option(
    "--port",
    type=click.IntRange(0, 65_000),
    default=_PORT,
    show_default=True,
    help="Port of the first broker; the others use the following ports. 0 chooses free ports.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    callback=read_pairs,
    help="Config of all brokers; can be repeated.",
)
def start(broker_count: int | None, broker_id: int | None, data: Path, port: int, settings: dict[str, str]) -> None:
    """Start ZooKeeper and all brokers that are not running, and return when they are ready.

    The first start creates the cluster and needs --brokers. Later starts bring back processes that were stopped or
    killed; a higher --brokers adds brokers. A start that fails stops everything that it has started.
    """
    if broker_id is not None and broker_count is not None:
        raise click.UsageError(
            "--brokers and --broker cannot be combined: --brokers starts all brokers, --broker starts one"
        )
    plan = _plan(data.absolute(), broker_count, broker_id, port)
    plan.settings |= settings
    start_cluster(plan, list(plan.brokers) if broker_id is None else [broker_id])
    if broker_id is None:
        write_line(f"tailrace: cluster ready on {','.join(broker.address for broker in plan.brokers.values())}")


def _plan(data: Path, broker_count: int | None, broker_id: int | None, port: int) -> ClusterPlan:
    plan = ClusterPlan.load(data)
    if plan is None:
        if broker_count is None:
            raise click.UsageError(
                f"there is no cluster in {data}: set the number of brokers with --brokers to create one"
            )
        plan = ClusterPlan.make(data)
    elif broker_count is not None and broker_count < len(plan.brokers):
        raise click.UsageError(
            f"the cluster in {data} has {len(plan.brokers)} brokers; to have fewer, move their partitions away "
            "with `tailrace reassign` and stop them"
        )
    plan.grow(broker_count or 0, port)
    if broker_id is not None:
        plan.broker(broker_id)
    return plan


@cluster.command()
@data_option
@json_option
def status(data: Path, as_json: bool) -> None:
    """List the brokers and the ZooKeeper server of a cluster, with addresses and process ids."""
    plan = ClusterPlan.require(data)
    if as_json:
        brokers = [{"id": broker_id, **_described(broker)} for broker_id, broker in plan.brokers.items()]
        write_json({"brokers": brokers, "zookeeper": _described(plan.zookeeper)})
        return
    members = [*plan.brokers.values(), plan.zookeeper]
    rows = [(member.name, member.address, _pid(member) or "-", _state(member)) for member in members]
    write_table(("process", "address", "pid", "state"), rows)


def _described(member: Member) -> dict[str, Any]:
    return {"address": member.address, "pid": _pid(member), "state": _state(member)}


def _pid(member: Member) -> int | None:
    return member.daemon.pid if member.daemon and member.is_running else None


def _state(member: Member) -> str:
    return "running" if member.is_running else "stopped"


@cluster.command()
@click.option("--broker", "broker_id", type=int, metavar="ID", help="Stop only this broker.")
@data_option
@json_option
def stop(broker_id: int | None, data: Path, as_json: bool) -> None:
    """Stop all brokers cleanly, and then ZooKeeper."""
    plan = ClusterPlan.require(data)
    steps = [list(plan.brokers.values()), [plan.zookeeper]] if broker_id is None else [[plan.broker(broker_id)]]
    stopped: list[str] = []
    for members in steps:
        for member in _stop(members):
            stopped.append(member.name)
            if not as_json:
                write_line(f"tailrace: {member.name} stopped")
    if as_json:
        write_json({"stopped": stopped})


def _stop(members: Sequence[Member]) -> Iterator[Member]:
    """Stop processes, and yield each one that has ended."""
    running = [(member, member.daemon) for member in members if member.daemon and member.is_running]
    for _, daemon in running:
        daemon.stop()
    for member, daemon in running:
        if not daemon.wait(_STOP_TIMEOUT_S):
            raise click.ClickException(
                f"{member.name} (process {daemon.pid}) did not stop within {_STOP_TIMEOUT_S:g} s; it may still do so"
            )
        yield member


@cluster.command()
@click.option(
    "--id", "broker_id", type=click.IntRange(min=0), required=True, metavar="ID", help="Id of the broker to remove."
)
@json_option
@broker_options
def unregister(broker_id: int, as_json: bool, bootstrap_server: str | None, command_config: Path | None) -> None:
    """Remove a broker from a cluster for good.

    Move its partitions to other brokers with `tailrace reassign` and stop it first. A broker that still runs is
    disconnected; if it is started again, it joins as a new broker.
    """
    from tailrace.client.admin.core import Admin

    async def ask(cluster: "Cluster") -> None:
        await Admin(cluster).unregister_broker(broker_id)

    run_with_cluster(bootstrap_server, command_config, ask)
    if as_json:
        write_json({"id": broker_id, "unregistered": True})
    else:
        write_line(f"broker {broker_id} is no longer part of the cluster")
