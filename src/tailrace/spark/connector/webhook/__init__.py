"""Webhooks: HTTP requests as sinks of flows, and requests that come in as sources."""
