/* Times of collective operations, with Fabricast beside Open MPI's own, in one run:
 *
 *     mpicc -O2 clients/openmpi/examples/latency.c -o latency
 *     FABRICAST_MPI=try mpirun -n 4 ./latency [ITERATIONS [MOST_BYTES [OPERATION]]]
 *
 * Each line has an operation, its bytes, and four times the median and the 99th percentile in
 * microseconds: by the algorithm that Open MPI chooses, by the best one that it can be forced to
 * (named at the end of the line, with the bytes of its segments), by Fabricast, and as the
 * component chooses. An iteration begins after a barrier of Open MPI and lasts until the last rank
 * has returned. The four take turns, so that all meet the same disturbances. Long operations are
 * measured less often. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OWN, FORCED, GROUP, CHOICE, SYSTEMS };
enum {
    WARM_UP = 20,             /* operations after which a group has formed */
    TRIAL = 14,               /* operations that the component measures for its choice */
    HEARD = 5,                /* seconds until all ranks hear the multicast of a new group */
    FEWEST = 3,               /* iterations of the longest operations */
    SEGMENT = 1 << 15,        /* bytes, for algorithms that cut long messages */
    MOST_FORCED = 64,         /* algorithms, with segments and without */
    MOST_GATHERED = 16 << 20, /* bytes of the result of an all-gather */
};
/* Microseconds for the iterations of one operation of one size. */
#define BUDGET 10e6
/* An operation that an algorithm cannot do. */
#define NEVER 1e30

static MPI_Comm comms[SYSTEMS];
static MPI_Info without;
static char *from, *to;
static int rank, ranks;

/* An algorithm of Open MPI, and its communicator. */
typedef struct forced {
    MPI_Comm comm;
    int algorithm, segment;
} forced_t;

static int barrier(MPI_Comm comm, int bytes)
{
    (void)bytes;
    return MPI_Barrier(comm);
}

static int bcast(MPI_Comm comm, int bytes)
{
    return MPI_Bcast(to, bytes, MPI_BYTE, 0, comm);
}

static int allreduce(MPI_Comm comm, int bytes)
{
    return MPI_Allreduce(from, to, bytes / 8, MPI_LONG, MPI_SUM, comm);
}

static int allreduce_double(MPI_Comm comm, int bytes)
{
    return MPI_Allreduce(from, to, bytes / 8, MPI_DOUBLE, MPI_SUM, comm);
}

static int reduce(MPI_Comm comm, int bytes)
{
    return MPI_Reduce(from, to, bytes / 8, MPI_LONG, MPI_SUM, 0, comm);
}

static int allgather(MPI_Comm comm, int bytes)
{
    return MPI_Allgather(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, comm);
}

typedef struct operation {
    const char *name;
    const char *variables; /* of Open MPI, for its algorithms */
    int (*run)(MPI_Comm comm, int bytes);
    int has_bytes;
} operation_t;

static const operation_t operations[] = {
    {"barrier", "barrier", barrier, 0},
    {"bcast", "bcast", bcast, 1},
    {"allreduce", "allreduce", allreduce, 1},
    {"allreduce_double", "allreduce", allreduce_double, 1},
    {"reduce", "reduce", reduce, 1},
    {"allgather", "allgather", allgather, 1},
};

/* ---- Algorithms of Open MPI ---- */

/* Reads or writes a variable of Open MPI. Returns 0 if it has none. */
static int use_variable(const char *operation, const char *what, int *value, int writes)
{
    char name[96];
    int index, count, code;
    MPI_T_cvar_handle handle;

    snprintf(name, sizeof name, "coll_tuned_%s_algorithm%s", operation, what);
    if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS ||
        MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS)
        return 0;
    code = writes ? MPI_T_cvar_write(handle, value) : MPI_T_cvar_read(handle, value);
    MPI_T_cvar_handle_free(&handle);
    return code == MPI_SUCCESS;
}

/* Makes a communicator for each algorithm of an operation, cut into segments and not. A
 * communicator has the algorithms that are set when it is made. Returns how many there are. */
static int force_algorithms(const char *operation, forced_t *all)
{
    int algorithms = 0, count = 0, none = 0;

    use_variable(operation, "_count", &algorithms, 0);
    for (int algorithm = 1; algorithm < algorithms; algorithm++)
        for (int segment = 0; segment <= SEGMENT && count < MOST_FORCED; segment += SEGMENT) {
            if (!use_variable(operation, "_segmentsize", &segment, 1) && segment > 0)
                continue;
            if (!use_variable(operation, "", &algorithm, 1))
                continue;
            all[count] = (forced_t){MPI_COMM_NULL, algorithm, segment};
            MPI_Comm_dup_with_info(MPI_COMM_WORLD, without, &all[count].comm);
            MPI_Comm_set_errhandler(all[count].comm, MPI_ERRORS_RETURN);
            count++;
        }
    use_variable(operation, "", &none, 1);
    use_variable(operation, "_segmentsize", &none, 1);
    return count;
}

/* ---- Times ---- */

/* The time of this rank for one operation, in microseconds. */
static double once(const operation_t *operation, MPI_Comm comm, int bytes)
{
    double begun;

    MPI_Barrier(comms[OWN]);
    begun = MPI_Wtime();
    if (operation->run(comm, bytes) != MPI_SUCCESS)
        return NEVER;
    return (MPI_Wtime() - begun) * 1e6;
}

