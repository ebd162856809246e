"""`runnel cluster`: ZooKeeper and some brokers on this machine, each a process of its own; and who belongs to one."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runnel.cli.cluster_plan import ClusterPlan, Member
from runnel.cli.daemon import Launch
from runnel.cli.option import broker_options, json_option, read_pairs, run_with_cluster
from runnel.cli.output import is_terminal, write_json, write_line, write_table

if TYPE_CHECKING:
    from runnel.client.cluster import Cluster

_READY_TIMEOUT_S = 120.0  # recovery after a crash is part of a start
_STOP_TIMEOUT_S = 60.0
_PORT = 9092

data_option = click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("runnel-cluster"),
    show_default=True,
    metavar="DIR",
    help="The folder of the cluster: a folder and a log file for each process.",
)


@click.group()
def cluster() -> None:
    """Start, look at and stop a cluster on this machine.

    Its processes go on in the background. For several machines, run `runnel zookeeper start` and
    `runnel start --set zookeeper.connect=…` on them instead. `unregister` is for any cluster.
    """


@cluster.command()
@click.option("--brokers", "broker_count", type=click.IntRange(1, 100), help="How many brokers there should be.")
@click.option("--broker", "broker_id", type=int, metavar="ID", help="Start this one only, if it is not running.")
@data_option
@click.option(
    "--port",
    type=click.IntRange(0, 65_000),
    default=_PORT,
    show_default=True,
    help="The port of the first broker; the others take the next ones. 0 takes any that are free.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    callback=read_pairs,
    help="An option of all brokers; repeat as needed.",
)
def start(broker_count: int | None, broker_id: int | None, data: Path, port: int, settings: dict[str, str]) -> None:
    """Start ZooKeeper and all brokers that are not running, and return when they are ready.

    The first call makes the cluster and needs --brokers. Later calls bring back what was
    stopped or killed; a higher --brokers adds brokers.
    """
    if broker_id is not None and broker_count is not None:
        raise click.UsageError("give --brokers for all of them or --broker for one")
    plan = _plan(data.absolute(), broker_count, broker_id, port)
    plan.settings |= settings
    plan.save()
    _start_zookeeper(plan)
    wanted = list(plan.brokers) if broker_id is None else [broker_id]
    _start_brokers(plan, wanted)
    if broker_id is None:
        write_line(f"runnel: cluster ready on {','.join(broker.address for broker in plan.brokers.values())}")


def _plan(data: Path, broker_count: int | None, broker_id: int | None, port: int) -> ClusterPlan:
    plan = ClusterPlan.load(data)
    if plan is None:
        if broker_count is None:
            raise click.UsageError(f"there is no cluster in {data} yet: say with --brokers how many it should have")
        data.mkdir(parents=True, exist_ok=True)
        plan = ClusterPlan.make(data)
    elif broker_count is not None and broker_count < len(plan.brokers):
        raise click.UsageError(
            f"the cluster in {data} has {len(plan.brokers)} brokers; to have fewer, move their partitions away "
            "with `runnel reassign` and stop them"
        )
    plan.grow(broker_count or 0, port)
    if broker_id is not None:
        plan.broker(broker_id)
    return plan


def _start_zookeeper(plan: ClusterPlan) -> None:
    member = plan.zookeeper
    if not member.is_running:
        launch = _launch(
            plan, member, ["zookeeper", "start", "--data", _folder(plan, member), "--listen", member.address]
        )
        launch.ready_line(_READY_TIMEOUT_S)


def _start_brokers(plan: ClusterPlan, broker_ids: Sequence[int]) -> None:
    launches = {}
    for broker_id in broker_ids:
        member = plan.brokers[broker_id]
        if not member.is_running:
            pairs = [f"{name}={value}" for name, value in plan.broker_settings(broker_id).items()]
            launches[broker_id] = _launch(
                plan, member, ["start", *(word for pair in pairs for word in ("--set", pair))]
            )
    for broker_id in broker_ids:
        if broker_id in launches:
            write_line(launches[broker_id].ready_line(_READY_TIMEOUT_S))
        else:
            write_line(f"runnel: broker {broker_id} ready on {plan.brokers[broker_id].address}")


def _launch(plan: ClusterPlan, member: Member, arguments: Sequence[str]) -> Launch:
    launch = Launch(arguments, plan.folder / f"{member.name}.log")
    member.daemon = launch.daemon
    # At once, so that whatever happens now, `stop` finds it.
    plan.save()
    return launch


def _folder(plan: ClusterPlan, member: Member) -> str:
    return str(plan.folder / member.name)


@cluster.command()
@data_option
@json_option
def status(data: Path, as_json: bool) -> None:
    """List the brokers of a cluster with their addresses and processes."""
    plan = ClusterPlan.require(data)
    if as_json:
        write_json(
            [
                {
                    "id": broker_id,
                    "address": broker.address,
                    "pid": _pid(broker),
                    "state": _state(broker),
                }
                for broker_id, broker in plan.brokers.items()
            ]
        )
        return
    members = [*plan.brokers.values(), plan.zookeeper] if is_terminal() else plan.brokers.values()
    rows = [(member.name, member.address, _pid(member) or "-", _state(member)) for member in members]
    write_table(("process", "address", "pid", "state"), rows)


def _pid(member: Member) -> int | None:
    return member.daemon.pid if member.daemon and member.is_running else None


def _state(member: Member) -> str:
    return "running" if member.is_running else "stopped"


@cluster.command()
@click.option("--broker", "broker_id", type=int, metavar="ID", help="Stop this one only.")
@data_option
def stop(broker_id: int | None, data: Path) -> None:
    """Stop all brokers cleanly, and then ZooKeeper; with --broker only that one."""
    plan = ClusterPlan.require(data)
    if broker_id is not None:
        _stop([plan.broker(broker_id)])
        return
    _stop(list(plan.brokers.values()))
    _stop([plan.zookeeper])


def _stop(members: Sequence[Member]) -> None:
    running = [(member, member.daemon) for member in members if member.daemon and member.is_running]
    for _, daemon in running:
        daemon.stop()
    for member, daemon in running:
        if not daemon.wait(_STOP_TIMEOUT_S):
            raise click.ClickException(
                f"{member.name} (process {daemon.pid}) has not stopped in {_STOP_TIMEOUT_S:g} s; it may still do so"
            )
        write_line(f"runnel: {member.name} stopped")


@cluster.command()
@click.option(
    "--id", "broker_id", type=click.IntRange(min=0), required=True, metavar="ID", help="The broker that goes."
)
@json_option
@broker_options
def unregister(broker_id: int, as_json: bool, bootstrap_server: str | None, command_config: Path | None) -> None:
    """Have a cluster forget a broker that is stopped for good.

    Move its partitions elsewhere first, with `runnel reassign`. One that still runs is sent away; started again, it
    is a new broker.
    """
    from runnel.client.admin import Admin

    async def ask(cluster: "Cluster") -> None:
        await Admin(cluster).unregister_broker(broker_id)

    run_with_cluster(bootstrap_server, command_config, ask)
    if as_json:
        write_json({"id": broker_id, "unregistered": True})
    else:
        write_line(f"broker {broker_id} is no longer part of the cluster")
