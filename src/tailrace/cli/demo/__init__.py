"""The demo, `tailrace demo`: live website activity through a broker, with a pipeline on Spark or without."""
