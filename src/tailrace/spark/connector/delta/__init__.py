"""Tables of Delta Lake, as sources and sinks of flows."""
