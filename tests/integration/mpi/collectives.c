/* Collective operations on communicators of many kinds, with results that every rank can compute by
 * itself: the contributions are pseudo-random numbers of rank and round. It does not know of
 * Fabricast. */
#include "common.h"

static unsigned rounds;

/* A number of a rank in a round, small enough for sums of floats to be exact. */
static int number(unsigned round, int rank, int at)
{
    uint64_t x = (uint64_t)round * 0x9e3779b97f4a7c15u + (uint64_t)rank * 0xbf58476d1ce4e5b9u +
                 (uint64_t)at * 0x94d049bb133111ebu + 1;

    x ^= x >> 31;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    return (int)(x % 2001) - 1000;
}

/* Pairs of MPI without bytes in between. */
typedef struct float_int {
    float value;
    int index;
} float_int_t;

typedef struct two_int {
    int value, index;
} two_int_t;

/* Writes a number as a type of MPI. Of pairs many have the same value. */
static void put(MPI_Datatype type, void *numbers, int at, int value)
{
    if (type == MPI_INT)
        ((int *)numbers)[at] = value;
    else if (type == MPI_LONG)
        ((long *)numbers)[at] = value;
    else if (type == MPI_UNSIGNED)
        ((unsigned *)numbers)[at] = (unsigned)value;
    else if (type == MPI_UINT64_T)
        ((uint64_t *)numbers)[at] = (uint64_t)value;
    else if (type == MPI_FLOAT)
        ((float *)numbers)[at] = (float)value;
    else if (type == MPI_DOUBLE)
        ((double *)numbers)[at] = value;
    else if (type == MPI_SHORT)
        ((short *)numbers)[at] = (short)value;
    else if (type == MPI_FLOAT_INT)
        ((float_int_t *)numbers)[at] = (float_int_t){(float)(value % 3) / 2, value};
    else if (type == MPI_2INT)
        ((two_int_t *)numbers)[at] = (two_int_t){value % 3, value};
    else
        CHECK(!"a type");
}

static void fill(MPI_Datatype type, void *numbers, int count, unsigned round, int rank)
{
    for (int at = 0; at < count; at++)
        put(type, numbers, at, number(round, rank, at));
}

/* What all ranks together make, by MPI's own operator. */
static void *expected(MPI_Datatype type, MPI_Op op, int count, unsigned round, int ranks)
{
    char *sum = room(count * 8), *more = room(count * 8);

    /* In the order of ranks, which an operator that does not commute needs. */
    fill(type, sum, count, round, ranks - 1);
    for (int rank = ranks - 2; rank >= 0; rank--) {
        fill(type, more, count, round, rank);
        OK(MPI_Reduce_local(more, sum, count, type, op));
    }
    free(more);
    return sum;
}

