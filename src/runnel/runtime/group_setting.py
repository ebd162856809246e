"""The values that hold for each group of the new protocol, remembered until something about them changes."""

from collections.abc import Callable, Mapping

from runnel.base.limits import GROUP_SETTINGS_REMEMBERED_MAX
from runnel.config.broker import BrokerConfig
from runnel.config.group import GroupConfig
from runnel.machines.controller.image import ClusterImage
from runnel.machines.controller.record import ConfigKind
from runnel.machines.group.consumer_setting import ConsumerGroupSetting, consumer_group_setting


class ConsumerGroupSettings:
    """Called with a group id for every heartbeat, so it resolves a configuration once and not each time.

    Groups with the same values of their own share one entry; most have none.
    """

    def __init__(self, config: Callable[[], BrokerConfig], image: ClusterImage) -> None:
        self._config = config
        self._image = image
        self._known: dict[tuple[tuple[str, str], ...], ConsumerGroupSetting] = {}
        self._known_for: BrokerConfig | None = None

    def __call__(self, group_id: str) -> ConsumerGroupSetting:
        config = self._config()
        if config is not self._known_for or len(self._known) > GROUP_SETTINGS_REMEMBERED_MAX:
            self._known, self._known_for = {}, config
        own = self._image.config(ConfigKind.GROUP, group_id)
        key = tuple(own.items())
        if key not in self._known:
            self._known[key] = self._resolve(own, config)
        return self._known[key]

    @staticmethod
    def _resolve(own: Mapping[str, str], config: BrokerConfig) -> ConsumerGroupSetting:
        return consumer_group_setting(GroupConfig.resolve(own, config), config)
