"""A member of a group as a process that can be killed: it writes down each record once it has worked on it.

python group_worker.py ADDRESS GROUP TOPIC OUTPUT SETTINGS-AS-JSON
"""

import json
import os
import sys

import tailrace


def main() -> None:
    address, group_id, topic, path, settings = sys.argv[1:]
    output = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    consumer = tailrace.Consumer(address, group_id=group_id, auto_offset_reset="earliest", **json.loads(settings))
    for record in consumer.subscribe(topic):
        os.write(output, f"{record.partition} {record.offset} {(record.value or b'').decode()}\n".encode())


if __name__ == "__main__":
    main()
