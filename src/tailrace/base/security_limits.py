"""The fixed limits of authentication and access control, each with its reason. `limits` has the others."""

# Messages of SASL/SCRAM and SASL/PLAIN hold names, nonces and passwords, tens of bytes each. Brokers read them from
# clients that have not logged in.
SCRAM_MESSAGE_BYTES_MAX = 8 * 1024
PLAIN_MESSAGE_BYTES_MAX = 8 * 1024

# A challenge of DIGEST-MD5, which a ZooKeeper server sends to a broker; RFC 2831 has the same limit.
DIGEST_MESSAGE_BYTES_MAX = 2047

# Iterations that a client does for a broker. Kafka stores at most 16,384, others more; a million takes half a second,
# and a false broker must not occupy a client for longer.
SCRAM_CLIENT_ITERATIONS_MAX = 1_000_000

# A bearer token with its SASL extensions. Kafka's `sasl.server.max.receive.size` has the same default.
OAUTH_MESSAGE_BYTES_MAX = 512 * 1024

# The parts of a JWT that are read before its signature, and the keys of a JWKS document, which are tried in turn for a
# token without a key id. Kafka does not look up longer key ids either.
JWT_HEADER_BYTES_MAX = 8 * 1024
JWT_KEY_ID_LENGTH_MAX = 1000
JWT_KEYS_MAX = 100

# ACLs that one request may create or delete, for the same reason as in Kafka: they are committed together.
ACLS_PER_REQUEST_MAX = 10_000

# The name and the salt of a SCRAM credential are stored in a node of the metadata. Kafka's salts have 26 bytes.
USER_NAME_LENGTH_MAX = 1024
SCRAM_SALT_BYTES_MAX = 1024

# Delegation tokens of one owner, and renewers of one token. Every user can create tokens, and all of them are metadata
# that each broker has in memory. An application needs one token for each of its runs.
TOKENS_PER_OWNER_MAX = 10_000
TOKEN_RENEWERS_MAX = 100

# The document with the keys of an issuer: its size, the wait for it, and the pause between two readings because of
# tokens with unknown keys.
JWKS_DOCUMENT_BYTES_MAX = 1024 * 1024
JWKS_FETCH_TIMEOUT_S = 10.0
JWKS_REFRESH_PAUSE_MS = 10_000

# Credentials that were derived from delegation tokens and are kept for the next login.
TOKEN_CREDENTIALS_KEPT_MAX = 1000

# How often a broker looks whether the files with its keys, certificates and users have changed.
SECURITY_FILE_CHECK_INTERVAL_S = 1.0

# Equal denials are counted for this long before they are logged again. In that time so many different denials and so
# many failed changes of a principal are logged, and so many principals are counted one by one: a client that guesses
# names must neither fill the disk nor hide what others try.
AUDIT_INTERVAL_S = 60.0
AUDIT_DENIALS_PER_PRINCIPAL_MAX = 100
AUDIT_FAILURES_PER_PRINCIPAL_MAX = 20
AUDIT_PRINCIPALS_MAX = 100

# Texts and lists in the audit log are cut to what a line can hold; the line says how much is missing.
AUDIT_TEXT_LENGTH_MAX = 256
AUDIT_LIST_COUNT_MAX = 20
