/* Every line that a process reads goes to all members of the group; what the others send, and who
 * comes and goes, is printed.
 *
 *     cc chat.c $(pkg-config --cflags --libs fabricast) -o chat
 *     FABRICAST_SOCKET=agent.sock FABRICAST_NODE=node001 ./chat rows/3
 */
#include <fabricast.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Ends the program if a function has failed. */
#define CHECK(call)                                                                                \
    do {                                                                                           \
        if ((call) != FABRICAST_OK) {                                                              \
            fprintf(stderr, "%s\n", fabricast_error_text());                                       \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

/* Both functions run on threads of the library; printf may be called from any. */

static void on_message(const fabricast_message *message, fabricast_code code, void *context)
{
    (void)context;
    if (code != FABRICAST_OK)
        fprintf(stderr, "no more messages: %s\n", fabricast_error_text());
    else
        printf("[%" PRIu32 "] %.*s\n", message->sender, (int)message->length,
               (const char *)message->payload);
    fflush(stdout);
}

static void on_members(const fabricast_member_list *members, fabricast_code code, void *context)
{
    (void)context;
    if (code != FABRICAST_OK)
        return;
    printf("here are:");
    for (size_t at = 0; at < members->count; at++)
        printf(" %" PRIu32 " on %s", members->members[at].rank, members->members[at].node);
    printf("\n");
    fflush(stdout);
}

int main(int count, char **arguments)
{
    fabricast_client *client;
    fabricast_group *group;
    char line[1024];

    if (count != 2) {
        fprintf(stderr, "usage: chat GROUP\n");
        return 2;
    }
    CHECK(fabricast_attach(NULL, NULL, NULL, &client));
    CHECK(fabricast_join(client, arguments[1], &group));
    CHECK(fabricast_on_message(group, on_message, NULL));
    CHECK(fabricast_on_members(group, on_members, NULL));
    while (fgets(line, sizeof line, stdin) != NULL)
        CHECK(fabricast_multicast(group, line, strcspn(line, "\n"), NULL));
    CHECK(fabricast_leave(group));
    fabricast_group_free(group);
    fabricast_client_free(client);
    return 0;
}
