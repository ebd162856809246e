"""What the registry decides: pure functions over a state that is replayed from the records of `_schemas`."""
