"""Uses arrays, reductions, long operations and asyncio of the package `fabricast`, with one agent.

    python numbers_and_tasks.py SOCKET NODE OTHER_NODE

Ends with 0 if everything was as it must be, otherwise with the reason on standard error.
"""

import asyncio
import faulthandler
import sys
from array import array
from concurrent.futures import ThreadPoolExecutor

import fabricast
import fabricast.aio
import numpy


def check(condition, text):
    if not condition:
        sys.exit(f"numbers_and_tasks.py: {text}")


def refusal(kind, call):
    """The error that a call must end with."""
    try:
        answer = call()
    except kind as error:
        return error
    sys.exit(f"numbers_and_tasks.py: not refused: {answer}")


def both(groups, call):
    with ThreadPoolExecutor(2) as pool:
        return [end.result() for end in [pool.submit(call, one) for one in groups]]


def reductions(groups):
    """All reductions under MPI's names, of 5 and 6."""
    wanted = {
        "SUM": 11, "PROD": 30, "MIN": 5, "MAX": 6, "BAND": 4, "BOR": 7, "BXOR": 3,
        "LAND": 1, "LOR": 1, "LXOR": 0,
    }
    pairs = {"MINLOC": [5, 0, 3, 0], "MAXLOC": [6, 1, 3, 0]}
    check({*wanted, *pairs} == set(fabricast.Reduction.__members__), "names of reductions")
    for name, result in wanted.items():
        for one in (getattr(fabricast, name), name, name.lower()):
            found = both(groups, lambda group: group.all_reduce([5 + group.rank], one))
            check(found == [[result]] * 2, f"{name}: {found}")
    for name, result in pairs.items():
        for one in (getattr(fabricast, name), name.lower()):
            found = both(groups, lambda group: group.all_reduce([5 + group.rank, group.rank, 3, group.rank], one))
            check(found == [result] * 2, f"{name}: {found}")
        rows = both(groups, lambda group: group.scan(numpy.array([[5.5 + group.rank, group.rank]]), name))
        check(rows[0].tolist() == [[5.5, 0]] and rows[1].shape == (1, 2), f"{name}: {rows}")
    error = refusal(fabricast.Refused, lambda: groups[0].all_reduce([1], "minloc"))
    check("odd" in str(error), f"half a pair: {error}")
    error = refusal(fabricast.InvalidArgument, lambda: groups[0].all_reduce([1], "average"))
    check("PROD" in str(error), f"the names are not listed: {error}")
    check(repr(fabricast.SUM) == "fabricast.SUM", "repr of a reduction")


def arrays(groups):
    """Arrays of numpy, of the module array, and views of memory, of every type."""
    for name in ("int32", "int64", "uint32", "uint64", "float32", "float64"):
        numbers = numpy.arange(12, dtype=name).reshape(3, 4)
        for sent in (numbers, numbers.T, numbers[::2]):
            for found in both(groups, lambda group: group.all_reduce(sent)):
                check(found.dtype == numbers.dtype, f"{name}: {found.dtype}")
                check((found == sent * 2).all() and found.shape == sent.shape, f"{name}: {found}")
        numbers.flags.writeable = False
        found = both(groups, lambda group: group.scan(numbers, fabricast.MAX))
        check(all((one == numbers).all() for one in found), f"{name}, only to be read")
    found = both(groups, lambda group: group.reduce(0, numpy.array([1.5]), dtype="f32"))
    check(found[0].dtype == numpy.float32 and found[1] is None, f"dtype: {found}")
    found = both(groups, lambda group: group.all_reduce([1, 2], dtype=numpy.uint64))
    check(found == [[2, 4]] * 2, f"a list with a type: {found}")
    found = both(groups, lambda group: group.all_reduce((1, 2)))
    check(found == [(2, 4)] * 2, f"a tuple: {found}")
    found = both(groups, lambda group: group.all_reduce(array("d", [0.5])))
    check(found == [array("d", [1.0])] * 2, f"array: {found}")
    found = both(groups, lambda group: group.all_reduce(memoryview(array("i", [3]))))
    check([one.tolist() for one in found] == [[6]] * 2, f"a view: {found}")
    for wrong in (numpy.array([1], dtype="int8"), array("h", [1]), b"1234", ["1"], [1 << 80]):
        refusal(fabricast.InvalidArgument, lambda: groups[0].all_reduce(wrong))
    payload = numpy.arange(5, dtype="float32")
    found = both(groups, lambda group: group.broadcast(1, payload * group.rank))
    check(all((numpy.frombuffer(one, "float32") == payload).all() for one in found), "a payload")


