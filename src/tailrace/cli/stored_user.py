"""Users in the metadata store of brokers that do not run, such as the first user of brokers that require a login."""

import errno
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import click

from tailrace.base.clock import SystemClock
from tailrace.base.limits import DECISION_ATTEMPTS_MAX
from tailrace.client.admin.scram import NewScramCredential, ScramCredential
from tailrace.config.broker import BrokerConfig
from tailrace.coordination.cluster import ClusterMetadata
from tailrace.machines.controller.entity import entity_name, parse_entity_name
from tailrace.machines.controller.record import ConfigKind, ConfigRecord
from tailrace.runtime.controller.controller import CONFLICTS
from tailrace.runtime.metadata_store import open_store, open_zookeeper_store, store_file
from tailrace.security.scram.credential import (
    SALT_SIZE_BYTES,
    format_credential,
    format_salt,
    make_credential,
    parse_credential,
)
from tailrace.security.scram.mechanism import SCRAM_MECHANISMS
from tailrace.storage.error import StorageError
from tailrace.storage.fs import RealFileSystem
from tailrace.storage.log_dir import lock_folder


async def list_users(config: BrokerConfig) -> dict[str, list[ScramCredential]]:
    """Return the users with credentials, by name."""
    if config.zookeeper_connect is None and not (file := store_file(config)).exists():
        raise click.ClickException(f"{file} does not exist: this is not the folder of a single broker")
    async with _metadata(config) as metadata:
        image = metadata.image
        found = {name: image.config(ConfigKind.USER, name) for name in image.configured(ConfigKind.USER)}
    users = {parse_entity_name(name)[0]: _credentials(configs) for name, configs in found.items()}
    return {user: users[user] for user in sorted(filter(None, users)) if users[user]}


async def set_credential(config: BrokerConfig, credential: NewScramCredential) -> None:
    """Set a credential of a user."""
    mechanism = SCRAM_MECHANISMS[credential.mechanism]
    salt = format_salt(secrets.token_bytes(SALT_SIZE_BYTES))
    text = format_credential(make_credential(mechanism, credential.password, salt, credential.iterations))
    await _change(config, credential.user, lambda configs: {**configs, mechanism.name: text})


async def delete_credentials(config: BrokerConfig, user: str, mechanisms: frozenset[str]) -> list[str]:
    """Delete the credentials of a user for these mechanisms; return the mechanisms that it had."""
    deleted: list[str] = []

    def remove(configs: Mapping[str, str]) -> Mapping[str, str]:
        deleted[:] = sorted(mechanisms & configs.keys())
        return {name: value for name, value in configs.items() if name not in mechanisms}

    await _change(config, user, remove)
    return deleted


async def _change(config: BrokerConfig, user: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]) -> None:
    name = entity_name(user)
    async with _metadata(config) as metadata:
        for _ in range(DECISION_ATTEMPTS_MAX):
            configs = change(metadata.image.config(ConfigKind.USER, name))
            try:
                await metadata.commit([ConfigRecord(ConfigKind.USER, name, configs)])
            except CONFLICTS:
                continue  # a broker wrote first, and the image has its change
            return
    raise click.ClickException(f"brokers change user {user} at the same time; try again")


@asynccontextmanager
async def _metadata(config: BrokerConfig) -> AsyncIterator[ClusterMetadata]:
    fs = RealFileSystem()
    if config.zookeeper_connect is None:
        folder = str(store_file(config).parent)
        fs.make_directory(folder)
        try:
            lock = lock_folder(fs, folder)
        except StorageError as error:
            if error.cause.errno != errno.EAGAIN:
                raise
            message = f"a broker is running on {folder}; reach it with --bootstrap-server instead"
            raise click.ClickException(message) from error
        store = await open_store(config, fs, SystemClock())
    else:
        lock, store = None, await open_zookeeper_store(config, SystemClock())
    try:
        metadata = ClusterMetadata(store)
        await metadata.load()
        yield metadata
    finally:
        await store.close()
        del lock


def _credentials(configs: Mapping[str, str]) -> list[ScramCredential]:
    names = [name for name in SCRAM_MECHANISMS if name in configs]
    return [ScramCredential(name, parse_credential(configs[name]).iterations) for name in names]
