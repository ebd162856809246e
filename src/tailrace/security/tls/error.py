"""The error of TLS material that cannot be used."""


class TlsConfigError(Exception):
    """Keys, certificates or options of TLS that cannot be used.

    `option` is Kafka's name of the option to change. The text names the file and what is wrong, and holds no secret;
    it does not name the option, which the caller may know by another name.
    """

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(problem)
        self.option = option
        self.problem = problem

    def __str__(self) -> str:
        return self.problem
