"""Errors of a process, and who is at fault."""

from typing import List


class Error(Exception):
    """Base class of all errors of this package."""


class InvalidArgument(Error, ValueError):
    """An argument is none of those that are allowed."""


class Unreachable(Error):
    """No agent answers: no socket is configured, it does not exist, or permission is missing."""


class Detached(Error):
    """The agent is gone, or has declared the process dead: all its memberships have ended.

    Attach and join again, with a new client.
    """


class NotAMember(Error):
    """The process is not a member of the group, or no longer."""


class MembersFailed(Error):
    """Members failed before they contributed to an operation; all other participants get the same error.

    failed: ranks of the members, ascending.
    """

    def __init__(self, failed: List[int], message: str) -> None:
        super().__init__(message)
        self.failed = failed

    def __repr__(self) -> str:
        return f"MembersFailed(failed={self.failed})"


class Refused(Error):
    """The agent, or a part behind it, refused the call.

    reason: stable name such as "NAME_INVALID", or "".
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    def __repr__(self) -> str:
        return f"Refused(reason={self.reason!r}, {str(self)!r})"
