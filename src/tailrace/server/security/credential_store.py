"""The SCRAM credentials of users and delegation tokens, as the cluster image has them."""

import base64
from collections import OrderedDict

from tailrace.base.clock import Clock
from tailrace.base.security_limits import TOKEN_CREDENTIALS_KEPT_MAX
from tailrace.base.text import printable
from tailrace.machines.controller.entity import entity_name
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.record import ConfigKind
from tailrace.runtime.controller.token_index import token_hmac
from tailrace.security.scram.credential import (
    Credential,
    InvalidCredential,
    format_salt,
    make_credential,
    parse_credential,
)
from tailrace.security.scram.mechanism import ITERATIONS_MIN, Mechanism
from tailrace.security.scram.server import TokenCredential
from tailrace.server.bounded_log import BoundedLog


class ImageCredentials:
    """The credentials for one mechanism.

    `token_key` is the secret of delegation tokens. Without it, or if it is empty, no token can log in.
    """

    def __init__(self, mechanism: Mechanism, image: ClusterImage, clock: Clock, token_key: str | None) -> None:
        self._mechanism = mechanism
        self._image = image
        self._clock = clock
        self._token_key = token_key
        self._derived: OrderedDict[str, Credential] = OrderedDict()
        self._damage = BoundedLog(lambda count: f"{count} more logins failed because of damaged credentials")

    def user(self, name: str) -> Credential | None:
        """Return the credential of a user."""
        text = self._image.config(ConfigKind.USER, entity_name(name)).get(self._mechanism.name)
        if text is None:
            return None
        try:
            return parse_credential(text)
        except InvalidCredential as error:
            self._damage.warn(
                self._clock.now_ms(), "user %s cannot log in by %s: %s", printable(name), self._mechanism.name, error
            )
            return None

    def token(self, token_id: str) -> TokenCredential | None:
        """Return the credential of a delegation token that has not expired."""
        token = self._image.tokens.get(token_id)
        if token is None or not self._token_key or token.expiry_timestamp <= self._clock.now_ms():
            return None
        owner = token.owner.partition(":")[2]
        return TokenCredential(self._derive(token_id, self._token_key), owner, token.expiry_timestamp)

    def _derive(self, token_id: str, key: str) -> Credential:
        """Return the credential for a token's HMAC, which is its password. Several threads may ask."""
        kept = self._derived.get(token_id)
        if kept is None:
            password = base64.b64encode(token_hmac(key, token_id)).decode()
            # In the form of a decoy's salt, because another one would tell that the token exists.
            salt = format_salt(self._mechanism.hmac(key.encode(), f"salt:{token_id}".encode()))
            kept = self._derived[token_id] = make_credential(self._mechanism, password, salt, ITERATIONS_MIN)
            while len(self._derived) > TOKEN_CREDENTIALS_KEPT_MAX:
                self._derived.popitem(last=False)
        return kept
