"""The fixed limits of logins and rights of the callers of an HTTP service, each with its reason."""

# Callers of an HTTP service who log in as users of the cluster. A login holds for so long before the brokers check it
# again, and what they say about a user's rights for so long, so that a removed user or ACL counts within seconds. Each
# caller that is kept has connections to brokers, and each of its rights an entry in memory.
HTTP_LOGIN_AGE_S = 5.0
HTTP_RIGHTS_AGE_S = 1.0
HTTP_CALLERS_MAX = 256
HTTP_RIGHTS_KEPT_MAX = 10_000

# Topics and groups whose rights are asked for in one request to a broker: its answer has a few hundred bytes for each.
HTTP_RIGHTS_PER_REQUEST_MAX = 1_000

# Logins that an HTTP service tries at a time for callers whose credentials it does not know, and as many for the
# others; attempts that wait, of all addresses and of one; and the time that a failed attempt takes. So a program that
# guesses passwords gets some 16 answers a second, and does not delay callers who have logged in before.
HTTP_LOGINS_MAX = 8
HTTP_LOGINS_WAITING_MAX = 64
HTTP_LOGINS_PER_ADDRESS_MAX = 16
HTTP_FAILED_LOGIN_S = 0.5

# Credentials that were right, as salted hashes, and how long an HTTP service remembers them for the rule above.
HTTP_KNOWN_CREDENTIALS_MAX = 10_000
HTTP_KNOWN_CREDENTIAL_AGE_S = 600.0
