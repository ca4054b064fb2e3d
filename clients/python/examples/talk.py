"""Every process sends a message to all others, receives theirs, and contributes to a sum.

    fabricast run -n 4 --label -- python examples/talk.py
"""

import os

import fabricast


def main():
    with fabricast.Client.from_environment() as client:
        group = client.join(os.environ["FABRICAST_GROUP"])
        ranks = group.wait_for(int(os.environ["FABRICAST_SIZE"]))
        group.multicast(f"hello from {group.rank}".encode())
        heard = sorted(group.receive().sender for _ in ranks[1:])
        total = group.all_reduce([group.rank, 1])
        everybody = group.all_gather(client.node.encode())
        group.barrier()
        nodes = sorted({node.decode() for node in everybody.values()})
        print(f"I am {group.rank}, heard {heard}, sums {total}, nodes {nodes}", flush=True)


if __name__ == "__main__":
    main()
