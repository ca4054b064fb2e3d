/* Many communicators, some of them at once; each has an operation, and every twentieth another:
 *   many COUNT AT_ONCE */
#include "common.h"

int main(int argc, char **argv)
{
    int rank, ranks, count, at_once, sum;

    MPI_Init(&argc, &argv);
    CHECK(argc == 3);
    count = atoi(argv[1]);
    at_once = atoi(argv[2]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm *comms = room(at_once * (int)sizeof *comms);

    for (int at = 0; at < count; at++) {
        MPI_Comm *comm = &comms[at % at_once];

        if (at >= at_once)
            MPI_Comm_free(comm);
        OK(MPI_Comm_dup(MPI_COMM_WORLD, comm));
        OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, *comm));
        CHECK(sum == ranks * (ranks - 1) / 2);
        if (at % 20 == 0)
            OK(MPI_Barrier(*comm));
    }
    for (int at = 0; at < at_once; at++)
        MPI_Comm_free(&comms[at]);
    free(comms);
    finish();
    return 0;
}
