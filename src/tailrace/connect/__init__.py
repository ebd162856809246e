"""The Connect service: Kafka Connect's REST API over pipelines."""
