"""The REST API of the registry, as Confluent's clients speak it."""
