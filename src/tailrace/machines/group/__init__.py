"""Groups: their members, the assignment of partitions to members, and committed offsets."""
