"""The schema ids that a broker knows, and the schema registry that it asks about others."""
