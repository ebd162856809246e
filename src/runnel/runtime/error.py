"""Why a broker did not get into its cluster."""


class DuplicateBroker(Exception):  # noqa: N818  says what is wrong
    """Another broker of the same id is there."""


class NotAdmitted(Exception):  # noqa: N818  says what happened
    """The controller did not let the broker in."""
