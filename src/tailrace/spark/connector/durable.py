"""Files of a checkpoint that are on the disk before something else depends on them.

Spark closes the files of a checkpoint without bringing them to the disk. After a power loss it would plan its last
batches again, with more rows. A sink that has written them durably knows them by their numbers, and would leave out the
rows that have come in addition. So the plan of a batch is brought to the disk before the sink has the batch for good.
"""

import os
from contextlib import suppress
from pathlib import Path

_PLANS, _ENDS, _SOURCES, _QUERY = "offsets", "commits", "sources", "metadata"


def write_durably(path: Path, text: str) -> None:
    """Replace a file, so that the new one is on the disk when this returns; after a crash it is one or the other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    with new.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    _sync(path.parent)


def sync_batch(checkpoint: Path, batch_id: int) -> None:
    """Bring Spark's plan of a batch to the disk, with the id of the query before the first batch.

    Spark's file source lists the files of a batch in a log of its own, without which Spark cannot repeat the batch.
    """
    if batch_id == 0:
        _sync(checkpoint / _QUERY)
        _sync(checkpoint / _SOURCES)
        _sync(checkpoint)
    for log in sorted((checkpoint / _SOURCES).glob("*")):
        _sync_newest(log)
    _sync(checkpoint / _PLANS / str(batch_id))
    _sync(checkpoint / _PLANS)


def sync_end(checkpoint: Path) -> None:
    """Bring to the disk that the last batch is finished, before its source forgets it."""
    for folder in (checkpoint / _PLANS, checkpoint / _ENDS):
        _sync_newest(folder)


def _sync_newest(folder: Path) -> None:
    """Bring the file with the highest number in a folder to the disk, and the names in the folder."""
    found = {path.name.removesuffix(".compact"): path for path in folder.iterdir()} if folder.is_dir() else {}
    if numbers := [name for name in found if name.isdigit()]:
        _sync(found[max(numbers, key=int)])
    _sync(folder)


def local_checkpoint(location: str) -> Path | None:
    """Return the folder of a checkpoint location of Spark; None if it is in another file system.

    Hadoop takes the path of a location as it is: `%20`, `?` and `#` are parts of names.
    """
    if location.startswith("file:"):
        path = location.removeprefix("file:")
        return Path(f"/{path[2:].partition('/')[2]}" if path.startswith("//") else path)
    return None if "://" in location else Path(location)


def _sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk; does nothing if there is none."""
    with suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
