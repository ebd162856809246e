"""The phases of the batches of Produce requests, from the parsed header to the acknowledgement."""
