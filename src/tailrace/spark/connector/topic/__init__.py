"""Topics as sources and sinks of flows, with values that are decoded by a schema and rows that are encoded."""
