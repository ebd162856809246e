"""What hostile input gets, row by row, and the tests that show it.

A row has the input, the answer, and tests as FILE::FUNCTION. `answer NAME` is a question of `tests/clients/ask`, which
was put to Apache Kafka and is put to Tailrace by `tests/clients/test_answers.py`. Rows whose answer differs from
Kafka's say so after a semicolon.
"""

from typing import NamedTuple


class Row(NamedTuple):
    """A kind of input, its answer, and what tests it."""

    given: str
    answer: str
    tests: tuple[str, ...]


def _row(given: str, answer: str, *tests: str) -> Row:
    return Row(given, answer, tests)


_INPUT = "tests/faults/test_hostile_input.py::"
_LOGIN = "tests/faults/test_hostile_logins.py::"
_GROUP = "tests/faults/test_hostile_groups.py::"
_CONNECTION = "tests/unit/server/test_connection.py::"
_LISTENER = "tests/unit/server/test_listener.py::"
_LIMIT = "tests/unit/server/test_connection_limit.py::"
_RATE = "tests/unit/server/quota/test_connection_rate.py::"
_CODEC = "tests/protocol/test_codec_bad_input.py::"
_BATCH = "tests/unit/records/test_batch_validation.py::"
_HANDLER = "tests/unit/server/handlers/"
_ENVELOPE = f"{_HANDLER}test_envelope_handler.py::"
_SESSION = "tests/unit/server/security/test_session.py::"
_AUDIT = "tests/unit/server/security/test_audit.py::"
_SCRAM = "tests/unit/security/scram/test_server.py::"
_JWT = "tests/unit/security/test_jwt.py::"
_CLOSES = f"{_INPUT}test_what_is_no_request_closes_the_connection"
_BAD_BATCH = f"{_INPUT}test_a_bad_batch_is_refused_and_nothing_of_it_is_stored"
_TABLE = "tests/authorization/test_table.py::test_every_cell_is_that_of_kafka"

