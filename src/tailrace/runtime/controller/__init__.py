"""The controller of the cluster, as run by the broker that was elected."""
