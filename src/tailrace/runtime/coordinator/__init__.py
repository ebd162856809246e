"""What the group and the transaction coordinator share: shards, their logs and their timers."""
