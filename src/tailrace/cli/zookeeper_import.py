"""`tailrace zookeeper import`: copy the metadata of a single broker to ZooKeeper, so that other brokers can join it."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tailrace.base.event_loop import new_event_loop
from tailrace.cli.output import write_line

if TYPE_CHECKING:
    from tailrace.config.broker import BrokerConfig

_IMPORTED_SUFFIX = ".imported"


@click.command("import")
@click.option("--config", "config_file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
@click.option("--data", metavar="DIR", help="Folder of the broker; short for --set log.dirs=DIR.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Broker config; can be repeated.")
def import_metadata(config_file: Path | None, data: str | None, settings: tuple[str, ...]) -> None:
    """Copy the metadata of a stopped single broker to ZooKeeper.

    Takes the configs with which the broker will be started, including zookeeper.connect. The logs are not moved. If
    the import is interrupted, run it again.
    """
    from tailrace.cli.start import overrides
    from tailrace.config.load import load_broker_config

    config = load_broker_config(config_file, os.environ, overrides(data, None, settings))
    if config.zookeeper_connect is None:
        raise click.UsageError("the target is missing; set it with --set zookeeper.connect=HOST:PORT")
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        count = runner.run(_copy(config))
    write_line(f"{count} entries copied to {config.zookeeper_connect}; the broker can now be started with it")


async def _copy(config: "BrokerConfig") -> int:
    from tailrace.base.clock import SystemClock
    from tailrace.coordination.embedded import EmbeddedStore
    from tailrace.coordination.migration import copy_metadata
    from tailrace.coordination.reserve import Reserve
    from tailrace.runtime.metadata_store import open_zookeeper_store, store_file
    from tailrace.storage.fs import RealFileSystem
    from tailrace.storage.log_dir import lock_folder

    file = store_file(config)
    if not file.exists():
        raise click.ClickException(f"{file} does not exist: this is not the folder of a single broker")
    fs = RealFileSystem()
    lock = lock_folder(fs, str(file.parent))
    counts: list[int] = []
    target = await open_zookeeper_store(config, SystemClock())
    try:
        source = EmbeddedStore(file)
        try:
            await copy_metadata(source, target, counts.append)
        finally:
            await source.close()
    finally:
        await target.close()
    # Renamed last: while the file exists, the broker refuses to use ZooKeeper.
    file.rename(file.with_name(file.name + _IMPORTED_SUFFIX))
    Reserve(file).give_up()
    fs.sync_directory(str(file.parent))
    del lock
    return sum(counts)
