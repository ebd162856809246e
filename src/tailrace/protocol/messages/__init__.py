"""Declarations of all messages, one module for each family of APIs; `protocol/registry.py` finds them."""
