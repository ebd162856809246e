"""Transactional clients and their checks in the simulator."""
