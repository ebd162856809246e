"""Membership of a consumer in its group, in both protocols, and the offsets that it commits."""