def long_operations(groups):
    """Operations above 1 MiB."""
    long = bytes(range(256)) * (10 << 10)
    check(both(groups, lambda group: group.broadcast(1, long)) == [long] * 2, "broadcast")
    found = both(groups, lambda group: group.gather(1, long if group.rank else b""))
    check(found == [None, {0: b"", 1: long}], "gather")
    check(both(groups, lambda group: group.scatter(0, {1: long})) == [None, long], "scatter")
    numbers = numpy.arange(1 << 19, dtype="float64")
    found = both(groups, lambda group: group.all_reduce(numbers))
    check(all((one == numbers * 2).all() for one in found), "all-reduce")


async def tasks(socket, node, other):
    async with await fabricast.aio.Client.attach(socket, "c", node) as client:
        async with await fabricast.aio.Client.attach(socket, "d", other) as second:
            groups = [await one.join("tasks") for one in (client, second)]
            for group in groups:
                await group.take_part()
            for group in groups:
                check(await group.wait_for(2, timeout=30) == [0, 1], "wait_for")
            check(repr(groups[0]).startswith("<fabricast.aio.Group 'tasks' rank=0"), repr(groups[0]))
            all_of = lambda call: asyncio.gather(*(call(group) for group in groups))
            check(await all_of(lambda group: group.barrier()) == [[0, 1]] * 2, "barrier")
            # Many at once, in the order in which they were called.
            sums = await all_of(
                lambda group: asyncio.gather(*(group.all_reduce([number]) for number in range(50)))
            )
            check(sums == [[[2 * number] for number in range(50)]] * 2, f"sums: {sums}")
            check(await groups[0].receive(timeout=0.01) is None, "nobody has sent anything")
            for number in range(20):
                waiting = asyncio.create_task(groups[0].receive())
                await asyncio.sleep(0)
                sending = asyncio.create_task(groups[1].multicast(b"%d" % number))
                await asyncio.sleep(0.001 * (number % 4))
                got = None
                if waiting.done():
                    got = waiting.result()
                else:
                    waiting.cancel()
                    try:
                        got = await waiting
                    except asyncio.CancelledError:
                        got = await groups[0].receive(timeout=30)
                check(got == (1, b"%d" % number), f"after a cancelled receive: {got}")
                check(await sending == [], "somebody may lack it")
            check(await groups[0].request_switch_tree() >= 8, "a tree of switches")
            changes = groups[0].watch_members()
            check(len(await changes.__anext__()) == 2, "members")
            await groups[1].leave()
            check(len(await changes.__anext__()) == 1, "it has left")
            await changes.aclose()


def main(socket, node, other):
    with fabricast.Client(socket, "a", node) as a, fabricast.Client(socket, "b", other) as b:
        check(repr(a) == f"<fabricast.Client 'a' on '{node}' at '{socket}'>", repr(a))
        groups = [client.join("numbers") for client in (a, b)]
        check(repr(groups[1]) == "<fabricast.Group 'numbers' rank=1 process='b'>", repr(groups[1]))
        for group in groups:
            group.take_part()
        for group in groups:
            group.wait_for(2)
        reductions(groups)
        arrays(groups)
        long_operations(groups)
    asyncio.run(tasks(socket, node, other))
    print("ok")


if __name__ == "__main__":
    faulthandler.dump_traceback_later(100, exit=True)
    check(len(sys.argv) == 4, "usage: numbers_and_tasks.py SOCKET NODE OTHER_NODE")
    main(*sys.argv[1:])
