"""The configuration of a broker as it is now: what it was started with, overridden by dynamic configs."""

from tailrace.config.broker import BrokerConfig
from tailrace.config.group import GroupConfig
from tailrace.config.topic import TopicConfig
from tailrace.machines.controller.election import Rule
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.record import CLUSTER_DEFAULT, ConfigKind
from tailrace.machines.controller.topic import Defaults


class LiveConfig:
    """Resolves the configs of the broker, of topics and of groups from the cluster image."""

    def __init__(self, static: BrokerConfig, image: ClusterImage) -> None:
        """`static` is the configuration that the broker was started with."""
        self._static = static
        self._image = image
        self._current = self._resolve()

    def current(self) -> BrokerConfig:
        """Return the broker's configuration. It changes while the broker runs, so do not keep it."""
        return self._current

    def refresh(self) -> None:
        """Read the dynamic configs of the broker and of the cluster again, after they changed."""
        self._current = self._resolve()

    def _resolve(self) -> BrokerConfig:
        return self._static.with_dynamic(
            self._image.config(ConfigKind.BROKER, str(self._static.node_id)),
            self._image.config(ConfigKind.BROKER, CLUSTER_DEFAULT),
        )

    def topic(self, name: str) -> TopicConfig:
        """Return a topic's configuration: its own configs, else the broker's, else the defaults."""
        return TopicConfig.resolve(self._image.config(ConfigKind.TOPIC, name), self._current)

    def group(self, group_id: str) -> GroupConfig:
        """Return a group's configuration: its own configs, else the broker's, else the defaults."""
        return GroupConfig.resolve(self._image.config(ConfigKind.GROUP, group_id), self._current)

    def election_rule(self, topic: str) -> Rule:
        """Return what a topic's configuration says about its leaders."""
        config = self.topic(topic)
        return Rule(config.min_insync_replicas, config.unclean_leader_election_enable)

    @property
    def topic_defaults(self) -> Defaults:
        """The partition count and replication factor of a topic that is created without them."""
        return Defaults(self._current.num_partitions, self._current.default_replication_factor)
