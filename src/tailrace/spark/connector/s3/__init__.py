"""Objects of a store such as S3, as sources and sinks of flows."""
