"""The fixed limits on what one request may cost besides its own bytes, each with its reason. See `limits`."""

# Names that one request repeats and that are answered again, as in Kafka. Clients do not repeat a name, and the
# description of a group can be a thousand times larger than its name. Further repetitions are not answered.
REPEATED_NAMES_MAX = 10
