"""The metadata store of a broker: ZooKeeper if its config names one, else a file in its first log folder."""

import json
import ssl
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from tailrace.base.clock import Clock
from tailrace.base.limits import STORE_FILE_NAME
from tailrace.config.broker import BrokerConfig
from tailrace.config.error import ConfigError
from tailrace.config.zookeeper import parse_connect
from tailrace.coordination.embedded import EmbeddedStore
from tailrace.coordination.layout import CLUSTER_ID
from tailrace.coordination.reserve import Reserve
from tailrace.coordination.store import Create, MetadataStore, NodeExistsError, OutcomeUnknown
from tailrace.coordination.zookeeper.login import SaslLogin
from tailrace.runtime.tls import make_broker_context
from tailrace.security.jaas import JaasError, LoginModule, parse_jaas
from tailrace.security.tls.store import Stores
from tailrace.storage.folder_identity import FolderIdentity, ForeignFolder, read_identity
from tailrace.storage.fs import FileSystem

if TYPE_CHECKING:
    from tailrace.coordination.zookeeper.zookeeper import ZooKeeperStore


async def open_store(config: BrokerConfig, fs: FileSystem, clock: Clock) -> MetadataStore:
    """Open the store; raise StoreUnreachableError if ZooKeeper does not answer."""
    if config.zookeeper_connect is None:
        return _embedded(config, fs)
    if (file := store_file(config)).exists():
        raise ForeignFolder(
            f"{file.parent} has the metadata of a single broker, in {file.name}; run `tailrace zookeeper import` with "
            "the configs of this broker to copy it to ZooKeeper"
        )
    return await open_zookeeper_store(config, clock)


async def open_zookeeper_store(config: BrokerConfig, clock: Clock) -> "ZooKeeperStore":
    """Open the store that `zookeeper.connect` names; raise StoreUnreachableError if it does not answer."""
    store = make_zookeeper_store(config, clock)
    timeout_ms = config.zookeeper_connection_timeout_ms
    await store.open(config.zookeeper_session_timeout_ms if timeout_ms is None else timeout_ms)
    return store


def make_zookeeper_store(config: BrokerConfig, clock: Clock) -> "ZooKeeperStore":
    """Make a store that is not connected yet."""
    try:
        from tailrace.coordination.zookeeper.link import ZooKeeperServers
        from tailrace.coordination.zookeeper.zookeeper import ZooKeeperStore
    except ImportError:
        message = "zookeeper.connect needs the package kazoo; install the extra tailrace[cluster]"
        raise ConfigError("zookeeper.connect", message) from None
    servers, root = parse_connect(config.zookeeper_connect or "")
    reach = ZooKeeperServers(
        servers,
        config.zookeeper_session_timeout_ms,
        _tls(config),
        digest=config.tailrace_zookeeper_digest,
        sasl=_sasl_login(config),
    )
    return ZooKeeperStore(reach, root=root, anchor=CLUSTER_ID, sets_acl=config.zookeeper_set_acl, clock=clock)


def _sasl_login(config: BrokerConfig) -> SaslLogin | None:
    text = config.tailrace_zookeeper_sasl_jaas_config
    if text is None:
        return None
    name = BrokerConfig.tailrace_zookeeper_sasl_jaas_config.name
    try:
        login = parse_jaas(text, (LoginModule.ZOOKEEPER,))
    except JaasError as error:
        raise ConfigError(name, f"{name}: {error}") from None
    if not login.username or not login.password:
        raise ConfigError(name, f"{name} has no option {'password' if login.username else 'username'}")
    return SaslLogin(login.username, login.password)


def _tls(config: BrokerConfig) -> ssl.SSLContext | None:
    if not config.zookeeper_ssl_client_enable:
        return None
    stores = Stores(
        truststore_location=config.zookeeper_ssl_truststore_location,
        keystore_location=config.zookeeper_ssl_keystore_location,
        keystore_password=config.zookeeper_ssl_keystore_password,
    )
    checks_hostname = bool(config.zookeeper_ssl_endpoint_identification_algorithm)
    return make_broker_context("ZooKeeper", "zookeeper.ssl", stores, checks_hostname=checks_hostname)


def store_file(config: BrokerConfig) -> Path:
    """Return the metadata file of a single broker."""
    return config.log_directories[0] / STORE_FILE_NAME


def _embedded(config: BrokerConfig, fs: FileSystem) -> EmbeddedStore:
    file = store_file(config)
    folder = file.parent
    identity = read_identity(fs, str(folder))
    if identity is not None and not file.exists():
        # A new store would be that of another cluster, and would stay in a folder of a different broker.
        raise ForeignFolder(
            f"{folder} belongs to cluster {identity.cluster_id}, but {STORE_FILE_NAME}, the metadata of its topics, "
            "is missing; restore that file, or set zookeeper.connect if the broker belongs to a cluster"
        )
    fs.make_directory(str(folder))
    return EmbeddedStore(file, Reserve(file))


async def load_cluster_id(store: MetadataStore, claimed: FolderIdentity | None = None) -> str:
    """Return the stored cluster id; if there is none, store a new one with 22 characters, as Kafka's have.

    `claimed` is the identity that a log folder carries. A broker that belongs to a cluster does not start another one
    in an empty store: most likely it was given the address of the wrong store.
    """
    while (node := await store.get(CLUSTER_ID)) is None:
        if claimed is not None:
            raise ForeignFolder(
                f"the logs belong to cluster {claimed.cluster_id}, but the metadata store is empty; check that its "
                "address is right"
            )
        cluster_id = urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        try:
            await store.commit([Create(CLUSTER_ID, json.dumps({"version": "1", "id": cluster_id}).encode())])
        except NodeExistsError:
            continue  # another broker stored its id first
        except OutcomeUnknown:
            await store.wait_connected()  # then the store tells whether the id was stored
    found: str = json.loads(node.value)["id"]
    return found
