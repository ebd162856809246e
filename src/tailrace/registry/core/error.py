"""Errors that the registry answers with, under the codes that Confluent's clients know."""

from enum import IntEnum


class Code(IntEnum):
    """Error codes. The first three digits are the HTTP status."""

    DENIED = 40301
    SUBJECT_NOT_FOUND = 40401
    VERSION_NOT_FOUND = 40402
    SCHEMA_NOT_FOUND = 40403
    SUBJECT_SOFT_DELETED = 40404
    SUBJECT_NOT_SOFT_DELETED = 40405
    VERSION_SOFT_DELETED = 40406
    VERSION_NOT_SOFT_DELETED = 40407
    SUBJECT_CONFIG_NOT_SET = 40408
    SUBJECT_MODE_NOT_SET = 40409
    ASSOCIATION_NOT_FOUND = 40410
    INCOMPATIBLE_SCHEMA = 40901
    ASSOCIATION_EXISTS = 40903
    SUBJECT_ASSOCIATED = 40904
    STRONG_ASSOCIATION_EXISTS = 40905
    NO_ACTIVE_VERSION = 40907
    ASSOCIATION_FROZEN = 40908
    INVALID_SCHEMA = 42201
    INVALID_VERSION = 42202
    INVALID_COMPATIBILITY = 42203
    INVALID_MODE = 42204
    NOT_PERMITTED = 42205
    REFERENCE_EXISTS = 42206
    ID_DOES_NOT_MATCH = 42207
    INVALID_SUBJECT = 42208
    SCHEMA_TOO_LARGE = 42209
    INVALID_RULE_SET = 42210
    CONTEXT_NOT_EMPTY = 42211
    INVALID_ASSOCIATION = 42212
    STORE_FAILED = 50001
    TIMED_OUT = 50002
    FORWARDING_FAILED = 50003
    UNKNOWN_LEADER = 50004

    @property
    def status(self) -> int:
        """The HTTP status of answers with this code."""
        return self // 100


class RegistryError(Exception):
    """A request that the registry does not carry out. Nothing has been written."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def subject_not_found(subject: str) -> RegistryError:
    """Return the error for a subject that does not exist."""
    return RegistryError(Code.SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> RegistryError:
    """Return the error for a version that the subject does not have."""
    return RegistryError(Code.VERSION_NOT_FOUND, f"Version {version} not found.")


def schema_not_found(what: object = None) -> RegistryError:
    """Return the error for a schema, or the id or GUID of one, that is not registered."""
    return RegistryError(Code.SCHEMA_NOT_FOUND, "Schema not found" if what is None else f"Schema {what} not found")


def subject_is_associated(subject: str) -> RegistryError:
    """Return the error for a subject that an association keeps."""
    return RegistryError(Code.SUBJECT_ASSOCIATED, f"An association already exists for subject '{subject}'")


def read_only(subject: str | None, context: str) -> RegistryError:
    """Return the error for a change in a scope that may only be read."""
    return RegistryError(Code.NOT_PERMITTED, f"Subject {subject} in context {context} is in read-only mode")
