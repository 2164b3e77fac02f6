"""A query that is not answered, and why."""

from typing import Self

from ldp_flower.guarantee.messages import MessageError


class Refusal(Exception):
    """A query that is not answered; code and text depend on public facts only.

    ``detail`` is for the operator's log and stays there.
    """

    MALFORMED = 100
    FORBIDDEN = 101
    EXHAUSTED = 102
    MISCONFIGURED = 103
    FAILED = 104

    def __init__(self, code: int, text: str, detail: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.detail = detail

    @classmethod
    def malformed(cls, error: MessageError) -> Self:
        """Return the refusal of a message that is not what the format allows."""
        return cls(cls.MALFORMED, str(error))

    @classmethod
    def of_policy(cls, detail: str) -> Self:
        """Return the refusal of everything, since the operator's policy is not valid."""
        return cls(cls.MISCONFIGURED, "The operator's policy is not valid.", detail)
