"""The commands of docs/kubernetes.md, for the tests that run them."""

import os
import re
import textwrap

from engine import Failure

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/kubernetes.md")
# One may belong to an item of a list.
BLOCK = re.compile(r"^( *)```sh\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def text():
    with open(PATH, encoding="utf-8") as page:
        return page.read()


def block(command):
    """The one block that has a command."""
    found = [commands for _, commands in BLOCK.findall(text()) if command in commands]
    if len(found) != 1:
        raise Failure(f"{PATH} has {len(found)} blocks with '{command}', not 1")
    return textwrap.dedent(found[0])
