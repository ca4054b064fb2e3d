/* Operations of a few sizes, so many that both the group and the next module have done them, and a
 * communicator that wants all of its own by the group. */
#include "common.h"

enum { TURNS = 60, COUNT = 100 };

static void operations(MPI_Comm comm)
{
    int rank, ranks;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    for (int turn = 0; turn < TURNS; turn++) {
        const int root = turn % ranks;
        long mine = rank + turn, sum = 0, least = 0, copies[COUNT];
        MPI_Request request;

        OK(MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, comm));
        CHECK(sum == (long)ranks * (ranks - 1) / 2 + (long)ranks * turn);
        for (int at = 0; at < COUNT; at++)
            copies[at] = rank == root ? turn + at : -1;
        OK(MPI_Bcast(copies, COUNT, MPI_LONG, root, comm));
        for (int at = 0; at < COUNT; at++)
            CHECK(copies[at] == turn + at);
        OK(MPI_Barrier(comm));
        OK(MPI_Iallreduce(&mine, &least, 1, MPI_LONG, MPI_MIN, comm, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(least == turn);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm always;
    MPI_Info info;

    MPI_Init(&argc, &argv);
    MPI_Info_create(&info);
    MPI_Info_set(info, "coll_fabricast", "always");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &always);
    MPI_Comm_set_name(always, "always");
    operations(MPI_COMM_WORLD);
    operations(always);
    MPI_Comm_free(&always);
    MPI_Info_free(&info);
    finish();
    return 0;
}
