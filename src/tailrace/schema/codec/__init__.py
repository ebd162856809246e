"""Codecs for the keys or values of a topic whose schemas are in a registry."""
