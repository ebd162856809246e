"""The secret from which brokers derive the credentials of users that do not exist.

A client that knows it can tell these decoys from users. So it is random, the same on all brokers of a cluster, and only
in the metadata store, which no client can read.
"""

import json
import os
from base64 import b64decode, b64encode

from tailrace.coordination.layout import DECOY_SECRET
from tailrace.coordination.store import Create, MetadataStore, NodeExistsError, OutcomeUnknown

_SECRET_BYTES = 32


async def load_decoy_secret(store: MetadataStore) -> bytes:
    """Return the stored secret; if there is none, store a new one. Brokers that start together get the same."""
    while (node := await store.get(DECOY_SECRET)) is None:
        secret = b64encode(os.urandom(_SECRET_BYTES)).decode()
        try:
            await store.commit([Create(DECOY_SECRET, json.dumps({"version": 1, "secret": secret}).encode())])
        except NodeExistsError:
            continue  # another broker stored its secret first
        except OutcomeUnknown:
            await store.wait_connected()  # then the store tells whether the secret was stored
    return b64decode(json.loads(node.value)["secret"])
