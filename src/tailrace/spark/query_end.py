"""The end of transactions that an abandoned query, or one that writes to another topic now, has left open."""

import re
import uuid
from collections.abc import Iterable, Mapping

from tailrace.client.admin.sync import Admin
from tailrace.client.error import ClientError
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from tailrace.spark.batch_end import settle
from tailrace.spark.client_setting import PREFIX, ClientSettings, parse_client_settings
from tailrace.spark.retriable import broker_error
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
    settings = _settings(bootstrap_servers, config)
    open_names = _list_open(settings, query_id)
    sinks = set(map(sink_of, open_names))
    _settle_all(settings, sinks | (decided_sinks(settings, query_id) if forget else set()), forget=forget)
    return len(open_names)


def end_other_sinks(
    bootstrap_servers: str, query_id: str, kept: str | None, config: Mapping[str, str] | None = None
) -> int:
    """End the open transactions of a query that is about to start, except those of the sink `kept`.

    A query ends the transactions of its own sink with its next batch. It never looks at a topic that its file does not
    name any more, so readers of that topic would wait for ever. Returns the number of transactions.
    """
    settings = _settings(bootstrap_servers, config)
    sinks = [sink for name in _list_open(settings, query_id) if (sink := sink_of(name)) != kept]
    _settle_all(settings, set(sinks), forget=False)
    return len(sinks)


def _settings(bootstrap_servers: str, config: Mapping[str, str] | None) -> ClientSettings:
    options = {**(config or {}), "bootstrap.servers": bootstrap_servers}
    return parse_client_settings({PREFIX + name: text for name, text in options.items()})


def _list_open(settings: ClientSettings, query_id: str) -> list[str]:
    """Return the ids of a query's open transactions. Brokers that cannot list them by name have none of its kind."""
    try:
        with Admin(config=settings.admin) as admin:
            found = admin.list_transactions(states=[OPEN], pattern=re.escape(query_names(query_id)) + ".*")
    except (ClientError, ApiError, RemoteProtocolError) as error:
        if isinstance(error, ApiError) and error.code is ErrorCode.UNSUPPORTED_VERSION:
            return []
        raise broker_error(f"the transactions of query {query_id} could not be listed: {error}", error) from None
    return [transaction.transactional_id for transaction in found]


def _settle_all(settings: ClientSettings, sinks: Iterable[str], *, forget: bool) -> None:
    run_id = str(uuid.uuid4())  # a new run, which replaces that of the query
    for sink in sinks:
        with open_desk(settings, sink) as desk:
            settle(desk, run_id)
            if forget:
                desk.forget()
