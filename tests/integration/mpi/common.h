/* What the programs for MPI have in common: a condition that does not hold ends all ranks. */
#ifndef COMMON_H
#define COMMON_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)

#define OK(call) CHECK((call) == MPI_SUCCESS)

static inline void *room(int bytes)
{
    void *bytes_of = calloc(1, bytes > 0 ? (size_t)bytes : 1);

    CHECK(bytes_of != NULL);
    return bytes_of;
}

/* Ends MPI; rank 0 says that all went well. */
static inline void finish(void)
{
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Finalize();
    if (rank == 0)
        puts("ok");
}

#endif
