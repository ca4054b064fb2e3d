/* Times of collective operations, with Fabricast beside Open MPI's own, in one run:
 *
 *     mpicc -O2 clients/openmpi/examples/latency.c -o latency
 *     mpirun -n 4 ./latency [ITERATIONS [MOST_BYTES [OPERATION]]]
 *
 * Each line has an operation, its bytes, and the median and 99th percentile in microseconds without
 * and with Fabricast. An iteration begins after a barrier of Open MPI and lasts until the last rank
 * has returned. The two take turns, so that both meet the same disturbances. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OWN, FABRICAST, SYSTEMS };
enum { WARM_UP = 20, SIZES = 10 };

/* Operations without and with Fabricast, and the buffers of all. */
static MPI_Comm comms[SYSTEMS];
static char *from, *to;

static void barrier(MPI_Comm comm, int bytes)
{
    (void)bytes;
    MPI_Barrier(comm);
}

static void bcast(MPI_Comm comm, int bytes)
{
    MPI_Bcast(to, bytes, MPI_BYTE, 0, comm);
}

static void allreduce(MPI_Comm comm, int bytes)
{
    MPI_Allreduce(from, to, bytes / 8, MPI_LONG, MPI_SUM, comm);
}

static void allreduce_double(MPI_Comm comm, int bytes)
{
    MPI_Allreduce(from, to, bytes / 8, MPI_DOUBLE, MPI_SUM, comm);
}

static void reduce(MPI_Comm comm, int bytes)
{
    MPI_Reduce(from, to, bytes / 8, MPI_LONG, MPI_SUM, 0, comm);
}

static void allgather(MPI_Comm comm, int bytes)
{
    MPI_Allgather(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, comm);
}

static const struct {
    const char *name;
    void (*run)(MPI_Comm comm, int bytes);
    int has_bytes;
} operations[] = {
    {"barrier", barrier, 0},
    {"bcast", bcast, 1},
    {"allreduce", allreduce, 1},
    {"allreduce_double", allreduce_double, 1},
    {"reduce", reduce, 1},
    {"allgather", allgather, 1},
};

static int compare(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;

    return (a > b) - (a < b);
}

/* Measures one operation; rank 0 prints the line. */
static void measure(int operation, int bytes, int iterations, double *times)
{
    double *ordered = times + (size_t)SYSTEMS * (size_t)iterations, at[SYSTEMS][2];
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int turn = -WARM_UP; turn < iterations; turn++)
        for (int system = 0; system < SYSTEMS; system++) {
            double begun, lasted;

            MPI_Barrier(comms[OWN]);
            begun = MPI_Wtime();
            operations[operation].run(comms[system], bytes);
            lasted = (MPI_Wtime() - begun) * 1e6;
            if (turn >= 0)
                times[system * iterations + turn] = lasted;
        }
    MPI_Allreduce(MPI_IN_PLACE, times, SYSTEMS * iterations, MPI_DOUBLE, MPI_MAX, comms[OWN]);
    for (int system = 0; system < SYSTEMS; system++) {
        for (int turn = 0; turn < iterations; turn++)
            ordered[turn] = times[system * iterations + turn];
        qsort(ordered, (size_t)iterations, sizeof *ordered, compare);
        at[system][0] = ordered[iterations / 2];
        at[system][1] = ordered[iterations * 99 / 100];
    }
    if (rank == 0)
        printf("%-17s %8d %10.0f %10.0f %12.0f %10.0f\n", operations[operation].name, bytes,
               at[OWN][0], at[OWN][1], at[FABRICAST][0], at[FABRICAST][1]);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int rank, ranks, iterations, most;
    const char *only = argc > 3 ? argv[3] : NULL;
    MPI_Info info;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    iterations = argc > 1 ? atoi(argv[1]) : 200;
    most = argc > 2 ? atoi(argv[2]) : 1 << 20;
    MPI_Info_create(&info);
    MPI_Info_set(info, "coll_fabricast", "off");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comms[OWN]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[FABRICAST]);
    from = calloc(1, (size_t)most);
    to = calloc((size_t)ranks, (size_t)most);
    double *times = calloc((size_t)((SYSTEMS + 1) * iterations), sizeof *times);

    if (iterations < 1 || most < 8 || from == NULL || to == NULL || times == NULL) {
        fprintf(stderr, "usage: latency [ITERATIONS [MOST_BYTES [OPERATION]]]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (rank == 0)
        printf("%d ranks, microseconds\n%-17s %8s %10s %10s %12s %10s\n", ranks, "operation", "bytes",
               "Open MPI", "99 %", "Fabricast", "99 %");
    for (int operation = 0; operation < (int)(sizeof operations / sizeof *operations); operation++) {
        if (only != NULL && strcmp(only, operations[operation].name) != 0)
            continue;
        if (!operations[operation].has_bytes)
            measure(operation, 0, iterations, times);
        else
            for (int bytes = 8; bytes <= most; bytes *= bytes < 1 << 20 && bytes > 8 ? 4 : 8)
                measure(operation, bytes, bytes > 1 << 16 ? 1 + iterations / 10 : iterations, times);
    }
    free(from);
    free(to);
    free(times);
    MPI_Info_free(&info);
    MPI_Comm_free(&comms[OWN]);
    MPI_Comm_free(&comms[FABRICAST]);
    MPI_Finalize();
    return 0;
}
