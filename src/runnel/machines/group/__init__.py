"""Consumer groups: who belongs to a group, who reads what, and how far each has come."""
