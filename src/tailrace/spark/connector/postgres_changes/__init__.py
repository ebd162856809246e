"""Changes of PostgreSQL tables as the source of flows, by logical decoding."""
