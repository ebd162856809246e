"""The records of `__consumer_offsets`, byte for byte as Kafka writes them."""
