/* Threads that each have a communicator of their own, and use it at once. */
#include "common.h"

#include <pthread.h>

enum { THREADS = 3, TURNS = 40 };

static MPI_Comm comms[THREADS];

static void *work(void *comm_of)
{
    MPI_Comm comm = *(MPI_Comm *)comm_of;
    MPI_Request requests[2];
    int rank, ranks;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    for (int turn = 0; turn < TURNS; turn++) {
        long mine = rank + turn, sum = 0, copy = rank == turn % ranks ? turn : -1, later = 0;

        OK(MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, comm));
        CHECK(sum == (long)ranks * (ranks - 1) / 2 + (long)ranks * turn);
        OK(MPI_Iallreduce(&mine, &later, 1, MPI_LONG, MPI_MAX, comm, &requests[0]));
        OK(MPI_Ibcast(&copy, 1, MPI_LONG, turn % ranks, comm, &requests[1]));
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        CHECK(later == ranks - 1 + turn && copy == turn);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    CHECK(provided == MPI_THREAD_MULTIPLE);
    for (int at = 0; at < THREADS; at++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[at]);
    for (int at = 0; at < THREADS; at++)
        CHECK(pthread_create(&threads[at], NULL, work, &comms[at]) == 0);
    for (int at = 0; at < THREADS; at++)
        CHECK(pthread_join(threads[at], NULL) == 0);
    for (int at = 0; at < THREADS; at++)
        MPI_Comm_free(&comms[at]);
    finish();
    return 0;
}
