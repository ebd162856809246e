"""Connector plugins: their settings, and pipelines made of configurations of Kafka Connect."""
