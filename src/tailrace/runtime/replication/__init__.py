"""Leaders and followers: fetchers, ISRs and the partitions of a broker."""
