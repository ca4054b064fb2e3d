/* The ranks of a job find their group through PMIx, and add up their ranks twice: in the group, and
 * by what they know of each other.
 *
 *     cc sum.c $(pkg-config --cflags --libs fabricast_pmix) -o sum
 *     srun --mpi=pmix --fabricast -N4 -n8 ./sum
 */
#include <fabricast_pmix.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    uint32_t size = fabricast_pmix_size(), *members = calloc(size, sizeof *members), rank = 0;
    fabricast_client *client = NULL;
    fabricast_group *group;
    int64_t sum, expected = 0;

    if (size == 0 || members == NULL) {
        fprintf(stderr, "%s\n", fabricast_pmix_error_text());
        return 1;
    }
    /* A rank that cannot attach tells the others all the same: they would wait for it. */
    if (fabricast_pmix_attach(NULL, NULL, &client) != FABRICAST_OK)
        fprintf(stderr, "attach: %s\n", fabricast_pmix_error_text());
    if (fabricast_pmix_join(client, NULL, &group, members) != FABRICAST_OK) {
        fprintf(stderr, "%s\n", fabricast_pmix_error_text());
        return 1;
    }
    for (uint32_t at = 0; at < size; at++) {
        expected += members[at];
        if (members[at] == fabricast_group_rank(group))
            rank = at;
    }
    sum = fabricast_group_rank(group);
    if (fabricast_wait_for(group, size, -1) != FABRICAST_OK ||
        fabricast_all_reduce(group, FABRICAST_SUM, FABRICAST_INT64, &sum, &sum, 1) !=
            FABRICAST_OK) {
        fprintf(stderr, "%s\n", fabricast_error_text());
        return 1;
    }
    printf("rank %" PRIu32 " of %" PRIu32 " on %s in %s: %s\n", rank, size,
           fabricast_client_node(client), fabricast_group_name(group),
           sum == expected ? "the sums agree" : "the sums differ");
    if (fabricast_pmix_leave(group) != FABRICAST_OK)
        fprintf(stderr, "%s\n", fabricast_pmix_error_text());
    fabricast_client_free(client);
    free(members);
    return sum == expected ? 0 : 1;
}
