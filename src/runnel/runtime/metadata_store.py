"""Which metadata store a broker has: ZooKeeper where its configuration names one, else a file in its first folder."""

import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from runnel.base.clock import Clock
from runnel.base.limits import STORE_FILE_NAME
from runnel.config.broker import BrokerConfig
from runnel.config.error import ConfigError
from runnel.config.zookeeper import parse_connect
from runnel.coordination.embedded import EmbeddedStore
from runnel.coordination.layout import CLUSTER_ID
from runnel.coordination.reserve import Reserve
from runnel.coordination.store import MetadataStore
from runnel.storage.folder_identity import ForeignFolder, read_identity
from runnel.storage.fs import FileSystem

if TYPE_CHECKING:
    from runnel.coordination.zookeeper import ZooKeeperStore


async def open_store(config: BrokerConfig, fs: FileSystem, clock: Clock) -> MetadataStore:
    """Open the store; raises StoreUnreachableError when ZooKeeper does not answer."""
    if config.zookeeper_connect is None:
        return _embedded(config, fs)
    if (file := store_file(config)).exists():
        raise ForeignFolder(
            f"{file.parent} holds the metadata of a broker that was alone, in {file.name}; `runnel zookeeper import` "
            "with the options of this broker takes it to ZooKeeper"
        )
    return await open_zookeeper_store(config, clock)


async def open_zookeeper_store(config: BrokerConfig, clock: Clock) -> "ZooKeeperStore":
    """Open the store that `zookeeper.connect` names; raises StoreUnreachableError when it does not answer."""
    store = make_zookeeper_store(config, clock)
    timeout_ms = config.zookeeper_connection_timeout_ms
    await store.open(config.zookeeper_session_timeout_ms if timeout_ms is None else timeout_ms)
    return store


def make_zookeeper_store(config: BrokerConfig, clock: Clock) -> "ZooKeeperStore":
    """A store that is not connected yet."""
    try:
        from runnel.coordination.zookeeper import ZooKeeperStore
        from runnel.coordination.zookeeper_link import ZooKeeperServers
    except ImportError:
        message = "zookeeper.connect needs the package kazoo: install the extra runnel[cluster]"
        raise ConfigError("zookeeper.connect", message) from None
    servers, root = parse_connect(config.zookeeper_connect or "")
    reach = ZooKeeperServers(
        servers, config.zookeeper_session_timeout_ms, _tls(config), digest=config.runnel_zookeeper_digest
    )
    return ZooKeeperStore(reach, root=root, anchor=CLUSTER_ID, sets_acl=config.zookeeper_set_acl, clock=clock)


def _tls(config: BrokerConfig) -> ssl.SSLContext | None:
    if not config.zookeeper_ssl_client_enable:
        return None
    from runnel.coordination.zookeeper_tls import make_context

    truststore, keystore = config.zookeeper_ssl_truststore_location, config.zookeeper_ssl_keystore_location
    try:
        return make_context(
            truststore,
            keystore,
            config.zookeeper_ssl_keystore_password,
            checks_hostname=bool(config.zookeeper_ssl_endpoint_identification_algorithm),
        )
    except OSError as error:
        files = " and ".join(path for path in (truststore, keystore) if path is not None)
        name = "zookeeper.ssl.truststore.location" if keystore is None else "zookeeper.ssl.keystore.location"
        raise ConfigError(name, f"TLS to ZooKeeper cannot be set up with {files}: {error}") from None


def store_file(config: BrokerConfig) -> Path:
    """Where a broker that is alone has its metadata."""
    return config.log_directories[0] / STORE_FILE_NAME


def _embedded(config: BrokerConfig, fs: FileSystem) -> EmbeddedStore:
    file = store_file(config)
    folder = file.parent
    identity = read_identity(fs, str(folder))
    if identity is not None and not file.exists():
        # A store made now would be of another cluster, and would stay in a folder that is not ours.
        raise ForeignFolder(
            f"{folder} belongs to cluster {identity.cluster_id}, but {STORE_FILE_NAME}, which says what is in it, "
            "is not there"
        )
    fs.make_directory(str(folder))
    return EmbeddedStore(file, Reserve(file))
