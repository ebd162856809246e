"""The metadata store in ZooKeeper."""
