"""What a query that never comes back has left open in its topics, and its end."""

import re
import uuid
from collections.abc import Mapping

from runnel.client.error import ClientError
from runnel.client.sync_admin import Admin
from runnel.protocol.errors import ApiError, RemoteProtocolError
from runnel.spark.batch_end import settle
from runnel.spark.client_setting import PREFIX, parse_client_settings
from runnel.spark.error import BrokerError
from runnel.spark.transaction_desk import OPEN, decided_sinks, open_desk
from runnel.spark.transaction_name import query_names, sink_of


def end_query(
    bootstrap_servers: str, query_id: str, *, forget: bool = False, config: Mapping[str, str] | None = None
) -> int:
    """End what a dead query has left open: what was decided counts, and the rest does not.

    `query_id` is the id in the query's checkpoint; a query that still runs fails, and goes on when it is
    restarted. With `forget` the brokers do not keep its last decision any more either. That is for queries whose
    checkpoint is gone: a query that came back, or still runs, could write its last batch again. `config` holds
    settings of Kafka clients. Returns how many transactions there were.
    """
    options = {"bootstrap.servers": bootstrap_servers, **(config or {})}
    settings = parse_client_settings({PREFIX + name: text for name, text in options.items()})
    try:
        with Admin(config=settings.admin) as admin:
            found = admin.list_transactions(states=[OPEN], pattern=re.escape(query_names(query_id)) + ".*")
    except (ClientError, ApiError, RemoteProtocolError) as error:
        raise BrokerError(f"the transactions of query {query_id} could not be listed: {error}") from None
    sinks = {sink_of(transaction.transactional_id) for transaction in found}
    run_id = str(uuid.uuid4())  # a run of its own, which replaces that of the query
    for sink in sinks | (decided_sinks(settings, query_id) if forget else set()):
        with open_desk(settings, sink) as desk:
            settle(desk, run_id)
            if forget:
                desk.forget()
    return len(found)
