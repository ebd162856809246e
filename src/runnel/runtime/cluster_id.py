"""The name of the cluster, chosen once by whoever starts it first."""

import json
from base64 import urlsafe_b64encode
from uuid import uuid4

from runnel.coordination.layout import CLUSTER_ID
from runnel.coordination.store import Create, MetadataStore, NodeExistsError, OutcomeUnknown
from runnel.storage.folder_identity import FolderIdentity, ForeignFolder


async def load_cluster_id(store: MetadataStore, claimed: FolderIdentity | None = None) -> str:
    """The stored cluster id; a new one, 22 characters as Kafka's are, when there is none.

    `claimed` is what a log folder says. A broker of some cluster does not begin another in a store that is empty:
    it was most likely told the address of the wrong one.
    """
    while (node := await store.get(CLUSTER_ID)) is None:
        if claimed is not None:
            raise ForeignFolder(
                f"the logs are of cluster {claimed.cluster_id}, but the metadata store knows of no cluster; is it the "
                "right one?"
            )
        cluster_id = urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        try:
            await store.commit([Create(CLUSTER_ID, json.dumps({"version": "1", "id": cluster_id}).encode())])
        except NodeExistsError:
            continue  # another broker chose
        except OutcomeUnknown:
            await store.wait_connected()  # then the store knows whether it was chosen
    found: str = json.loads(node.value)["id"]
    return found
