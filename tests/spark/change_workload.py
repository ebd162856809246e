"""Tables of PostgreSQL and changes of them, which two connectors read side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg import Connection

# The columns of each table, by names that say what is special about them. No row is so large that PostgreSQL stores
# parts of it out of line.
VALUES: dict[str, dict[str, tuple[str, str]]] = {
    "numbers": {
        "small": ("smallint", "32767"),
        "whole": ("integer", "-2147483648"),
        "big": ("bigint", "9223372036854775807"),
        "counted": ("serial", "DEFAULT"),
        "object_id": ("oid", "4294967295"),
        "digits": ("numeric", "12345678901234567890.0010"),
        "scaled": ("numeric(5,2)", "1.5"),
        "tiny_digits": ("numeric", "0.00000000001"),
        "huge_digits": ("numeric", "1e30"),
        "negative_scale": ("numeric(5,-2)", "12300"),
        "digits_nan": ("numeric", "'NaN'"),
        "scaled_nan": ("numeric(5,2)", "'NaN'"),
        "single": ("real", "1.1"),
        "single_whole": ("real", "16777216"),
        "single_nan": ("real", "'NaN'"),
        "double": ("double precision", "0.30000000000000004"),
        "double_whole": ("double precision", "5"),
        "double_large": ("double precision", "1e300"),
        "double_small": ("double precision", "1e-7"),
        "double_infinite": ("double precision", "'-Infinity'"),
        "minus_zero": ("double precision", "'-0'"),
        "flag": ("boolean", "true"),
        "amount": ("money", "'-1234567.89'"),
    },
    "times": {
        "day": ("date", "'2018-06-20'"),
        "day_before_christ": ("date", "'0044-03-15 BC'"),
        "day_of_switch": ("date", "'1582-10-10'"),
        "day_far": ("date", "'20000-02-29'"),
        "day_infinite": ("date", "'infinity'"),
        "clock": ("time", "'12:34:56.789012'"),
        "clock_s": ("time(0)", "'12:34:56'"),
        "clock_ms": ("time(3)", "'12:34:56.789'"),
        "clock_4": ("time(4)", "'12:34:56.7891'"),
        "clock_end": ("time", "'24:00:00'"),
        "zoned_clock": ("timetz", "'15:51:30.12+02'"),
        "zoned_clock_s": ("timetz(0)", "'00:00:00-05:30'"),
        "zoned_clock_end": ("timetz", "'24:00:00+00'"),
        "zoned_clock_end_east": ("timetz", "'24:00:00+02'"),
        "moment": ("timestamp", "'2018-06-20 15:13:16.945104'"),
        "moment_s": ("timestamp(0)", "'2018-06-20 15:13:16'"),
        "moment_ms": ("timestamp(3)", "'2018-06-20 15:13:16.945'"),
        "moment_5": ("timestamp(5)", "'1969-12-31 23:59:59.99999'"),
        "moment_before_christ": ("timestamp", "'0044-03-15 12:00:00 BC'"),
        "moment_far": ("timestamp", "'20000-02-29 12:00:00'"),
        "moment_farthest": ("timestamp", "'294276-12-31 23:59:59.999999'"),
        "moment_infinite": ("timestamp", "'infinity'"),
        "moment_ms_infinite": ("timestamp(3)", "'-infinity'"),
        "zoned": ("timestamptz", "'2018-06-20 15:13:16.9451+02'"),
        "zoned_s": ("timestamptz(0)", "'2018-06-20 15:13:16+02'"),
        "zoned_ms": ("timestamptz(3)", "'2018-06-20 15:13:16.9+02'"),
        "zoned_before_christ": ("timestamptz", "'0044-03-15 12:00:00+00 BC'"),
        "zoned_far": ("timestamptz", "'20000-02-29 12:00:00+00'"),
        "zoned_infinite": ("timestamptz", "'-infinity'"),
        "span": ("interval", "'1 year 2 mons 3 days 04:05:06.78'"),
        "span_negative": ("interval", "'-1 year -2 mons +3 days -04:05:06'"),
        "span_zero": ("interval", "'0'"),
        "span_days": ("interval", "'100 days 36:00:00'"),
        "span_fraction": ("interval", "'-00:00:00.5'"),
    },
    "texts": {
        "words": ("text", """'a "quote" \\ é 😀'"""),
        "short": ("varchar(10)", "'ab'"),
        "padded": ("char(5)", "'ab'"),
        "letter": ('"char"', "'q'"),
        "named": ("name", "'somename'"),
        "bytes": ("bytea", "'\\x00ff10'"),
        "no_bytes": ("bytea", "''"),
        "uid": ("uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"),
        "document": ("json", """'{"b": 1,  "a": [1, 2.50]}'"""),
        "binary_document": ("jsonb", """'{"b": 1,  "a": [1, 2.50]}'"""),
        "null_document": ("jsonb", "'null'"),
        "state": ("mood", "'ok'"),
        "address": ("inet", "'192.168.0.1/24'"),
        "address_6": ("inet", "'::1'"),
        "network": ("cidr", "'10.1.0.0/16'"),
        "device": ("macaddr", "'08:00:2b:01:02:03'"),
        "device_8": ("macaddr8", "'08:00:2b:01:02:03:04:05'"),
        "one_bit": ("bit(1)", "B'1'"),
        "bits": ("bit(11)", "B'10000000011'"),
        "bits_with_zeros": ("bit(12)", "B'000000000001'"),
        "some_bits": ("varbit(20)", "B'101'"),
        "spot": ("point", "'(1.5,-2)'"),
        "spot_nowhere": ("point", "'(NaN,Infinity)'"),
        "between": ("int4range", "'[1,5)'"),
        "between_times": ("tstzrange", "'[2018-06-20 15:13:16+00,2019-01-01 00:00:00+00)'"),
        "lexemes": ("tsvector", "'a fat cat'"),
        "lexeme_query": ("tsquery", "'fat & cat'"),
        "log_position": ("pg_lsn", "'16/B374D848'"),
        "area": ("box", "'(1,1),(0,0)'"),
        "round_area": ("circle", "'<(0,0),1>'"),
        "twosome": ("pair", "'(1,x)'"),
        "count": ("positive", "5"),
        "count_again": ("more_positive", "7"),
        "price": ("price", "1.50"),
        "seen": ("seen_at", "'2018-06-20 15:13:16.945'"),
        "counts": ("positives", "'{1,2}'"),
    },
    "lists": {
        "smalls": ("smallint[]", "'{1,NULL,3}'"),
        "wholes": ("integer[]", "'[2:3]={1,2}'"),
        "bigs": ("bigint[]", "'{}'"),
        "rows": ("integer[]", "'{{1,2},{3,4}}'"),
        "all_digits": ("numeric[]", "'{1.50,2}'"),
        "singles": ("real[]", "'{1.1,2}'"),
        "doubles": ("double precision[]", "'{5,NaN}'"),
        "flags": ("boolean[]", "'{t,f}'"),
        "all_words": ("text[]", """'{a,"b \\"c\\"","NULL",NULL,""}'"""),
        "shorts": ("varchar(5)[]", "'{ab,c}'"),
        "padded_ones": ("char(3)[]", "'{ab,c}'"),
        "all_bytes": ("bytea[]", """'{"\\\\x00ff"}'"""),
        "days": ("date[]", "'{2018-06-20,NULL}'"),
        "clocks": ("time[]", "'{12:34:56.789012}'"),
        "zoned_clocks": ("timetz[]", "'{15:51:30.123+02}'"),
        "moments": ("timestamp[]", """'{"2018-06-20 15:13:16.945104"}'"""),
        "moments_ms": ("timestamp(3)[]", """'{"2018-06-20 15:13:16.945"}'"""),
        "all_zoned": ("timestamptz[]", """'{"2018-06-20 15:13:16+02",infinity}'"""),
        "uids": ("uuid[]", "'{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'"),
        "documents": ("jsonb[]", """ARRAY['{"a": 1}'::jsonb]"""),
        "states": ("mood[]", "'{ok,sad}'"),
        "addresses": ("inet[]", "'{192.168.0.1}'"),
        "devices": ("macaddr[]", "'{08:00:2b:01:02:03}'"),
        "object_ids": ("oid[]", "'{1}'"),
        "all_between": ("int4range[]", """'{"[1,5)"}'"""),
        "all_bits": ("bit(5)[]", "'{10101}'"),
        "spans": ("interval[]", "'{1 day}'"),
    },
}
EXTENSIONS = {
    "vector": {
        "direction": ("vector(3)", "'[1,2.5,3]'"),
        "half_direction": ("halfvec(3)", "'[1,2.5,3]'"),
        "sparse_direction": ("sparsevec(5)", "'{1:1,3:2.5}/5'"),
    },
    "hstore": {"pairs": ("hstore", """'a=>1, "b c"=>NULL'""")},
}

_TYPES = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok')",
    "CREATE TYPE pair AS (a int, b text)",
    "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
    "CREATE DOMAIN more_positive AS positive",
    "CREATE DOMAIN price AS numeric(10,2)",
    "CREATE DOMAIN seen_at AS timestamp(3)",
    "CREATE DOMAIN positives AS int[]",
)
_TABLES = (
    "CREATE TABLE plain (id int PRIMARY KEY, name text, n int)",
    "CREATE TABLE whole_row (id int PRIMARY KEY, name text, n int)",
    "ALTER TABLE whole_row REPLICA IDENTITY FULL",
    "CREATE TABLE wide (id int PRIMARY KEY, n int, words text, bytes bytea, wholes int[], days date[], uids uuid[], "
    "all_bytes bytea[], all_words text[], flags boolean[], document jsonb, digits numeric)",
    "CREATE TABLE wide_whole_row (id int PRIMARY KEY, n int, words text)",
    "ALTER TABLE wide_whole_row REPLICA IDENTITY FULL",
    "CREATE TABLE two_keys (b text, v int, a int, PRIMARY KEY (a, b))",
    "CREATE TABLE no_key (a int, b text)",
    "ALTER TABLE no_key REPLICA IDENTITY FULL",
    "CREATE TABLE unique_only (email text NOT NULL UNIQUE, n int)",
    "ALTER TABLE unique_only REPLICA IDENTITY FULL",
    "CREATE TABLE by_index (id int PRIMARY KEY, email text NOT NULL, n int)",
    "CREATE UNIQUE INDEX by_email ON by_index (email)",
    "ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_email",
    "CREATE TABLE strict (id int PRIMARY KEY, s text NOT NULL, i int NOT NULL, d numeric(5,2) NOT NULL DEFAULT 1.5)",
    "CREATE TABLE computed (id int PRIMARY KEY, a int, b int GENERATED ALWAYS AS (a * 2) STORED)",
    "CREATE TABLE parted (id int PRIMARY KEY, name text) PARTITION BY RANGE (id)",
    "CREATE TABLE parted_low PARTITION OF parted FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE parted_high PARTITION OF parted FOR VALUES FROM (10) TO (20)",
    "CREATE TABLE marker (id int PRIMARY KEY)",
    *(
        f"ALTER TABLE {table} ALTER {column} SET STORAGE EXTERNAL"
        for table, columns in {
            "wide": "words bytes wholes days uids all_bytes all_words flags document digits",
            "wide_whole_row": "words",
        }.items()
        for column in columns.split()
    ),
)
_FIRST_ROWS = (
    "INSERT INTO plain VALUES (1, 'one', 1), (2, 'two', 2), (3, NULL, NULL)",
    "INSERT INTO whole_row VALUES (1, 'one', 1), (2, 'two', 2)",
    "INSERT INTO two_keys VALUES ('x', 1, 1)",
    "INSERT INTO no_key VALUES (1, 'one')",
    "INSERT INTO unique_only VALUES ('a', 1)",
    "INSERT INTO by_index VALUES (1, 'a', 1), (2, 'b', 2)",
    "INSERT INTO computed VALUES (1, 2)",
    "INSERT INTO parted VALUES (1, 'low')",
)
_LONG = "repeat(md5('x'), 400)"
_WIDE = ", ".join(
    (
        _LONG,
        f"decode({_LONG}, 'hex')",
        *(
            f"array_fill({value}, ARRAY[3000])"
            for value in (
                "7",
                "date '2018-06-20'",
                "uuid 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
                "bytea 'ab'",
                "text 'ab'",
                "true",
            )
        ),
        f"jsonb_build_object('a', {_LONG})",
        "repeat('123456789', 1500)::numeric",
    )
)
_CHANGES: tuple[tuple[str, ...], ...] = (
    (
        "UPDATE plain SET name = 'uno' WHERE id = 1",
        "UPDATE plain SET n = n WHERE id = 1",
        "UPDATE plain SET id = 20 WHERE id = 2",
        "INSERT INTO whole_row VALUES (3, 'three', NULL)",
        "DELETE FROM plain WHERE id = 3",
        "INSERT INTO plain VALUES (4, NULL, 4)",
    ),
    *(
        (statement,)
        for statement in (
            "UPDATE whole_row SET name = 'uno' WHERE id = 1",
            "UPDATE whole_row SET id = 20 WHERE id = 2",
            "DELETE FROM whole_row WHERE id = 3",
            f"INSERT INTO wide SELECT 1, 1, {_WIDE}",
            "UPDATE wide SET n = 2",
            "UPDATE wide SET id = 2",
            "UPDATE wide SET words = 'few'",
            "DELETE FROM wide",
            f"INSERT INTO wide_whole_row SELECT 1, 1, {_LONG}",
            "UPDATE wide_whole_row SET n = 2",
            "UPDATE wide_whole_row SET id = 2",
            "DELETE FROM wide_whole_row",
            "UPDATE two_keys SET v = 2",
            "UPDATE two_keys SET b = 'y'",
            "DELETE FROM two_keys",
            "INSERT INTO no_key VALUES (2, 'two')",
            "UPDATE no_key SET b = 'uno' WHERE a = 1",
            "DELETE FROM no_key WHERE a = 2",
            "UPDATE unique_only SET n = 2",
            "UPDATE by_index SET n = 5 WHERE id = 1",
            "UPDATE by_index SET email = 'c' WHERE id = 2",
            "DELETE FROM by_index WHERE id = 2",
            "INSERT INTO strict VALUES (1, 's', 1, 2.5)",
            "UPDATE strict SET i = 2",
            "DELETE FROM strict",
            "UPDATE computed SET a = 5",
            "UPDATE parted SET name = 'lower' WHERE id = 1",
            "INSERT INTO parted VALUES (11, 'high')",
            "ALTER TABLE plain ADD COLUMN extra numeric(5,2) DEFAULT 1.5",
            "UPDATE plain SET name = 'eins' WHERE id = 1",
            "ALTER TABLE plain DROP COLUMN n",
            "UPDATE plain SET extra = 3 WHERE id = 1",
            "ALTER TABLE plain ALTER COLUMN extra TYPE text",
            "UPDATE plain SET extra = 'x' WHERE id = 1",
            "ALTER TABLE plain RENAME COLUMN name TO title",
            "INSERT INTO plain VALUES (5, 'five', NULL)",
            "ALTER TABLE plain REPLICA IDENTITY FULL",
            "UPDATE plain SET title = 'cinq' WHERE id = 5",
            "TRUNCATE plain",
            "TRUNCATE whole_row, no_key",
        )
    ),
)
MARKER_ID = 999


class Workload:
    """The tables, with those of extensions that the server has."""

    def __init__(self, database: Connection[Any]) -> None:
        """Name an empty database, by a connection that commits each statement."""
        self._database = database
        found = database.execute("SELECT name FROM pg_available_extensions WHERE name = ANY(%s)", [list(EXTENSIONS)])
        self._extensions = sorted(name for (name,) in found)
        self._values = VALUES | {name: EXTENSIONS[name] for name in self._extensions}

    @property
    def tables(self) -> list[str]:
        """The names of all tables that are read, with their schema."""
        own = [line.split()[2] for line in _TABLES if line.startswith("CREATE TABLE") and " PARTITION OF " not in line]
        return [f"public.{name}" for name in (*self._values_tables(), *own)]

    def create(self) -> None:
        """Create the tables with the rows of the snapshot."""
        self._run(*(f"CREATE EXTENSION {name}" for name in self._extensions), *_TYPES)
        for table, columns in self._values_columns():
            listed = ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items())
            self._run(f"CREATE TABLE {table} (id int PRIMARY KEY, {listed})")
        self._run(*_TABLES, *_FIRST_ROWS)
        self._insert_values(1)

    def change(self) -> None:
        """Change the tables, the marker last."""
        self._insert_values(3)
        for table, columns in self._values_columns():
            first = next(iter(columns))
            self._run(
                f"UPDATE {table} SET {first} = NULL WHERE id = 3",
                f"UPDATE {table} SET id = 5 WHERE id = 3",
                f"DELETE FROM {table} WHERE id = 5",
            )
        for statements in _CHANGES:
            with self._database.transaction():
                self._run(*statements)
        self._replicate_from_elsewhere()
        self._run(f"INSERT INTO marker VALUES ({MARKER_ID})")

    def _values_tables(self) -> list[str]:
        return [f"{name}_values" for name in self._values]

    def _values_columns(self) -> list[tuple[str, dict[str, tuple[str, str]]]]:
        return list(zip(self._values_tables(), self._values.values(), strict=True))

    def _insert_values(self, row_id: int) -> None:
        """Insert a row with all values and, with the next id, one with nulls."""
        for table, columns in self._values_columns():
            full = ", ".join(value for _, value in columns.values())
            nulls = ", ".join("0" if kind == "serial" else "NULL" for kind, _ in columns.values())
            self._run(f"INSERT INTO {table} VALUES ({row_id}, {full}), ({row_id + 1}, {nulls})")

    def _replicate_from_elsewhere(self) -> None:
        """Insert a row as a server would that replicates from another one."""
        import psycopg

        with psycopg.connect(self._database.info.dsn, password=self._database.info.password, autocommit=True) as other:
            other.execute("SELECT pg_replication_origin_create('elsewhere')")
            other.execute("SELECT pg_replication_origin_session_setup('elsewhere')")
            with other.transaction():
                other.execute("SELECT pg_replication_origin_xact_setup('0/1234', now())")
                other.execute("INSERT INTO computed VALUES (2, 3)")

    def _run(self, *statements: str) -> None:
        for statement in statements:
            self._database.execute(statement.encode())
