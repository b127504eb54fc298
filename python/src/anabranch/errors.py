"""What callers of this package get when something is wrong."""

from __future__ import annotations


class AnabranchError(Exception):
    """Something is wrong, and the text says what to do.

    Attributes:
        message: What is wrong, with which value.
        remedy: What to do about it; empty if nothing is known.
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message, remedy)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n  help: {self.remedy}" if self.remedy else self.message


class RequestError(AnabranchError):
    """The request itself is wrong: an option, the SQL of a job, a name. Trying again does not help."""


class OutsideError(AnabranchError):
    """Something outside this package failed: Ray, a process, a store. Trying again may help."""
