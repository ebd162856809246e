"""Tables of Iceberg, as sources and sinks of flows."""
