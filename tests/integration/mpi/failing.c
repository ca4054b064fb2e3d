/* Operations without end, until one fails:
 *   failing die RANK   this rank kills itself; the others expect errors
 *   failing expect     all expect errors
 *   failing            errors end the job, as MPI does unless it is told otherwise */
#include "common.h"

#include <signal.h>
#include <unistd.h>

/* The longest time from a death to the error, in seconds: the end of a process is noticed at once,
 * but not by a machine that is busy. */
#define DETECTED 15

static void is_error(int code)
{
    int class = MPI_SUCCESS;

    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_OTHER);
}

int main(int argc, char **argv)
{
    int rank, ranks, mortal, code = MPI_SUCCESS;
    double begun = 0;
    long sum, one = 1;
    MPI_Request request;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    mortal = argc > 2 && strcmp(argv[1], "die") == 0 ? atoi(argv[2]) : -1;
    if (argc > 1)
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int turn = 0; code == MPI_SUCCESS; turn++) {
        begun = MPI_Wtime();
        code = MPI_Allreduce(&one, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        CHECK(code != MPI_SUCCESS || sum == ranks); /* never without a rank */
        if (turn == 50 && rank == mortal)
            raise(SIGKILL);
        if (turn == 50 && rank == 0)
            printf("running\n");
        fflush(stdout);
    }
    is_error(code);
    CHECK(mortal < 0 || MPI_Wtime() - begun < DETECTED);
    is_error(MPI_Barrier(MPI_COMM_WORLD));
    code = MPI_Ibarrier(MPI_COMM_WORLD, &request);
    is_error(code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code);
    printf("rank %d got an error\n", rank);
    fflush(stdout);
    sleep(3); /* mpirun ends the others as soon as one ends without MPI_Finalize */
    _exit(0); /* which would wait for the rank that died */
}
