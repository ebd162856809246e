"""The server-side assignors of the consumer protocol."""