static void reductions(MPI_Comm comm, MPI_Datatype type, MPI_Op op, int count)
{
    const unsigned round = rounds++;
    int rank, ranks, size, root;
    MPI_Request request;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    MPI_Type_size(type, &size);
    root = (int)(round % (unsigned)ranks);
    void *mine = room(count * 8), *found = room(count * 8);
    void *wanted = expected(type, op, count, round, ranks);
    const size_t bytes = (size_t)count * (size_t)size;

    fill(type, mine, count, round, rank);
    OK(MPI_Allreduce(mine, found, count, type, op, comm));
    CHECK(memcmp(found, wanted, bytes) == 0);
    memcpy(found, mine, bytes);
    OK(MPI_Allreduce(MPI_IN_PLACE, found, count, type, op, comm));
    CHECK(memcmp(found, wanted, bytes) == 0);
    memset(found, 0, bytes);
    OK(MPI_Reduce(mine, found, count, type, op, root, comm));
    CHECK(rank != root || memcmp(found, wanted, bytes) == 0);
    memcpy(found, mine, bytes);
    OK(MPI_Reduce(rank == root ? MPI_IN_PLACE : found, rank == root ? found : NULL, count, type, op,
                  root, comm));
    CHECK(rank != root || memcmp(found, wanted, bytes) == 0);
    memset(found, 0, bytes);
    OK(MPI_Iallreduce(mine, found, count, type, op, comm, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(memcmp(found, wanted, bytes) == 0);
    memset(found, 0, bytes);
    OK(MPI_Ireduce(mine, found, count, type, op, root, comm, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(rank != root || memcmp(found, wanted, bytes) == 0);
    free(mine);
    free(found);
    free(wanted);
}

/* Pairs with bytes in between. Most have the same value on all ranks: then the lowest index counts. */
static void places(MPI_Comm comm, MPI_Op op)
{
    enum { COUNT = 5 };
    int rank, ranks;
    MPI_Request request;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    const int root = ranks - 1, lowest = 101 - ranks, of_rank = op == MPI_MINLOC ? 100 : lowest;
#define PLACES(value_t, type)                                                                      \
    do {                                                                                           \
        struct {                                                                                   \
            value_t value;                                                                         \
            int index;                                                                             \
        } mine[COUNT], found[COUNT];                                                               \
        for (int at = 0; at < COUNT; at++) {                                                       \
            mine[at].value = (value_t)(at - 2);                                                    \
            mine[at].index = 100 - rank;                                                           \
        }                                                                                          \
        OK(MPI_Iallreduce(mine, found, COUNT, type, op, comm, &request));                          \
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));                                                 \
        for (int at = 0; at < COUNT; at++)                                                         \
            CHECK(found[at].value == (value_t)(at - 2) && found[at].index == lowest);              \
        mine[0].value = (value_t)rank;                                                             \
        OK(MPI_Reduce(rank == root ? MPI_IN_PLACE : mine, rank == root ? mine : NULL, COUNT, type, \
                      op, root, comm));                                                            \
        CHECK(rank != root || (mine[0].index == of_rank && mine[1].index == lowest));              \
    } while (0)
    PLACES(double, MPI_DOUBLE_INT);
    PLACES(long, MPI_LONG_INT);
    PLACES(short, MPI_SHORT_INT);
#undef PLACES
}

static void copies(MPI_Comm comm, int count)
{
    const unsigned round = rounds++;
    int rank, ranks, root;
    MPI_Request request;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    root = (int)(round % (unsigned)ranks);
    int *mine = room(count * 4), *all = room(count * 4 * ranks), *wanted = room(count * 4 * ranks);

    for (int from = 0; from < ranks; from++)
        fill(MPI_INT, wanted + (size_t)from * (size_t)count, count, round, from);
    const int *of_root = wanted + (size_t)root * (size_t)count;
    const size_t bytes = (size_t)count * 4;

    fill(MPI_INT, mine, count, round, rank);
    OK(MPI_Allgather(mine, count, MPI_INT, all, count, MPI_INT, comm));
    CHECK(memcmp(all, wanted, bytes * (size_t)ranks) == 0);
    memset(all, 0, bytes * (size_t)ranks);
    memcpy(all + (size_t)rank * (size_t)count, mine, bytes);
    OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, count, MPI_INT, comm));
    CHECK(memcmp(all, wanted, bytes * (size_t)ranks) == 0);
    memset(all, 0, bytes * (size_t)ranks);
    OK(MPI_Iallgather(mine, count, MPI_INT, all, count, MPI_INT, comm, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(memcmp(all, wanted, bytes * (size_t)ranks) == 0);
    OK(MPI_Bcast(mine, count, MPI_INT, root, comm));
    CHECK(memcmp(mine, of_root, bytes) == 0);
    fill(MPI_INT, mine, count, round, rank);
    OK(MPI_Ibcast(mine, count, MPI_INT, root, comm, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(memcmp(mine, of_root, bytes) == 0);
    free(mine);
    free(all);
    free(wanted);
}

/* A column of a matrix, which is not contiguous, and a type of the same signature that is. Ranks
 * use one or the other, as MPI allows. */
static void derived_types(MPI_Comm comm)
{
    enum { ROWS = 37, COLUMNS = 5 };
    const unsigned round = rounds++;
    int rank, ranks, matrix[ROWS][COLUMNS], column[ROWS];
    MPI_Datatype strided, resized, packed;
    MPI_Request request;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &strided);
    MPI_Type_create_resized(strided, 0, sizeof(int), &resized);
    MPI_Type_contiguous(ROWS, MPI_INT, &packed);
    MPI_Type_commit(&strided);
    MPI_Type_commit(&resized);
    MPI_Type_commit(&packed);
    for (int blocking = 0; blocking < 2; blocking++) {
        memset(matrix, -1, sizeof matrix);
        fill(MPI_INT, column, ROWS, round, rank);
        for (int row = 0; row < ROWS; row++)
            matrix[row][2] = column[row];
        int uses_column = rank % 2 == 0;
        void *buffer = uses_column ? (void *)&matrix[0][2] : (void *)column;
        MPI_Datatype type = uses_column ? strided : packed;
        if (blocking)
            OK(MPI_Bcast(buffer, 1, type, 1, comm));
        else {
            OK(MPI_Ibcast(buffer, 1, type, 1, comm, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        for (int row = 0; row < ROWS; row++) {
            int found = uses_column ? matrix[row][2] : column[row];
            CHECK(found == number(round, 1, row));
            CHECK(!uses_column || (matrix[row][1] == -1 && matrix[row][3] == -1));
        }
    }
    /* Each rank's column becomes a column of all matrices. */
    int *gathered = room(ROWS * ranks * 4);
    MPI_Datatype of_all, spread;
    MPI_Type_vector(ROWS, 1, ranks, MPI_INT, &of_all);
    MPI_Type_create_resized(of_all, 0, sizeof(int), &spread);
    MPI_Type_commit(&spread);
    fill(MPI_INT, column, ROWS, round, rank);
    OK(MPI_Allgather(column, 1, packed, gathered, 1, spread, comm));
    for (int row = 0; row < ROWS; row++)
        for (int from = 0; from < ranks; from++)
            CHECK(gathered[row * ranks + from] == number(round, from, row));
    for (int row = 0; row < ROWS; row++)
        for (int from = 0; from < ranks; from++)
            if (from != rank)
                gathered[row * ranks + from] = -1;
    OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, gathered, 1, spread, comm));
    for (int row = 0; row < ROWS; row++)
        for (int from = 0; from < ranks; from++)
            CHECK(gathered[row * ranks + from] == number(round, from, row));
    free(gathered);
    MPI_Type_free(&strided);
    MPI_Type_free(&resized);
    MPI_Type_free(&packed);
    MPI_Type_free(&of_all);
    MPI_Type_free(&spread);
}

/* The later argument wins: associative, and does not commute. */
static void last(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)in;
    (void)inout;
    (void)count;
    (void)type;
}

/* Many operations are under way at once, more than the component hands on at once, and end while
 * the program does other things. */
static void overlap(MPI_Comm comm)
{
    enum { MANY = 100 };
    static long mine[MANY], sums[MANY], copies_of[MANY];
    MPI_Request requests[3 * MANY];
    int rank, ranks, done = 0;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    for (int at = 0; at < MANY; at++) {
        mine[at] = at * (rank + 1);
        copies_of[at] = rank == at % ranks ? at : -1;
        OK(MPI_Iallreduce(&mine[at], &sums[at], 1, MPI_LONG, MPI_SUM, comm, &requests[3 * at]));
        OK(MPI_Ibcast(&copies_of[at], 1, MPI_LONG, at % ranks, comm, &requests[3 * at + 1]));
        OK(MPI_Ibarrier(comm, &requests[3 * at + 2]));
    }
    while (!done)
        OK(MPI_Testall(3 * MANY, requests, &done, MPI_STATUSES_IGNORE));
    for (int at = 0; at < MANY; at++) {
        CHECK(sums[at] == (long)at * ranks * (ranks + 1) / 2);
        CHECK(copies_of[at] == at);
    }
    OK(MPI_Barrier(comm));
}

/* A message that needs its sender to go on, while the sender waits in a barrier. */
static void messages_go_on(MPI_Comm comm)
{
    enum { BYTES = 8 << 20 };
    int rank;
    char *bytes = room(BYTES);
    MPI_Request request = MPI_REQUEST_NULL;

    MPI_Comm_rank(comm, &rank);
    if (rank == 0)
        OK(MPI_Isend(bytes, BYTES, MPI_BYTE, 1, 7, comm, &request));
    if (rank == 1)
        OK(MPI_Recv(bytes, BYTES, MPI_BYTE, 0, 7, comm, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(comm));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    /* A call that must not wait for others does not, though the others need it to return. */
    OK(MPI_Ibarrier(comm, &request));
    if (rank == 0)
        OK(MPI_Send(bytes, 1, MPI_BYTE, 1, 8, comm));
    if (rank == 1)
        OK(MPI_Recv(bytes, 1, MPI_BYTE, 0, 8, comm, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    free(bytes);
}

static void everything(MPI_Comm comm)
{
    const MPI_Datatype types[] = {MPI_INT,      MPI_LONG,  MPI_UNSIGNED,
                                  MPI_UINT64_T, MPI_FLOAT, MPI_DOUBLE};
    MPI_Op last_op;

    for (unsigned type = 0; type < sizeof types / sizeof *types; type++) {
        reductions(comm, types[type], MPI_SUM, 1 + (int)type * 7);
        reductions(comm, types[type], MPI_MIN, 3);
        reductions(comm, types[type], MPI_MAX, 100);
        if (types[type] != MPI_FLOAT && types[type] != MPI_DOUBLE) {
            reductions(comm, types[type], MPI_BAND, 5);
            reductions(comm, types[type], MPI_BOR, 5);
            reductions(comm, types[type], MPI_BXOR, 5);
            reductions(comm, types[type], MPI_LAND, 4);
            reductions(comm, types[type], MPI_LOR, 4);
            reductions(comm, types[type], MPI_LXOR, 4);
        }
    }
    reductions(comm, MPI_UNSIGNED, MPI_PROD, 6);
    reductions(comm, MPI_UINT64_T, MPI_PROD, 6);
    for (int count = 1; count < 300; count += 60) {
        reductions(comm, MPI_FLOAT_INT, MPI_MINLOC, count);
        reductions(comm, MPI_FLOAT_INT, MPI_MAXLOC, count);
        reductions(comm, MPI_2INT, MPI_MINLOC, count);
        reductions(comm, MPI_2INT, MPI_MAXLOC, count);
    }
    places(comm, MPI_MINLOC);
    places(comm, MPI_MAXLOC);
    /* What Fabricast does not know. */
    reductions(comm, MPI_SHORT, MPI_SUM, 9);
    MPI_Op_create(last, 0, &last_op);
    reductions(comm, MPI_INT, last_op, 3);
    MPI_Op_free(&last_op);
    copies(comm, 1);
    copies(comm, 1000);
    derived_types(comm);
    OK(MPI_Barrier(comm));
    messages_go_on(comm);
}

/* A broadcast of more parts than the component hands on at once, from the last rank. */
static void long_broadcast(MPI_Comm comm)
{
    enum { COUNT = (9 << 18) + 1 };
    const unsigned round = rounds++;
    int rank, ranks, *found = room(COUNT * 4), *wanted = room(COUNT * 4);

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    fill(MPI_INT, wanted, COUNT, round, ranks - 1);
    if (rank == ranks - 1)
        memcpy(found, wanted, COUNT * sizeof *found);
    OK(MPI_Bcast(found, COUNT, MPI_INT, ranks - 1, comm));
    CHECK(memcmp(found, wanted, COUNT * sizeof *found) == 0);
    free(found);
    free(wanted);
}

/* A reduction and a copy above the limit of the library, and of nothing. */
static void sizes(MPI_Comm comm)
{
    long_broadcast(comm);
    reductions(comm, MPI_LONG, MPI_SUM, 140001);
    reductions(comm, MPI_DOUBLE, MPI_SUM, 40001);
    copies(comm, 270001);
    reductions(comm, MPI_INT, MPI_SUM, 0);
    copies(comm, 0);
}

/* Rows and columns of the ranks, a copy, and one across two communicators, which is left alone. */
static void communicators(void)
{
    int rank, ranks, width = 2, sum = 0;
    MPI_Comm rows, columns, copy, between;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_split(MPI_COMM_WORLD, rank / width, -rank, &rows);
    MPI_Comm_split(MPI_COMM_WORLD, rank % width, rank, &columns);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    for (int turn = 0; turn < 3; turn++) {
        reductions(rows, MPI_INT, MPI_SUM, 4);
        reductions(columns, MPI_DOUBLE, MPI_MAX, 4);
        copies(copy, 3);
        copies(rows, 5);
    }
    OK(MPI_Intercomm_create(columns, 0, MPI_COMM_WORLD, rank % width == 0 ? 1 : 0, 9, &between));
    OK(MPI_Allreduce(&ranks, &sum, 1, MPI_INT, MPI_SUM, between));
    CHECK(sum == ranks * (ranks / 2 + (rank % width == 1 ? ranks % 2 : 0)));
    MPI_Comm_free(&between);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&columns);
    MPI_Comm_free(&rows);
}

/* An operation that ends after its communicator. */
static void outlive(void)
{
    MPI_Comm copy;
    MPI_Request request;

    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    for (int turn = 0; turn < 10; turn++)
        OK(MPI_Barrier(copy));
    OK(MPI_Ibarrier(copy, &request));
    MPI_Comm_free(&copy);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    everything(MPI_COMM_WORLD);
    sizes(MPI_COMM_WORLD);
    communicators();
    overlap(MPI_COMM_WORLD);
    if (argc > 1) /* "outlive": not with Open MPI's own, which crashes */
        outlive();
    finish();
    return 0;
}
