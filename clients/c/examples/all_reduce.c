/* Every process waits for all others at a barrier and adds up the ranks with them.
 *
 *     cc all_reduce.c $(pkg-config --cflags --libs fabricast) -o all_reduce
 *     fabricast run -n 4 --label -- ./all_reduce
 */
#include <fabricast.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program if a function has failed. */
static void check(fabricast_code code, const char *what)
{
    if (code == FABRICAST_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, fabricast_error_text());
    exit(1);
}

int main(void)
{
    const char *name = getenv("FABRICAST_GROUP"), *size = getenv("FABRICAST_SIZE");
    fabricast_client *client;
    fabricast_group *group;
    int64_t sum;

    if (name == NULL || size == NULL) {
        fprintf(stderr, "start it with `fabricast run`\n");
        return 2;
    }
    check(fabricast_attach(NULL, NULL, NULL, &client), "attach");
    check(fabricast_join(client, name, &group), "join");
    check(fabricast_wait_for(group, strtoul(size, NULL, 10), -1), "wait for the others");

    check(fabricast_barrier(group), "barrier");
    sum = fabricast_group_rank(group);
    check(fabricast_all_reduce(group, FABRICAST_SUM, FABRICAST_INT64, &sum, &sum, 1), "all-reduce");
    printf("I am %" PRIu32 " on %s, the sum is %" PRId64 "\n", fabricast_group_rank(group),
           fabricast_client_node(client), sum);

    /* Nobody goes while another still needs it. */
    check(fabricast_barrier(group), "barrier");
    fabricast_group_free(group);
    fabricast_client_free(client);
    return 0;
}
