"""The Admin API: topics, configs, groups, reassignments, transactions, users and ACLs."""
