"""A program of mpi4py that knows nothing of Fabricast: objects, buffers, rows and columns."""

from array import array

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, ranks = world.Get_rank(), world.Get_size()

for turn in range(3):
    assert world.bcast({"from": turn, "words": ["a", "b"]} if rank == turn else None, turn) == {
        "from": turn,
        "words": ["a", "b"],
    }
    assert world.allgather((rank, "x" * rank)) == [(one, "x" * one) for one in range(ranks)]
    assert world.allreduce([rank]) == list(range(ranks))  # an operator of Python

    numbers, sums = array("d", [rank, 1.0, -rank]), array("d", [0.0] * 3)
    world.Allreduce(numbers, sums, MPI.SUM)
    total = ranks * (ranks - 1) / 2
    assert list(sums) == [total, ranks, -total], sums
    world.Allreduce(MPI.IN_PLACE, numbers, MPI.MAX)
    assert list(numbers) == [ranks - 1, 1.0, 0.0], numbers

    request = world.Ibarrier()
    request.Wait()

row = world.Split(rank // 2, rank)
column = world.Split(rank % 2, rank)
assert row.allreduce(rank) == sum(one for one in range(ranks) if one // 2 == rank // 2)
found = array("i", [0] * column.Get_size())
column.Allgather(array("i", [rank]), found)
assert list(found) == [one for one in range(ranks) if one % 2 == rank % 2], found
row.Free()
column.Free()

if rank == 0:
    print("ok")
