"""Runs the commands of a page with `grpcurl` examples against a server.

    python administration.py GRPCURL HOST:PORT PAGE

A block marked `grpcurl` is a command; a block marked `json` directly below says what the answer must have. As changes
take a moment to come about, a call whose answer lacks something is made again for a while. Ends with 0 if every
command worked, otherwise with the reason on standard error.
"""

import json
import re
import shlex
import subprocess
import sys
import time

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


def run(grpcurl, command, address):
    """The answer as a dictionary; the last one if there are several."""
    words = shlex.split(command)
    if words[0] != "grpcurl":
        sys.exit(f"not a command: {command}")
    variables = {"$TLS": "-plaintext"}
    words = [variables.get(word, address if re.fullmatch(r"\$[A-Z]+", word) else word) for word in words[1:]]
    done = subprocess.run([grpcurl, *words], capture_output=True, text=True, timeout=DEADLINE_S)
    if done.returncode != 0:
        sys.exit(f"{command}\n{done.stderr}")
    answer, text, decoder = {}, done.stdout.strip(), json.JSONDecoder()
    while text:
        answer, end = decoder.raw_decode(text)
        text = text[end:].strip()
    return answer


def main(grpcurl, address, page):
    with open(page, encoding="utf-8") as file:
        found = commands(file.read())
    for command, wanted in found:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            answer = run(grpcurl, command, address)
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
    if len(sys.argv) != 4:
        sys.exit("usage: administration.py GRPCURL HOST:PORT PAGE")
    main(*sys.argv[1:])