static double slowest(double time)
{
    MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_MAX, comms[OWN]);
    return time;
}

/* The algorithm that is fastest in two operations; those that are much slower have one. */
static forced_t find_best(const operation_t *operation, int bytes, forced_t *all, int count)
{
    forced_t best = {comms[OWN], 0, 0};
    double least = NEVER;

    for (forced_t *it = all; it < all + count; it++) {
        double time;

        if (it->segment > 0 && bytes <= it->segment)
            continue;
        time = slowest(once(operation, it->comm, bytes));
        if (time < 2 * least && time < NEVER) {
            double again = slowest(once(operation, it->comm, bytes));

            time = again < time ? again : time;
        }
        if (time < least) {
            least = time;
            best = *it;
        }
    }
    return best;
}

static int compare(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;

    return (a > b) - (a < b);
}

/* Measures one operation; rank 0 prints the line. */
static void measure(const operation_t *operation, int bytes, int iterations, double *times,
                    forced_t best)
{
    double total = 0;
    int rounds = iterations;

    comms[FORCED] = best.comm;
    for (int turn = 0; turn < TRIAL; turn++)
        operation->run(comms[CHOICE], bytes);
    for (int system = 0; system < SYSTEMS; system++)
        total += slowest(once(operation, comms[system], bytes));
    if (total * rounds > BUDGET)
        rounds = (int)(BUDGET / total);
    rounds = rounds < FEWEST ? FEWEST : rounds;
    for (int turn = 0; turn < rounds; turn++)
        for (int system = 0; system < SYSTEMS; system++)
            times[system * rounds + turn] = once(operation, comms[system], bytes);
    MPI_Allreduce(MPI_IN_PLACE, times, SYSTEMS * rounds, MPI_DOUBLE, MPI_MAX, comms[OWN]);
    if (rank != 0)
        return;
    printf("%-17s %8d", operation->name, bytes);
    for (int system = 0; system < SYSTEMS; system++) {
        double *ordered = times + system * rounds;

        qsort(ordered, (size_t)rounds, sizeof *ordered, compare);
        printf(" %10.0f %10.0f", ordered[rounds / 2], ordered[rounds * 99 / 100]);
    }
    printf(" %d/%d\n", best.algorithm, best.segment);
    fflush(stdout);
}

static void measure_sizes(const operation_t *operation, int most, int iterations, double *times)
{
    static forced_t all[MOST_FORCED];
    const int count = force_algorithms(operation->variables, all);
    const int is_gather = operation->run == allgather;

    if (!operation->has_bytes)
        measure(operation, 0, iterations, times, find_best(operation, 0, all, count));
    for (int bytes = 8; operation->has_bytes && bytes <= most;
         bytes *= bytes > 8 && bytes < 1 << 20 ? 4 : 8) {
        if (is_gather && bytes > MOST_GATHERED / ranks)
            break;
        measure(operation, bytes, iterations, times, find_best(operation, bytes, all, count));
    }
    for (int at = 0; at < count; at++)
        MPI_Comm_free(&all[at].comm);
}

/* ---- The program ---- */

/* Makes the communicators, and lets the groups form. */
static void make_communicators(void)
{
    MPI_Info always;

    MPI_Info_create(&without);
    MPI_Info_set(without, "coll_fabricast", "off");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, without, &comms[OWN]);
    MPI_Info_create(&always);
    MPI_Info_set(always, "coll_fabricast", "always");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, always, &comms[GROUP]);
    MPI_Info_free(&always);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[CHOICE]);
    for (int turn = 0; turn < WARM_UP; turn++)
        for (int system = OWN; system < SYSTEMS; system++)
            if (system != FORCED)
                MPI_Barrier(comms[system]);
    sleep(HEARD);
}

int main(int argc, char **argv)
{
    int iterations, most, provided;
    const char *only = argc > 3 ? argv[3] : NULL;
    double *times;

    setenv("OMPI_MCA_coll_tuned_use_dynamic_rules", "1", 1); /* algorithms may be forced */
    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    iterations = argc > 1 ? atoi(argv[1]) : 200;
    most = argc > 2 ? atoi(argv[2]) : 1 << 20;
    from = calloc(1, (size_t)(most > 0 ? most : 1));
    to = calloc(1, (size_t)(most > MOST_GATHERED ? most : MOST_GATHERED));
    times = calloc((size_t)(SYSTEMS * (iterations < FEWEST ? FEWEST : iterations)), sizeof *times);
    if (iterations < 1 || most < 8 || from == NULL || to == NULL || times == NULL) {
        fprintf(stderr, "usage: latency [ITERATIONS [MOST_BYTES [OPERATION]]]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    make_communicators();
    if (rank == 0)
        printf("%d ranks, microseconds: median and 99th percentile\n"
               "%-17s %8s %21s %21s %21s %21s\n",
               ranks, "operation", "bytes", "Open MPI", "Open MPI's best", "Fabricast", "choice");
    for (size_t at = 0; at < sizeof operations / sizeof *operations; at++)
        if (only == NULL || strcmp(only, operations[at].name) == 0)
            measure_sizes(&operations[at], most, iterations, times);
    free(from);
    free(to);
    free(times);
    MPI_Info_free(&without);
    MPI_Comm_free(&comms[OWN]);
    MPI_Comm_free(&comms[GROUP]);
    MPI_Comm_free(&comms[CHOICE]);
    MPI_T_finalize();
    MPI_Finalize();
    return 0;
}