ROWS: dict[int, Row] = {
    1: _row("negative frame length", "closed", _CLOSES, "answer frame.length_negative"),
    2: _row(
        "frame length over the limit, TLS or HTTP on a plaintext listener",
        "closed, nothing allocated",
        _CLOSES,
        "answer frame.length_200_mb",
        "answer frame.tls_hello",
        "answer frame.http_get",
        f"{_LOGIN}test_a_frame_before_the_login_is_small",
    ),
    3: _row("frame length 0", "closed", _CLOSES, "answer frame.length_zero"),
    4: _row(
        "large length, then silence",
        "memory grows with what arrives; closed after tailrace.request.read.timeout.ms",
        f"{_CONNECTION}test_a_frame_must_arrive_within_its_deadline",
        f"{_CONNECTION}test_half_sent_frames_take_no_more_memory_than_allowed_and_small_requests_are_answered",
        "tests/unit/server/test_half_open.py::test_thousands_of_half_open_frames_cost_little_and_disturb_nobody",
    ),
    5: _row(
        "frame shorter than its header or body",
        "closed",
        _CLOSES,
        "answer frame.header_too_short",
        "answer frame.truncated_body",
        f"{_CODEC}test_every_prefix_of_an_encoding_is_refused",
    ),
    6: _row(
        "bytes after the body",
        "ignored, noted once",
        f"{_INPUT}test_bytes_after_the_body_are_ignored_and_noted_once",
        "answer frame.trailing_bytes",
    ),
    7: _row(
        "unknown API key",
        "closed",
        _CLOSES,
        "answer frame.unknown_api_key",
        "answer frame.negative_api_key",
        "answer frame.removed_api_key",
    ),
    8: _row(
        "unsupported version",
        "closed; ApiVersions is answered in version 0 with 35",
        _CLOSES,
        f"{_INPUT}test_an_unknown_version_of_api_versions_is_told_what_there_is",
        "answer frame.unsupported_version",
        "answer frame.api_versions_99",
    ),
    9: _row(
        "bad name of client software",
        "42",
        f"{_INPUT}test_a_bad_name_of_client_software",
        "answer frame.software_name_with_space",
    ),
    10: _row(
        "array count that lies",
        "closed before anything is allocated",
        _CLOSES,
        f"{_CODEC}test_a_count_or_length_that_lies_allocates_nothing",
        f"{_CODEC}test_a_caller_may_bound_how_many_elements_it_reads",
        "answer frame.array_count_beyond_frame",
    ),
    11: _row(
        "null, varint, string length or tag that cannot be",
        "closed",
        _CLOSES,
        f"{_CODEC}test_both_codecs_judge_mutated_encodings_alike",
        "answer frame.string_null_where_not_allowed",
    ),
    12: _row(
        "invalid UTF-8",
        "in a topic closed; in a client id served",
        _CLOSES,
        f"{_INPUT}test_a_strange_client_id_is_served_and_cannot_forge_a_log_line",
        "answer frame.topic_not_utf8",
        "answer frame.client_id_not_utf8",
    ),
    13: _row(
        "huge client id, control characters",
        "served; log lines are cut and escaped",
        f"{_INPUT}test_a_strange_client_id_is_served_and_cannot_forge_a_log_line",
        "tests/unit/server/test_dispatch.py::test_a_client_cannot_write_lines_into_the_log",
    ),
    14: _row(
        "thousands of requests ahead",
        "served in order, one at a time; reading pauses",
        f"{_CONNECTION}test_thousands_of_requests_sent_ahead_are_answered_in_order",
        f"{_CONNECTION}test_a_peer_that_sends_ahead_takes_turns_with_the_others",
    ),
    15: _row(
        "client that never reads",
        "not read, then closed",
        f"{_CONNECTION}test_a_peer_that_never_reads_is_not_read_and_in_the_end_dropped",
        f"{_CONNECTION}test_replies_become_small_when_unread_ones_fill_the_memory",
    ),
    16: _row(
        "flood of connections",
        "by address closed; over the rate delayed, then closed; in total the idlest goes, without a login first",
        f"{_LISTENER}test_one_connection_too_many_from_an_address_is_closed_at_once",
        f"{_LISTENER}test_when_there_are_too_many_the_idlest_goes",
        f"{_LIMIT}test_connections_without_a_login_go_first",
        f"{_LIMIT}test_a_listener_has_a_limit_of_its_own",
        f"{_RATE}test_an_address_over_its_rate_is_closed_after_a_pause",
        f"{_RATE}test_connections_over_the_rate_wait_for_their_turn",
    ),
    17: _row(
        "illegal topic name",
        "17; in Produce 3, as Kafka says it",
        f"{_INPUT}test_an_illegal_topic_name",
        "answer topic.metadata_invalid_names",
        "answer topic.create_bad_names",
        "answer produce.invalid_topic",
    ),
    18: _row("name that collides in metrics", "17", "answer topic.create_colliding_names"),
    19: _row(
        "produce to an internal topic",
        "17",
        f"{_HANDLER}test_produce_handler.py::test_internal_topics_are_not_for_clients",
        f"{_HANDLER}test_metadata_handler.py::test_internal_topics_say_so",
    ),
    20: _row(
        "impossible new topic",
        "37, 38, 42, 40, 36",
        "answer topic.create_partitions_and_factor",
        "answer topic.create_assignments",
        "answer topic.create_same_twice_in_one_request",
        "answer topic.create_bad_configs",
        "answer topic.create_existing",
    ),
    21: _row(
        "too many partitions or topics in a request",
        "44; Kafka creates them",
        f"{_HANDLER}test_topic_handlers.py::test_a_request_for_too_many_partitions_is_refused_whole",
        f"{_INPUT}test_thousands_of_new_topics_in_one_question_are_not_created",
    ),
    22: _row("acks that do not exist", "21", f"{_INPUT}test_acks_that_do_not_exist", "answer produce.acks_2"),
    23: _row(
        "error without acks",
        "closed",
        f"{_INPUT}test_a_bad_batch_without_acks_closes_the_connection",
        "answer produce.acks_0_bad",
    ),
    24: _row(
        "no batch, two batches, old format",
        "87; old formats 43, Kafka 87",
        _BAD_BATCH,
        "answer produce.no_batch",
        "answer batch.two_batches",
        "answer batch.magic_1",
    ),
    25: _row(
        "magic or length that cannot be", "2", _BAD_BATCH, "answer batch.magic_3", "answer batch.batch_length_long"
    ),
    26: _row("wrong checksum", "2, nothing appended", _BAD_BATCH, "answer batch.bad_crc"),
    27: _row("batch that is too large", "10, 18", "answer batch.too_large", "answer batch.larger_than_segment"),
    28: _row(
        "offsets, counts, control flag or sequence that cannot be",
        "87",
        _BAD_BATCH,
        "answer batch.base_offset_5",
        "answer batch.count_differs_from_delta",
        "answer batch.control_batch",
        "answer sequence.sequence_negative",
    ),
    29: _row(
        "record that is not what it says",
        "87",
        f"{_BATCH}test_records_that_are_not_what_they_say",
        "answer batch.record_length_lies",
        "answer batch.header_count_negative",
        "answer batch.header_count_lies",
    ),
    30: _row(
        "gaps in the offsets of a compressed batch",
        "87, never stored as it is",
        _BAD_BATCH,
        "answer batch.delta_gap_compressed",
        f"{_BATCH}test_offset_deltas_with_gaps",
    ),
    31: _row(
        "compression bomb",
        "10, in bounded memory, beside the event loop",
        f"{_INPUT}test_a_decompression_bomb_is_refused_in_flat_memory",
        f"{_INPUT}test_thousands_of_small_bombs_in_one_request_let_others_work",
        f"{_BATCH}test_huge_claim_of_snappy",
    ),
    32: _row(
        "unknown codec, zstd in old versions",
        "76 in Produce and in an old Fetch the batch is returned, as Kafka 4.3 does",
        "answer batch.codec_5",
        "answer batch.zstd_in_v6",
        "answer compression.zstd_for_old_consumers",
    ),
    33: _row(
        "no key on a compacted topic, timestamps out of range",
        "87, 32",
        "answer batch.null_key_on_compacted",
        "answer batch.claims_log_append_time",
        "answer timestamp.before_max",
        "answer timestamp.after_max",
    ),
    34: _row(
        "sequence gap, repetition, stale epoch",
        "45, success with the first offset, 45 for older batches, 47, an unknown producer is accepted",
        "answer sequence.gap",
        "answer sequence.duplicates",
        "answer sequence.epoch_rises",
        "answer sequence.never_initialised",
    ),
    35: _row(
        "transactional batch without its transaction, or of another user; another batch in an open transaction",
        "48, 120, 53",
        "answer transaction.write_unverified",
        "answer transaction.write_late",
        "tests/unit/storage/test_producer_state.py::test_a_transaction_is_open_from_its_first_batch_to_its_marker",
        f"{_HANDLER}test_produce_handler.py::test_a_transactional_batch_needs_a_transactional_id",
        "tests/clients/test_transaction_refusal.py::test_the_transactional_id_of_another_user",
    ),
    36: _row(
        "InitProducerId that cannot be",
        "42, 50, 47 and from version 4 on 90",
        "answer sequence.init_empty_transactional_id",
        "answer transaction.init_refused",
        "answer transaction.init_resumed",
    ),
    37: _row(
        "wrong broker, partition or topic",
        "6 with the leader, 3, 100",
        "answer produce.negative_partition",
        "answer produce.unknown_topic",
        "answer fetch.unknown_topic_id",
        "tests/unit/server/replication/test_leader_hint.py::test_a_producer_hears_who_leads_and_where",
    ),
    38: _row(
        "Fetch outside of the log, of another epoch or session, or of a false replica",
        "1, 74, 75, 70, 71; a client that is no broker is refused",
        "answer fetch.beyond_end",
        f"{_HANDLER}test_fetch_handler.py::test_offsets_that_were_deleted",
        "answer fetch.fenced_epoch",
        "tests/unit/server/replication/test_leader_hint.py::test_a_reader_hears_who_leads_and_in_which_epoch",
        "answer fetch.session_unknown",
        f"{_HANDLER}test_fetch_session_handler.py::test_who_is_out_of_step_is_refused_whole",
        "answer fetch.replica_fetch_without_membership",
        "tests/faults/test_cluster_bad_input.py::test_a_replica_fetch_that_is_refused",
        _TABLE,
    ),
    39: _row(
        "Fetch with limits that make no sense",
        "clamped, and the first batch is always returned; Kafka fails on negative limits",
        "answer fetch.first_batch_over_limit",
        "answer fetch.negative_limits",
        f"{_HANDLER}test_fetch_handler.py::test_the_broker_has_a_limit_too",
        f"{_HANDLER}test_fetch_handler.py::test_a_reply_that_is_full_does_not_wait_for_more",
        f"{_HANDLER}test_fetch_handler.py::test_nobody_waits_for_ever",
    ),
    40: _row("partition asked for twice", "42 for it", "answer offset.duplicates"),
    41: _row(
        "group, timeout, protocols, member that cannot be",
        "24, 26, 23, 81, 22, 25, 82",
        "answer group.join_refused",
        "answer group.life_of_a_static_member",
        f"{_GROUP}test_an_old_generation",
        f"{_GROUP}test_thousands_who_ask_for_an_id_and_never_come",
    ),
    42: _row(
        "commit with much metadata, of an unknown topic, of a negative offset",
        "12, 3; a negative offset is stored, as Kafka does",
        "answer group_offset.commits",
        f"{_GROUP}test_much_to_say_about_an_offset",
    ),
    43: _row(
        "huge metadata or assignment of a member",
        "refused; the group goes on",
        f"{_GROUP}test_much_to_say_about_itself",
        f"{_HANDLER}test_group_handlers.py::test_an_assignment_that_fits_into_no_batch_does_not_wedge_the_group",
    ),
    44: _row(
        "request before the login",
        "closed, its body unread; Kafka answers some with 34",
        f"{_LOGIN}test_a_request_before_the_login_is_not_answered",
        f"{_LOGIN}test_a_request_behind_a_refused_login_is_not_answered",
        f"{_SESSION}test_versions_are_told_once_before_the_login",
    ),
    45: _row(
        "unknown mechanism",
        "33 with the mechanisms, closed, and 34 on a listener without SASL",
        f"{_LOGIN}test_an_unknown_mechanism_is_told_those_that_there_are",
        "answer security.sasl",
    ),
    46: _row(
        "large token, bare token",
        "closed",
        f"{_LOGIN}test_a_frame_before_the_login_is_small",
        f"{_LOGIN}test_a_bare_token_where_a_request_is_expected",
        f"{_LOGIN}test_a_request_where_a_bare_token_is_expected",
    ),
    47: _row(
        "refused login",
        "58 with one text for every reason, after a delay, closed",
        f"{_LOGIN}test_a_refused_login_does_not_say_why",
        f"{_LOGIN}test_a_refused_login_is_answered_after_a_delay",
        f"{_SCRAM}test_a_bad_first_message",
        f"{_SCRAM}test_a_bad_final_message",
        f"{_SCRAM}test_the_header_is_repeated_in_the_final_message",
        f"{_SCRAM}test_an_unknown_user_takes_the_steps_of_a_wrong_password",
        f"{_SCRAM}test_a_weak_credential_does_not_log_in",
        "tests/unit/security/test_plain.py::test_refusals_have_one_public_text",
    ),
    48: _row(
        "request after the lifetime of a login",
        "closed; another user or mechanism is refused",
        f"{_SESSION}test_a_login_has_to_be_repeated_in_time",
        f"{_SESSION}test_a_login_ends_with_its_token",
        f"{_SESSION}test_nobody_becomes_somebody_else",
        f"{_SESSION}test_a_login_is_repeated_by_the_same_mechanism",
        "tests/clients/security/test_reauthentication.py::test_client_that_does_not_log_in_again_is_cut_off",
        "tests/clients/security/test_reauthentication.py::test_another_user",
        "tests/clients/security/test_reauthentication.py::test_another_mechanism",
    ),
    49: _row(
        "JWT that is not signed, of another issuer or audience, or expired",
        "58",
        f"{_JWT}test_algorithms_that_are_not_allowed",
        f"{_JWT}test_claims_that_are_refused",
        f"{_JWT}test_a_signature_of_another_key",
        "tests/unit/security/test_oauth.py::test_a_refused_token_is_acknowledged_and_fails",
    ),
    50: _row(
        "delegation token without a login, or with a token",
        "64",
        f"{_LOGIN}test_a_client_without_a_login_gets_no_token",
        f"{_HANDLER}test_delegation_token_handlers.py::test_tokens_need_a_client_that_has_authenticated_without_one",
        "tests/clients/security/test_delegation_token.py::test_token_cannot_make_a_token",
    ),
    51: _row(
        "topic that the client may not see",
        "29 if it is named, left out of all topics, no id",
        f"{_HANDLER}test_authorisation.py::test_topics_that_cannot_be_seen_are_not_listed",
        f"{_HANDLER}test_authorisation.py::test_an_id_of_a_topic_that_cannot_be_seen_does_not_tell_its_name",
        _TABLE,
    ),
    52: _row(
        "Metadata that would create a topic",
        "29, nothing created",
        f"{_HANDLER}test_authorisation.py::test_a_topic_is_not_created_by_who_may_only_look",
        _TABLE,
    ),
    53: _row(
        "bad ACL, sensitive config",
        "42; values are never returned or logged",
        f"{_HANDLER}test_acl_handlers.py::test_an_acl_that_is_not_valid_is_refused_alone",
        f"{_AUDIT}test_values_of_broker_configs_are_not_logged",
        f"{_AUDIT}test_a_secret_that_was_meant_for_a_broker_is_not_logged_for_a_topic",
        "tests/faults/test_no_secret.py::test_no_secret_is_told_logged_or_stored",
    ),
    54: _row(
        "no TLS on a listener with TLS, old versions, bad certificates",
        "closed; handshakes have a deadline",
        f"{_LOGIN}test_what_is_no_tls_is_closed",
        f"{_LOGIN}test_an_old_version_of_tls_is_refused",
        f"{_LOGIN}test_a_bad_certificate_of_a_client_is_refused",
        f"{_LOGIN}test_no_client_can_renegotiate",
        f"{_LOGIN}test_a_client_that_does_not_log_in_is_dropped",
    ),
    55: _row(
        "API between brokers",
        "31, or closed if it is not served",
        _CLOSES,
        f"{_ENVELOPE}test_only_brokers_may_say_who_a_client_is",
        f"{_ENVELOPE}test_a_client_is_no_broker_because_there_is_no_acl",
        f"{_ENVELOPE}test_other_listeners_do_not_have_the_api",
        _TABLE,
    ),
    56: _row(
        "schema registry: size, nesting, references, patterns, subjects, media types, no or wrong credentials",
        "413, 422, 400, 415, 401; a guessing address gets 429",
        "tests/unit/registry/http/test_bad_input.py::test_a_bad_request_has_its_code_and_writes_nothing",
        "tests/unit/registry/http/test_bad_input.py::test_a_body_of_unknown_length_is_cut_off_at_the_limit",
        "tests/unit/registry/http/test_bad_input.py::test_a_slash_in_a_subject_is_part_of_its_name",
        "tests/unit/registry/http/test_right.py::test_a_request_without_credentials_is_refused",
        "tests/unit/web/test_cluster_door.py::test_a_flood_of_wrong_passwords_locks_nobody_out",
    ),
}
