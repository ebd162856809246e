"""The search for rows by their keys, by column. Pure."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.spark.error import PipelineError

_ROW = "__row"


def check_key_types(table: object, columns: pa.Schema, key: Sequence[str]) -> None:
    """Raise `PipelineError` if values of a key column cannot be compared exactly."""
    for name in key:
        kind = columns.field(name).type
        if pa.types.is_nested(kind) or pa.types.is_floating(kind):
            raise PipelineError(f"{table}: column {name} of the key is {kind}, and cannot tell rows apart")


def find_rows(rows: pa.Table, keys: pa.Table) -> np.ndarray:
    """Return for each row whether its key is one of `keys`. Both have the columns of the key and no others."""
    if rows.num_columns == 1:
        found = pc.is_in(rows.column(0), value_set=keys.column(0).combine_chunks())
        return np.asarray(found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found)
    names = rows.schema.names
    numbered = rows.append_column(_ROW, pa.array(np.arange(rows.num_rows)))
    places = numbered.join(keys, keys=names, join_type="left semi").column(_ROW)
    mask = np.zeros(rows.num_rows, dtype=bool)
    mask[places.to_numpy()] = True
    return mask
