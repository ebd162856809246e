"""The fixed limits of schemas and of the registry, each with its reason. See `limits`."""

MIB = 1024 * 1024

# Types inside types of a schema. Deeper ones would exhaust the stack of programs that read them, and this one's.
SCHEMA_NESTING_DEPTH_MAX = 200

# Regular expressions of JSON Schemas, in instructions of RE2, which take 10 to 15 bytes each: all that are kept
# compiled, those of one schema with its imports, and what each counts besides its program. RE2 compiles none of more
# than 350,000; `^\p{L}{1,255}$` has 305,000 and takes a tenth of a second, `^[a-z]{1,255}$` has 500.
REGEX_PROGRAMS_SIZE_MAX = 16_000_000
REGEX_PROGRAMS_PER_SCHEMA_SIZE_MAX = 8_000_000
REGEX_PROGRAM_SIZE_MIN = 2_000

# The length of a regular expression, and how many different ones a schema has with its imports. Those that RE2 cannot
# compile are compiled by Python, in a few milliseconds for each thousand characters.
REGEX_CHARACTERS_MAX = 10_000
REGEXES_PER_SCHEMA_MAX = 1_000

# A Protobuf schema, as it is sent and with its lines indented. A larger one does not fit into a record of the topic for
# schemas, and would keep the registry busy for long: with 90 levels, indentation makes a text a hundred times as long.
PROTOBUF_CHARACTERS_MAX = 2 * MIB

# The name of a Protobuf package, and of a type with its package. Each reference to a type is looked for in each part of
# the name around it. Names have some tens of characters, and those of generated files up to two hundred.
PROTOBUF_NAME_CHARACTERS_MAX = 1_000

# Schemas that a client of a registry remembers, by id, by version and by text. Programs use tens of them, of a few
# kilobytes each.
REGISTRY_CACHE_COUNT = 1_000

# Connections to a registry that a client keeps open while no thread uses them.
REGISTRY_CONNECTIONS_IDLE_MAX = 4

# An answer of a registry. Schemas have at most a few megabytes; lists of all subjects can be longer.
REGISTRY_REPLY_BYTES_MAX = 64 * MIB

# Schemas that one schema refers to, directly or not, before a client suspects the registry of going in circles.
SCHEMA_REFERENCES_MAX = 1_000

# Parsed schemas that a registry keeps, and the length of their texts together with the texts that they import. A parsed
# schema takes 15 to 25 times the memory of its text, so these take at most 100 MiB. With more of them, the interpreter
# pauses for longer to collect garbage.
REGISTRY_PARSED_COUNT_MAX = 1_000
REGISTRY_PARSED_BYTES_MAX = 4 * MIB

# Requests that a registry decides and writes together, and the time after which it writes what it has decided. The
# first of them waits for the last.
REGISTRY_GROUP_COUNT_MAX = 100
REGISTRY_DECIDING_S_MAX = 0.2

# Resources of one batch of requests about associations, each of which is looked for among all associations, and the
# schemas in the answer: the same schema of a megabyte can be asked for a thousand times. Half of what clients accept.
REGISTRY_BATCH_COUNT_MAX = 1_000
REGISTRY_BATCH_BYTES_MAX = 32 * MIB

# Threads of a registry in which schemas are parsed and compared for reads. The event loop waits for the interpreter
# behind each of them, 5 ms at most, so there are few.
REGISTRY_READ_THREADS_MAX = 4

# Records of schemas that a registry reads before other tasks get the event loop. A megabyte takes about 10 ms.
REGISTRY_REPLAY_TURN_BYTES_MAX = 1 * MIB
