"""Uses a Fabricast server with nothing but its address: what it needs to know, it asks the server.

    python client.py HOST:PORT

No generated code and no .proto file: services and messages come through server reflection, as
with grpcurl. Needs the packages grpcio, grpcio-reflection and protobuf. Ends with 0 if everything
was as it must be, otherwise with the reason on standard error.
"""

import sys
import time

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

DEADLINE_S = 20
SERVICES = {
    "fabricast.v1.AdministrationService",
    "fabricast.v1.FabricService",
    "fabricast.v1.GroupAgentService",
    "fabricast.v1.JobService",
    "fabricast.v1.OperatingAgentService",
    "fabricast.v1.RouteChoiceService",
    "fabricast.v1.RouteService",
    "fabricast.v1.SwitchAgentService",
    "fabricast.v1.TicService",
    "grpc.health.v1.Health",
}


class Server:
    """Calls by name, messages as dictionaries of fields."""

    def __init__(self, address):
        self.channel = grpc.insecure_channel(address)
        grpc.channel_ready_future(self.channel).result(timeout=DEADLINE_S)
        self.database = ProtoReflectionDescriptorDatabase(self.channel)
        self.pool = DescriptorPool(self.database)

    def services(self):
        return set(self.database.get_services())

    def call(self, service, method, /, **fields):
        """Answers one message, or a list if the server streams."""
        descriptor = self.pool.FindServiceByName(service).FindMethodByName(method)
        request = GetMessageClass(descriptor.input_type)(**fields)
        answer = GetMessageClass(descriptor.output_type)
        streams = descriptor.server_streaming
        open_call = self.channel.unary_stream if streams else self.channel.unary_unary
        call = open_call(
            f"/{service}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        answered = call(request, timeout=DEADLINE_S)
        return list(answered) if streams else answered


def check(condition, text):
    if not condition:
        sys.exit(f"client.py: {text}")


def refusal(call):
    """The error that a call must end with."""
    try:
        answer = call()
    except grpc.RpcError as error:
        return error
    sys.exit(f"client.py: not refused: {answer}")


def main(address):
    server = Server(address)
    services = server.services()
    check(SERVICES <= services, f"services missing: {SERVICES - services}")

    for service in SERVICES - {"grpc.health.v1.Health"}:
        health = server.call("grpc.health.v1.Health", "Check", service=service)
        check(health.status == 1, f"{service} is not serving: {health}")

    agent, tic = "fabricast.v1.OperatingAgentService", "fabricast.v1.TicService"
    nodes = server.call(agent, "ListHostedNodes").nodes
    check(len(nodes) == 96, f"{len(nodes)} nodes")
    members = [nodes[0].name, nodes[-1].name]
    for pn, node in enumerate(members):
        joined = server.call(agent, "JoinGroup", node=node, group="reflected", process="p0")
        check(joined.membership.pn == pn, f"another rank than {pn}: {joined}")

    groups = server.call(tic, "ListGroups", with_members=True).groups
    check([group.name for group in groups] == ["reflected"], f"groups: {groups}")
    check([member.node for member in groups[0].members] == members, f"members: {groups}")

    deadline = time.monotonic() + DEADLINE_S
    while True:
        group = server.call(tic, "GetGroup", group="reflected").group
        if group.route.state == 1 and group.route.routed_revision >= group.members_revision:
            break
        check(time.monotonic() < deadline, f"not routed: {group}")
        time.sleep(0.02)

    switches = server.call("fabricast.v1.SwitchAgentService", "ListSwitches").switches
    used = [switch.name for switch in switches if switch.used_entries > 0]
    check(used, f"no switch has an entry: {switches}")
    tables = server.call("fabricast.v1.SwitchAgentService", "ReadTables", switch_names=used)
    entries = [entry for answer in tables for entry in answer.table.entries]
    colors = {entry.color for entry in entries}
    check(colors == {group.route.color}, f"entries: {entries}, route: {group.route}")

    error = refusal(
        lambda: server.call(agent, "JoinGroup", node=members[0], group="", process="p0")
    )
    check(error.code() == grpc.StatusCode.INVALID_ARGUMENT, f"code: {error}")
    check("group" in error.details(), f"the field is not named: {error}")
    details = dict(error.trailing_metadata()).get("grpc-status-details-bin", b"")
    check(b"NAME_INVALID" in details, f"no reason: {error}")

    error = refusal(lambda: server.call(tic, "GetGroup", group="no such group"))
    check(error.code() == grpc.StatusCode.NOT_FOUND, f"code: {error}")
    print(f"{len(services)} services, {len(entries)} entries on {len(used)} switches")


if __name__ == "__main__":
    check(len(sys.argv) == 2, "usage: client.py HOST:PORT")
    main(sys.argv[1])
