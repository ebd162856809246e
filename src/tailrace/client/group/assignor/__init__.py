"""The assignors of classic groups, which run in the group's leader."""
