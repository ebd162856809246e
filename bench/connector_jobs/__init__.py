"""The jobs of `bench.connectors`, by the system that a flow reads or writes."""
