"""What the Connect service knows: the records of its topics, and their replay. No HTTP, no brokers, no processes."""
