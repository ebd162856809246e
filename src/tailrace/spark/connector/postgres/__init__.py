"""PostgreSQL as a source and a sink of flows: tables that are read, and tables that are written."""
