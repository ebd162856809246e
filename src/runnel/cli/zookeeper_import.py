"""`runnel zookeeper import`: what a broker that was alone knows goes to ZooKeeper, so that others can join it."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runnel.base.event_loop import new_event_loop
from runnel.cli.output import write_line

if TYPE_CHECKING:
    from runnel.config.broker import BrokerConfig

_IMPORTED_SUFFIX = ".imported"


@click.command("import")
@click.option("--config", "config_file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
@click.option("--data", metavar="DIR", help="The folder of the broker, short for --set log.dirs=DIR.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A broker option; repeat as needed.")
def import_metadata(config_file: Path | None, data: str | None, settings: tuple[str, ...]) -> None:
    """Copy the metadata of a stopped broker that was alone to ZooKeeper.

    Takes the options that the broker will be started with, zookeeper.connect among them. The logs stay where they
    are. If it is cut, call it again.
    """
    from runnel.cli.start import overrides
    from runnel.config.load import load_broker_config

    config = load_broker_config(config_file, os.environ, overrides(data, None, settings))
    if config.zookeeper_connect is None:
        raise click.UsageError("say with --set zookeeper.connect=HOST:PORT where to")
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        count = runner.run(_copy(config))
    write_line(f"{count} entries copied to {config.zookeeper_connect}; the broker can be started with it now")


async def _copy(config: "BrokerConfig") -> int:
    from runnel.base.clock import SystemClock
    from runnel.coordination.embedded import EmbeddedStore
    from runnel.coordination.migration import copy_metadata
    from runnel.coordination.reserve import Reserve
    from runnel.runtime.metadata_store import open_zookeeper_store, store_file
    from runnel.storage.fs import RealFileSystem
    from runnel.storage.log_dir import lock_folder

    file = store_file(config)
    if not file.exists():
        raise click.ClickException(f"{file} is not there: no broker that was alone has its logs here")
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
    # Last: as long as it has its name, the broker refuses to use ZooKeeper.
    file.rename(file.with_name(file.name + _IMPORTED_SUFFIX))
    Reserve(file).give_up()
    fs.sync_directory(str(file.parent))
    del lock
    return sum(counts)
