"""Offsets that groups commit, in transactions and outside of them."""
