"""The producer: from send to the acknowledgement."""
