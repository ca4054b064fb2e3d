"""Shared by pods.py and hardware.py: commands, the docker engine, and the failure that ends both."""

import json
import subprocess


class Failure(Exception):
    """What does not work, with the pod and the container."""


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def done(*command, **options):
    """What a command says, which has to succeed."""
    ended = run(*command, **options)
    if ended.returncode:
        raise Failure(f"{' '.join(command)}: {ended.stderr.strip() or ended.stdout.strip()}")
    return ended.stdout.strip()


def docker(*arguments):
    return done("docker", *arguments)


def inspect(container):
    return json.loads(docker("inspect", container))[0]
