"""Tables that are files and a log of commits: what Delta Lake and Iceberg have in common."""
