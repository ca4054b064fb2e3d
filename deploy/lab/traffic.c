/* Runs collective operations of MPI as it is told to, while deploy/lab/traffic counts bytes. Each
 * line of its input is
 *
 *     SYSTEM OPERATION BYTES ROUNDS
 *
 * with the numbers of `system` and `operation`. "done" follows once all ranks have done them. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum system { OWN, FABRICAST, SYSTEMS };
enum operation { BROADCAST, ALL_GATHER, ALL_REDUCE, OPERATIONS };
enum { MOST_BYTES = 1 << 20 };

typedef struct command {
    int system, operation, bytes, rounds;
} command_t;

static int is_valid(command_t it)
{
    return it.system >= 0 && it.system < SYSTEMS && it.operation >= 0 &&
           it.operation < OPERATIONS && it.bytes > 0 && it.bytes <= MOST_BYTES && it.rounds > 0;
}

/* The next command, the same on all ranks; one without rounds at the end. */
static command_t next_command(int rank, MPI_Comm comm)
{
    command_t it = {0};
    char line[128];

    if (rank == 0 && fgets(line, sizeof line, stdin) != NULL &&
        (sscanf(line, "%d %d %d %d", &it.system, &it.operation, &it.bytes, &it.rounds) != 4 ||
         !is_valid(it))) {
        fprintf(stderr, "traffic: no command: %s", line);
        MPI_Abort(comm, 2);
    }
    MPI_Bcast(&it, sizeof it, MPI_BYTE, 0, comm);
    return it;
}

int main(int argc, char **argv)
{
    MPI_Comm comms[SYSTEMS];
    MPI_Info info;
    int rank, ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Info_create(&info);
    MPI_Info_set(info, "coll_fabricast", "off");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comms[OWN]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[FABRICAST]);
    MPI_Info_free(&info);
    char *from = calloc(1, MOST_BYTES), *to = calloc((size_t)ranks, MOST_BYTES);

    if (from == NULL || to == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (;;) {
        command_t it = next_command(rank, comms[OWN]);
        MPI_Comm comm = comms[it.system];

        if (it.rounds == 0)
            break;
        for (int round = 0; round < it.rounds; round++) {
            if (it.operation == BROADCAST)
                MPI_Bcast(to, it.bytes, MPI_BYTE, 0, comm);
            else if (it.operation == ALL_GATHER)
                MPI_Allgather(from, it.bytes, MPI_BYTE, to, it.bytes, MPI_BYTE, comm);
            else
                MPI_Allreduce(from, to, it.bytes / 8, MPI_LONG, MPI_SUM, comm);
        }
        MPI_Barrier(comms[OWN]);
        if (rank == 0)
            puts("done");
        fflush(stdout);
    }
    free(from);
    free(to);
    MPI_Comm_free(&comms[OWN]);
    MPI_Comm_free(&comms[FABRICAST]);
    MPI_Finalize();
    return 0;
}
