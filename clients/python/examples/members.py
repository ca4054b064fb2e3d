"""Every process prints its rank and the members it sees.

    fabricast run -n 4 --label -- python examples/members.py
"""

import os

import fabricast


def main():
    with fabricast.Client.from_environment() as client:
        group = client.join(os.environ["FABRICAST_GROUP"])
        ranks = [member.rank for member in group.members()]
        print(f"I am {group.rank} on {client.node} and see {ranks}", flush=True)


if __name__ == "__main__":
    main()
