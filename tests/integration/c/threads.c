/* Threads of two processes use one handle at once: operations, messages, requests, lists, callbacks,
 * and handles that come and go. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 12, REQUESTS = 3 };

static fabricast_client *client;
static fabricast_group *group;
static atomic_uint heard;

static void *operations(void *context)
{
    fabricast_request *requests[REQUESTS];
    int64_t one = 1, sums[REQUESTS];

    /* Which thread's operation comes first is open, and so all are the same. */
    for (int round = 0; round < ROUNDS; round++) {
        OK(fabricast_all_reduce(group, FABRICAST_SUM, FABRICAST_INT64, &one, &sums[0], 1));
        CHECK(sums[0] == 2);
        for (int at = 0; at < REQUESTS; at++)
            OK(fabricast_start_all_reduce(group, FABRICAST_SUM, FABRICAST_INT64, &one, &sums[at],
                                          1, &requests[at]));
        for (int at = REQUESTS - 1; at >= 0; at--) {
            OK(fabricast_request_wait(requests[at], -1));
            CHECK(sums[at] == 2);
            fabricast_request_free(requests[at]);
        }
    }
    return context;
}

static void *sends(void *context)
{
    for (int round = 0; round < ROUNDS; round++)
        OK(fabricast_multicast(group, &round, sizeof round, NULL));
    return context;
}

static void *receives(void *context)
{
    fabricast_message *message;

    while (atomic_load(&heard) < THREADS * ROUNDS) {
        fabricast_code code = fabricast_receive(group, 10, &message);
        if (code == FABRICAST_TIMEOUT)
            continue;
        OK(code);
        atomic_fetch_add(&heard, 1);
        fabricast_message_free(message);
    }
    return context;
}

static void on_message(const fabricast_message *message, fabricast_code code, void *context)
{
    CHECK(code == FABRICAST_OK && message->length == sizeof(int));
    atomic_fetch_add((atomic_uint *)context, 1);
}

static void on_members(const fabricast_member_list *members, fabricast_code code, void *context)
{
    CHECK(code == FABRICAST_OK && members->count == 2);
    atomic_fetch_add((atomic_uint *)context, 1);
}

static void *comes_and_goes(void *context)
{
    fabricast_member_list *members;
    fabricast_watch *watch;
    fabricast_group *other;
    atomic_uint seen = 0;

    for (int round = 0; round < ROUNDS; round++) {
        OK(fabricast_on_message(group, on_message, &heard));
        OK(fabricast_on_members(group, on_members, &seen));
        OK(fabricast_members(group, &members));
        CHECK(members->count == 2);
        fabricast_member_list_free(members);
        OK(fabricast_watch_members(group, &watch));
        OK(fabricast_watch_next(watch, -1, &members));
        fabricast_member_list_free(members);
        fabricast_watch_free(watch);
        OK(fabricast_join(client, fabricast_group_name(group), &other));
        fabricast_group_free(other);
        IS(FABRICAST_INVALID_ARGUMENT, fabricast_barrier(NULL));
        SAYS("group is NULL"); /* whatever fails in other threads */
        OK(fabricast_on_message(group, NULL, NULL));
        OK(fabricast_on_members(group, NULL, NULL));
        CHECK(atomic_load(&seen) <= 2 * (unsigned)round + 2); /* not called after that */
    }
    return context;
}

static atomic_uint waits, replaced;

/* Two functions that replace each other: none waits for the other. */
static void replaces_members(const fabricast_message *message, fabricast_code code, void *context)
{
    CHECK(code == FABRICAST_OK && message->length == 2 && context == NULL);
    OK(fabricast_on_members(group, NULL, NULL));
    atomic_fetch_add(&replaced, 1);
}

static void replaces_messages(const fabricast_member_list *members, fabricast_code code,
                              void *context)
{
    CHECK(code == FABRICAST_OK && members->count == 2 && context == NULL);
    atomic_store(&waits, 1);
    while (atomic_load(&replaced) == 0)
        IS(FABRICAST_TIMEOUT, fabricast_wait_detached(client, 1));
    OK(fabricast_on_message(group, NULL, NULL));
    atomic_fetch_add(&replaced, 1);
}

static void replacing(void)
{
    OK(fabricast_on_members(group, replaces_messages, NULL));
    while (atomic_load(&waits) == 0)
        IS(FABRICAST_TIMEOUT, fabricast_wait_detached(client, 1));
    OK(fabricast_on_message(group, replaces_members, NULL));
    OK(fabricast_barrier(group));
    OK(fabricast_multicast(group, "go", 2, NULL));
    while (atomic_load(&replaced) < 2)
        IS(FABRICAST_TIMEOUT, fabricast_wait_detached(client, 1));
    OK(fabricast_barrier(group));
}

/* Frees the group from its own callback. */
static void frees(const fabricast_message *message, fabricast_code code, void *context)
{
    CHECK(code == FABRICAST_OK && message->length == 3);
    fabricast_group_free(group);
    atomic_fetch_add((atomic_uint *)context, 1);
}

/* Uses the group, which is freed meanwhile. */
static void uses(const fabricast_member_list *members, fabricast_code code, void *context)
{
    fabricast_member_list *again;

    CHECK(code == FABRICAST_OK && members->count >= 1); /* the other may have ended */
    atomic_fetch_add((atomic_uint *)context, 1);
    OK(fabricast_members(group, &again));
    fabricast_member_list_free(again);
    OK(fabricast_on_message(group, NULL, NULL));
    atomic_fetch_add((atomic_uint *)context, 1);
}

int main(void)
{
    pthread_t threads[3 * THREADS + 1];
    size_t count = 0;
    fabricast_message *message;
    atomic_uint freed = 0, used = 0;

    OK(fabricast_attach(NULL, NULL, NULL, &client));
    OK(fabricast_join(client, getenv("FABRICAST_GROUP"), &group));
    OK(fabricast_wait_for(group, 2, -1));
    for (int at = 0; at < THREADS; at++) {
        CHECK(pthread_create(&threads[count++], NULL, operations, NULL) == 0);
        CHECK(pthread_create(&threads[count++], NULL, sends, NULL) == 0);
        CHECK(pthread_create(&threads[count++], NULL, receives, NULL) == 0);
    }
    CHECK(pthread_create(&threads[count++], NULL, comes_and_goes, NULL) == 0);
    while (count > 0)
        CHECK(pthread_join(threads[--count], NULL) == 0);
    CHECK(atomic_load(&heard) == THREADS * ROUNDS);
    replacing();

    if (fabricast_group_rank(group) == 0) {
        OK(fabricast_on_message(group, frees, &freed));
        OK(fabricast_barrier(group));
        while (atomic_load(&freed) == 0)
            IS(FABRICAST_TIMEOUT, fabricast_wait_detached(client, 1));
    } else {
        OK(fabricast_barrier(group));
        OK(fabricast_multicast(group, "end", 3, NULL));
        IS(FABRICAST_TIMEOUT, fabricast_receive(group, 0, &message));
        OK(fabricast_on_members(group, uses, &used));
        while (atomic_load(&used) == 0)
            IS(FABRICAST_TIMEOUT, fabricast_wait_detached(client, 1));
        fabricast_group_free(group);
        CHECK(atomic_load(&used) % 2 == 0); /* none is inside */
    }
    fabricast_client_free(client);
    tell("ok");
    return 0;
}
