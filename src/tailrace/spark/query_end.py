"""The end of transactions that an abandoned query has left open."""

import re
import uuid
from collections.abc import Mapping

from tailrace.client.admin.sync import Admin
from tailrace.client.error import ClientError
from tailrace.protocol.errors import ApiError, RemoteProtocolError
from tailrace.spark.batch_end import settle
from tailrace.spark.client_setting import PREFIX, parse_client_settings
from tailrace.spark.error import BrokerError
from tailrace.spark.transaction_desk import OPEN, decided_sinks, open_desk
from tailrace.spark.transaction_name import query_names, sink_of


def end_query(
    bootstrap_servers: str, query_id: str, *, forget: bool = False, config: Mapping[str, str] | None = None
) -> int:
    """End the open transactions of an abandoned query: commit the decided ones, and abort the others.

    `query_id` is the id in the query's checkpoint. A query that still runs fails, and continues when it is restarted.
    `forget` also deletes its last decision; use it only if the checkpoint was deleted, because a query that continues
    could write its last batch again. `config` holds configs of Kafka clients. Returns the number of transactions.
    """
    options = {"bootstrap.servers": bootstrap_servers, **(config or {})}
    settings = parse_client_settings({PREFIX + name: text for name, text in options.items()})
    try:
        with Admin(config=settings.admin) as admin:
            found = admin.list_transactions(states=[OPEN], pattern=re.escape(query_names(query_id)) + ".*")
    except (ClientError, ApiError, RemoteProtocolError) as error:
        raise BrokerError(f"the transactions of query {query_id} could not be listed: {error}") from None
    sinks = {sink_of(transaction.transactional_id) for transaction in found}
    run_id = str(uuid.uuid4())  # a new run, which replaces that of the query
    for sink in sinks | (decided_sinks(settings, query_id) if forget else set()):
        with open_desk(settings, sink) as desk:
            settle(desk, run_id)
            if forget:
                desk.forget()
    return len(found)
