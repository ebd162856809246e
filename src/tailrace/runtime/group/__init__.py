"""The group coordinator of a broker."""
