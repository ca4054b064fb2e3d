"""Runs the commands of a page with `grpcurl` examples against a server, knowing nothing but its address.

    python administration.py HOST:PORT PAGE

A block marked `grpcurl` is a command; a block marked `json` directly below says what the answer must have. As changes
take a moment to come about, a call whose answer lacks something is made again for a while. Ends with 0 if every
command worked, otherwise with the reason on standard error.
"""

import json
import re
import shlex
import sys
import time

import grpc
from google.protobuf import json_format
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

DEADLINE_S = 30
BLOCK = re.compile(r"^```(grpcurl|json)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(page):
    """The commands of the page, each with what its answer must have."""
    found = []
    end = None
    for block in BLOCK.finditer(page):
        kind, text = block.groups()
        if kind == "grpcurl":
            found.append((text.strip(), {}))
        elif page[end : block.start()].strip() == "" and found:
            found[-1] = (found[-1][0], json.loads(text))
        else:
            sys.exit(f"an answer without a command: {text}")
        end = block.end()
    return found


def lacks(answer, wanted):
    """What of the wanted the answer does not have; nothing if it has all."""
    if isinstance(wanted, dict):
        if not isinstance(answer, dict):
            return wanted
        missing = {key: lacks(answer.get(key), value) for key, value in wanted.items()}
        return {key: what for key, what in missing.items() if what is not None} or None
    if isinstance(wanted, list):
        rest = [one for one in wanted if all(lacks(got, one) is not None for got in answer or [])]
        return rest or None
    return None if answer == wanted else wanted


class Server:
    """Calls by the words of a command."""

    def __init__(self, address):
        self.channel = grpc.insecure_channel(address)
        grpc.channel_ready_future(self.channel).result(timeout=DEADLINE_S)
        self.pool = DescriptorPool(ProtoReflectionDescriptorDatabase(self.channel))

    def run(self, command):
        """The answer as a dictionary; the last one if there are several."""
        words = shlex.split(command)
        if words[:2] != ["grpcurl", "$TLS"]:
            sys.exit(f"not a command: {command}")
        words = words[2:]
        data = words[1] if words[0] == "-d" else "{}"
        _address, name = words[2:] if words[0] == "-d" else words
        service, method = name.split("/")
        descriptor = self.pool.FindServiceByName(service).FindMethodByName(method)
        request = json_format.Parse(data, GetMessageClass(descriptor.input_type)())
        answer = GetMessageClass(descriptor.output_type)
        kind = ("stream" if descriptor.client_streaming else "unary") + (
            "_stream" if descriptor.server_streaming else "_unary"
        )
        call = getattr(self.channel, kind)(
            f"/{service}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        sent = iter([request]) if descriptor.client_streaming else request
        answered = call(sent, timeout=DEADLINE_S)
        if descriptor.server_streaming:
            answered = list(answered)[-1]
        return json_format.MessageToDict(answered, preserving_proto_field_name=True)


def main(address, page):
    server = Server(address)
    with open(page, encoding="utf-8") as file:
        found = commands(file.read())
    for command, wanted in found:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                answer = server.run(command)
            except (grpc.RpcError, json_format.ParseError, KeyError, ValueError) as error:
                sys.exit(f"{command}\n{error}")
            missing = lacks(answer, wanted)
            if missing is None:
                break
            if time.monotonic() > deadline:
                sys.exit(f"{command}\nlacks {missing}: {answer}")
            time.sleep(0.05)
    if not found:
        sys.exit(f"{page} has no commands")
    print(f"{len(found)} commands")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: administration.py HOST:PORT PAGE")
    main(*sys.argv[1:])
