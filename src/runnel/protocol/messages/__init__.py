"""The declarations of all messages, one module per family of APIs."""
