/* The measurements of clients/rust/examples/figures.rs, in MPI. */
#include <mpi.h>
#include <stdio.h>

static int rank, size;

static void say(const char *what, double begun, int rounds) {
    if (rank == 0)
        printf("figure openmpi/%s %.1f us\n", what, (MPI_Wtime() - begun) / rounds * 1e6);
}

static void all_reduce(const char *what, int count, int rounds) {
    static long mine[131072], sum[131072];
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    for (int i = 0; i < rounds; i++)
        MPI_Allreduce(mine, sum, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    say(what, begun, rounds);
}

int main(int argc, char **argv) {
    static char payload[1 << 20];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int rounds = 2000 / size < 8 ? 8 : 2000 / size > 200 ? 200 : 2000 / size;
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    for (int i = 0; i < rounds; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    say("barrier", begun, rounds);
    all_reduce("all_reduce_8_bytes", 1, rounds);
    all_reduce("all_reduce_2_KiB", 256, rounds);
    /* The source of a reliable multicast knows that all have it: so does this one after the barrier. */
    begun = MPI_Wtime();
    for (int i = 0; i < rounds; i++) {
        MPI_Bcast(payload, 8, MPI_BYTE, 0, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    say("multicast_8_bytes", begun, rounds);
    int few = 100 / size < 3 ? 3 : 100 / size > 25 ? 25 : 100 / size;
    all_reduce("all_reduce_1_MiB", 131072, few);
    MPI_Barrier(MPI_COMM_WORLD);
    begun = MPI_Wtime();
    for (int i = 0; i < few; i++) {
        MPI_Bcast(payload, 1 << 20, MPI_BYTE, 0, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    say("multicast_1_MiB", begun, few);
    int count = 8000 / size < 64 ? 64 : 8000 / size > 1000 ? 1000 : 8000 / size;
    begun = MPI_Wtime();
    for (int i = 0; i < count; i++)
        MPI_Bcast(payload, 2048, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    say("throughput_2_KiB", begun, count);
    MPI_Finalize();
    return 0;
}
