/* The agent is killed while calls wait in every way: each ends with its code, and so do later ones.
 * Another member takes part and never calls an operation. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

static fabricast_client *client;
static fabricast_group *group;
static fabricast_watch *watch;
static atomic_int of_messages, of_members;

static void on_message(const fabricast_message *message, fabricast_code code, void *context)
{
    CHECK(message == NULL && context == NULL);
    SAYS("not attached any more");
    atomic_store(&of_messages, (int)code);
}

static void on_members(const fabricast_member_list *members, fabricast_code code, void *context)
{
    CHECK(context == NULL);
    if (members == NULL)
        atomic_store(&of_members, (int)code);
}

static void *receive(void *context)
{
    fabricast_message *message;

    IS(FABRICAST_DETACHED, fabricast_receive(group, -1, &message));
    CHECK(message == NULL);
    return context;
}

static void *see(void *context)
{
    fabricast_member_list *members;
    fabricast_code code;

    while ((code = fabricast_watch_next(watch, -1, &members)) == FABRICAST_OK)
        fabricast_member_list_free(members);
    CHECK(code == FABRICAST_DETACHED);
    return context;
}

static void *await(void *context)
{
    IS(FABRICAST_DETACHED, fabricast_wait_for(group, 9, -1));
    return context;
}

int main(void)
{
    pthread_t threads[3];
    fabricast_request *first, *second, *more;
    fabricast_group *other;

    OK(fabricast_attach(NULL, NULL, NULL, &client));
    OK(fabricast_join(client, "g", &group));
    OK(fabricast_wait_for(group, 2, -1));
    OK(fabricast_watch_members(group, &watch));
    OK(fabricast_on_members(group, on_members, NULL));
    OK(fabricast_on_message(group, on_message, NULL));
    OK(fabricast_start_barrier(group, &first));
    OK(fabricast_start_barrier(group, &second));
    CHECK(pthread_create(&threads[0], NULL, receive, NULL) == 0);
    CHECK(pthread_create(&threads[1], NULL, see, NULL) == 0);
    CHECK(pthread_create(&threads[2], NULL, await, NULL) == 0);
    IS(FABRICAST_TIMEOUT, fabricast_request_wait(first, 1));
    /* Freed ones count until they have ended. */
    for (int left = 1024 - 2; left > 0; left--) {
        OK(fabricast_start_barrier(group, &more));
        fabricast_request_free(more);
    }
    IS(FABRICAST_BUSY, fabricast_start_barrier(group, &more));
    CHECK(more == NULL);
    tell("waiting");

    IS(FABRICAST_DETACHED, fabricast_barrier(group));
    IS(FABRICAST_DETACHED, fabricast_request_wait(second, -1));
    IS(FABRICAST_DETACHED, fabricast_request_wait(first, 0));
    IS(FABRICAST_DETACHED, fabricast_wait_detached(client, -1));
    SAYS("not attached any more");
    for (size_t at = 0; at < 3; at++)
        CHECK(pthread_join(threads[at], NULL) == 0);
    /* What comes later writes to a connection that is gone, which ends nothing. */
    for (int times = 0; times < 3; times++) {
        IS(FABRICAST_DETACHED, fabricast_multicast(group, "x", 1, NULL));
        IS(FABRICAST_DETACHED, fabricast_barrier(group));
        IS(FABRICAST_DETACHED, fabricast_join(client, "other", &other));
        IS(FABRICAST_DETACHED, fabricast_leave(group));
    }
    while (atomic_load(&of_messages) == 0 || atomic_load(&of_members) == 0)
        IS(FABRICAST_DETACHED, fabricast_wait_detached(client, 1));
    CHECK(atomic_load(&of_messages) == FABRICAST_DETACHED);
    CHECK(atomic_load(&of_members) == FABRICAST_DETACHED);
    fabricast_request_free(first);
    fabricast_request_free(second);
    fabricast_watch_free(watch);
    fabricast_group_free(group);
    fabricast_client_free(client);
    tell("ok");
    return 0;
}
