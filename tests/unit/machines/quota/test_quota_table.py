"""Which quota applies to a client, compared with a model that looks at all of them."""

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.machines.quota import naive

from tailrace.base.limits import QUOTA_NAME_LENGTH_MAX
from tailrace.machines.quota.entity import DEFAULT, Part, QuotaEntity
from tailrace.machines.quota.key import QuotaKey
from tailrace.machines.quota.table import Identity, Limit, QuotaTable

NAMES = ["a", "b", "c"]
parts: st.SearchStrategy[Part] = st.sampled_from([None, DEFAULT, *NAMES[:2]])
entities = st.builds(QuotaEntity, parts, parts, st.none()).filter(lambda entity: bool(entity.parts))


def table(rates: dict[QuotaEntity, float], key: QuotaKey = QuotaKey.PRODUCE) -> QuotaTable:
    return QuotaTable((entity, {key.value: repr(rate)}) for entity, rate in rates.items())


@given(
    st.dictionaries(entities, st.integers(1, 100).map(float), max_size=16),
    st.sampled_from(NAMES),
    st.sampled_from(["", *NAMES]),
    st.sampled_from([QuotaKey.PRODUCE, QuotaKey.FETCH, QuotaKey.REQUEST, QuotaKey.MUTATION]),
)
def test_the_most_specific_quota_applies(
    rates: dict[QuotaEntity, float], user: str, client_id: str, key: QuotaKey
) -> None:
    built = table(rates, key)
    assert built.find(key, user, client_id) == naive.find(rates, user, client_id)
    assert built.limits_clients == bool(rates)
    others = {QuotaKey.PRODUCE, QuotaKey.FETCH} - {key}
    assert all(built.find(other, user, client_id) is None for other in others)


def test_the_eight_levels_in_their_order() -> None:
    """Kafka's order; each level is found when all before it are gone."""
    levels = [
        (QuotaEntity("u", "c"), Identity("u", "c")),
        (QuotaEntity("u", DEFAULT), Identity("u", "c")),
        (QuotaEntity("u"), Identity("u")),
        (QuotaEntity(DEFAULT, "c"), Identity("u", "c")),
        (QuotaEntity(DEFAULT, DEFAULT), Identity("u", "c")),
        (QuotaEntity(DEFAULT), Identity("u")),
        (QuotaEntity(None, "c"), Identity(None, "c")),
        (QuotaEntity(None, DEFAULT), Identity(None, "c")),
    ]
    rates = {entity: float(number) for number, (entity, _) in enumerate(levels, 1)}
    for number, (entity, identity) in enumerate(levels, 1):
        assert table(rates).find(QuotaKey.FETCH, "u", "c") is None
        assert table(rates).find(QuotaKey.PRODUCE, "u", "c") == Limit(number, identity)
        del rates[entity]
    assert table(rates).find(QuotaKey.PRODUCE, "u", "c") is None


def test_configs_that_are_no_quotas_are_skipped() -> None:
    """The configs of a user hold credentials too, and those of an address have another quota than those of a user."""
    built = QuotaTable(
        [
            (QuotaEntity("u"), {"SCRAM-SHA-256": "salt=1", "connection_creation_rate": "3"}),
            (QuotaEntity(client_id="c"), {"producer_byte_rate": "x", "consumer_byte_rate": "-1"}),
            (QuotaEntity(ip="10.0.0.1"), {"producer_byte_rate": "1"}),
        ]
    )
    assert not built.limits_clients
    assert built.find_connection("10.0.0.1") is None


def test_addresses_are_compared_by_value() -> None:
    built = QuotaTable(
        [
            (QuotaEntity(ip="0:0:0:0:0:0:0:1"), {"connection_creation_rate": "3"}),
            (QuotaEntity(ip=DEFAULT), {"connection_creation_rate": "5"}),
        ]
    )
    assert built.find_connection("::1") == Limit(3, Identity(ip="::1"))
    assert built.find_connection("::ffff:10.0.0.1") == Limit(5, Identity(ip="10.0.0.1"))
    assert not built.limits_clients


def test_long_client_ids_take_little_memory() -> None:
    limit = table({QuotaEntity(None, DEFAULT): 1.0}).find(QuotaKey.PRODUCE, "u", "x" * 30_000)
    assert limit is not None
    assert limit.identity.client_id == "x" * QUOTA_NAME_LENGTH_MAX
