"""Starting the processes of a cluster on this machine, all of them or none.

What can be checked is checked before the first process starts: the configs of the brokers, and the ports. If a process
fails to start afterwards, all processes that this command has started are stopped, and the cluster's plan is what it
was before. A cluster that was never ready leaves only its log files.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import click

from tailrace.cli.cluster_plan import HOST, ClusterPlan, Member
from tailrace.cli.daemon import Launch
from tailrace.cli.output import write_line
from tailrace.cli.port import find_port

_READY_TIMEOUT_S = 120.0  # recovery after a crash is part of a start
_STOP_TIMEOUT_S = 30.0


def start_cluster(plan: ClusterPlan, broker_ids: Sequence[int]) -> None:
    """Start ZooKeeper and these brokers unless they run, and return when they are ready."""
    _check_configs(plan, broker_ids)
    starting = [plan.zookeeper, *(plan.brokers[broker_id] for broker_id in broker_ids)]
    starting = [member for member in starting if not member.is_running]
    _check_ports(plan, starting)
    with _undo_on_failure(plan, starting):
        plan.folder.mkdir(parents=True, exist_ok=True)
        plan.save()
        if plan.zookeeper in starting:
            _launch_zookeeper(plan).ready_line(_READY_TIMEOUT_S)
        launches = {
            broker_id: _launch_broker(plan, broker_id)
            for broker_id in broker_ids
            if plan.brokers[broker_id] in starting
        }
        for broker_id in broker_ids:
            if broker_id in launches:
                write_line(launches[broker_id].ready_line(_READY_TIMEOUT_S))
            else:
                write_line(f"tailrace: broker {broker_id} ready on {plan.brokers[broker_id].address}")


def _check_configs(plan: ClusterPlan, broker_ids: Sequence[int]) -> None:
    """Raise `ConfigError` for a config that the brokers would refuse."""
    from tailrace.config.load import load_broker_config

    for broker_id in broker_ids:
        load_broker_config(None, os.environ, _pairs(plan, broker_id))


def _check_ports(plan: ClusterPlan, members: Sequence[Member]) -> None:
    known = ClusterPlan.load(plan.folder)
    for member in members:
        try:
            find_port(HOST, member.port)
        except OSError as error:
            is_new = known is None or member.name not in {broker.name for broker in known.brokers.values()}
            advice = (
                "choose other ports with --port"
                if is_new and member is not plan.zookeeper
                else f"stop the process that uses port {member.port}"
            )
            raise click.ClickException(
                f"{member.name} cannot listen on {member.address}: {error.strerror}; {advice}"
            ) from None


@contextmanager
def _undo_on_failure(plan: ClusterPlan, starting: Sequence[Member]) -> Iterator[None]:
    before = ClusterPlan.load(plan.folder)
    new = [plan.folder / member.name for member in starting]
    new = [folder for folder in new if not folder.exists()]
    try:
        yield
    except BaseException:  # also Ctrl-C: the processes have sessions of their own and do not get it
        # Brokers first: a broker needs ZooKeeper for a clean stop.
        for member in reversed(starting):
            _end(member)
        if before is not None:
            # The folders stay: partitions may have been assigned to a new broker that was ready for a moment.
            before.save()
        else:
            plan.remove()
            for folder in new:
                shutil.rmtree(folder, ignore_errors=True)
        raise


def _end(member: Member) -> None:
    if member.daemon is None:
        return
    member.daemon.stop()
    if not member.daemon.wait(_STOP_TIMEOUT_S):
        member.daemon.kill()
        member.daemon.wait(_STOP_TIMEOUT_S)


def _launch_zookeeper(plan: ClusterPlan) -> Launch:
    member = plan.zookeeper
    return _launch(
        plan, member, ["zookeeper", "start", "--data", str(plan.folder / member.name), "--listen", member.address]
    )


def _launch_broker(plan: ClusterPlan, broker_id: int) -> Launch:
    from tailrace.config.load import environment_name

    # The configs of the plan are stronger than the environment, and those of a file are weaker.
    hidden = {environment_name(name) for name in plan.broker_settings(broker_id)}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    config = plan.save_config(broker_id)
    return _launch(plan, plan.brokers[broker_id], ["start", "--config", str(config)], environment)


def _pairs(plan: ClusterPlan, broker_id: int) -> list[str]:
    return [f"{name}={value}" for name, value in plan.broker_settings(broker_id).items()]


def _launch(
    plan: ClusterPlan, member: Member, arguments: Sequence[str], environment: Mapping[str, str] = os.environ
) -> Launch:
    launch = Launch(arguments, plan.folder / f"{member.name}.log", environment)
    member.daemon = launch.daemon
    # Saved at once, so that `stop` finds the process even if this command is killed.
    plan.save()
    return launch
