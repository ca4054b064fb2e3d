"""Errors of a process, and who is at fault."""

import grpc
from google.protobuf import descriptor_pb2
from google.protobuf.any_pb2 import Any
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass


class Error(Exception):
    """Base class of all errors of this package."""


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

    def __init__(self, failed, message):
        super().__init__(message)
        self.failed = failed


class Refused(Error):
    """The agent, or a part behind it, refused the call.

    code: the grpc.StatusCode; reason: stable name such as "NAME_INVALID", or "".
    """

    def __init__(self, code, reason, message):
        super().__init__(f"{message} ({reason or code.name})")
        self.code = code
        self.reason = reason


def of_call(error, group=None):
    """Converts a grpc.RpcError of an attached process."""
    reason, facts = _reason(error)
    code, message = error.code(), error.details() or ""
    # Over a local socket, a status that the agent did not make means that it is gone.
    gone = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN, grpc.StatusCode.CANCELLED)
    if reason in ("UNKNOWN_SESSION", "SHUTTING_DOWN") or (not reason and code in gone):
        return Detached(f"the process is not attached any more: {message}")
    if reason == "NOT_A_MEMBER" and group is not None:
        return NotAMember(f"not a member of group '{group}'")
    if reason == "MEMBERS_FAILED":
        failed = [int(rank) for rank in facts.get("failed", "").split(",") if rank]
        return MembersFailed(failed, message)
    return Refused(code, reason, message)


def _reason(error):
    """Extracts the reason and its facts from the details of a status; "" if there is none."""
    packed = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin")
    if packed is None:
        return "", {}
    for detail in _STATUS.FromString(packed).details:
        if detail.type_url.endswith("/google.rpc.ErrorInfo"):
            info = _ERROR_INFO.FromString(detail.value)
            return (info.reason, dict(info.metadata)) if info.domain == "fabricast" else ("", {})
    return "", {}


def _well_known():
    """Declares the two messages of google.rpc that carry a reason, with the fields used here."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="status.proto",
        package="google.rpc",
        syntax="proto3",
        dependency=["google/protobuf/any.proto"],
    )
    status = file.message_type.add(name="Status")
    status.field.add(
        name="details",
        number=3,
        type=field.TYPE_MESSAGE,
        label=field.LABEL_REPEATED,
        type_name=".google.protobuf.Any",
    )
    info = file.message_type.add(name="ErrorInfo")
    for number, name in ((1, "reason"), (2, "domain")):
        info.field.add(
            name=name, number=number, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL
        )
    entry = info.nested_type.add(name="MetadataEntry")
    entry.options.map_entry = True
    for number, name in ((1, "key"), (2, "value")):
        entry.field.add(
            name=name, number=number, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL
        )
    info.field.add(
        name="metadata",
        number=3,
        type=field.TYPE_MESSAGE,
        label=field.LABEL_REPEATED,
        type_name=".google.rpc.ErrorInfo.MetadataEntry",
    )
    pool = DescriptorPool()
    any_file = descriptor_pb2.FileDescriptorProto()
    Any.DESCRIPTOR.file.CopyToProto(any_file)
    pool.Add(any_file)
    pool.Add(file)
    names = ("google.rpc.Status", "google.rpc.ErrorInfo")
    return [GetMessageClass(pool.FindMessageTypeByName(name)) for name in names]


_STATUS, _ERROR_INFO = _well_known()
