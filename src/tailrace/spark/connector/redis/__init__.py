"""Redis streams as sources and sinks of flows, and Redis hashes as sinks."""
