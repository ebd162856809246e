"""The name of the cluster, chosen once by whoever starts it first."""

import json
from base64 import urlsafe_b64encode
from uuid import uuid4

from runnel.coordination.layout import CLUSTER_ID
from runnel.coordination.store import Create, MetadataStore, NodeExistsError


async def load_cluster_id(store: MetadataStore) -> str:
    """The stored cluster id; a new one, 22 characters as Kafka's are, when there is none."""
    while (node := await store.get(CLUSTER_ID)) is None:
        cluster_id = urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        try:
            await store.commit([Create(CLUSTER_ID, json.dumps({"version": "1", "id": cluster_id}).encode())])
        except NodeExistsError:
            continue  # another broker chose
    found: str = json.loads(node.value)["id"]
    return found
