/* Everything that three processes can do with each other. The last by rank leaves before the
 * others. */
#include "check.h"

#include <stdatomic.h>

enum { PROCESSES = 3, MESSAGES = 40 };

static fabricast_client *client;
static fabricast_group *group;
static uint32_t rank;

static void members(fabricast_watch **watch)
{
    fabricast_member_list *list;
    uint32_t ranks[PROCESSES];
    size_t count;

    OK(fabricast_members(group, &list));
    CHECK(list->count == PROCESSES);
    for (uint32_t at = 0; at < PROCESSES; at++)
        CHECK(list->members[at].rank == at);
    CHECK(strcmp(list->members[rank].node, getenv("FABRICAST_NODE")) == 0);
    CHECK(strncmp(list->members[rank].process, "pid-", 4) == 0);
    fabricast_member_list_free(list);

    OK(fabricast_participants(group, ranks, PROCESSES, &count));
    CHECK(count == PROCESSES && ranks[0] == 0 && ranks[1] == 1 && ranks[2] == 2);

    OK(fabricast_watch_members(group, watch));
    OK(fabricast_watch_next(*watch, -1, &list));
    CHECK(list->count == PROCESSES);
    fabricast_member_list_free(list);
    IS(FABRICAST_TIMEOUT, fabricast_watch_next(*watch, 0, &list));
    CHECK(list == NULL);
}

static void every_type(void)
{
    int32_t i32[2] = {-5, INT32_MAX}, i32s[2];
    int64_t i64 = rank == 1 ? INT64_MIN : (int64_t)rank, i64s = 0;
    uint32_t u32 = 1U << rank, u32s = 0;
    uint64_t u64 = rank == 0 ? UINT64_MAX : 6, u64s = 0;
    float f32 = 0.5F;
    double f64 = 1.0 / (rank + 1), f64s = 0;
    char bytes[16] = {0};

    OK(fabricast_all_reduce(group, FABRICAST_SUM, FABRICAST_INT32, i32, i32s, 2));
    CHECK(i32s[0] == -15 && i32s[1] == INT32_MAX - 2); /* wraps around */
    OK(fabricast_all_reduce(group, FABRICAST_MIN, FABRICAST_INT64, &i64, &i64s, 1));
    CHECK(i64s == INT64_MIN);
    OK(fabricast_all_reduce(group, FABRICAST_OR, FABRICAST_UINT32, &u32, &u32s, 1));
    CHECK(u32s == 7);
    OK(fabricast_all_reduce(group, FABRICAST_AND, FABRICAST_UINT64, &u64, &u64s, 1));
    CHECK(u64s == 6);
    OK(fabricast_all_reduce(group, FABRICAST_SUM, FABRICAST_FLOAT, &f32, &f32, 1));
    CHECK(f32 == 1.5F);
    OK(fabricast_all_reduce(group, FABRICAST_MAX, FABRICAST_DOUBLE, &f64, &f64s, 1));
    CHECK(f64s == 1.0);
    /* At an odd address, in place. */
    memcpy(bytes + 1, &u64, sizeof u64);
    OK(fabricast_all_reduce(group, FABRICAST_MAX, FABRICAST_UINT64, bytes + 1, bytes + 1, 1));
    memcpy(&u64s, bytes + 1, sizeof u64s);
    CHECK(u64s == UINT64_MAX && bytes[0] == 0 && bytes[9] == 0);
    OK(fabricast_all_reduce(group, FABRICAST_SUM, FABRICAST_DOUBLE, NULL, NULL, 0));
    const fabricast_reduction more[] = {FABRICAST_PROD, FABRICAST_LAND, FABRICAST_LOR,
                                        FABRICAST_LXOR, FABRICAST_BXOR};
    const int64_t wanted[] = {24, 1, 1, 1, 5};
    for (size_t at = 0; at < 5; at++) {
        int64_t mine = rank + 2, result = 0; /* 2, 3 and 4 */

        OK(fabricast_all_reduce(group, more[at], FABRICAST_INT64, &mine, &result, 1));
        CHECK(result == wanted[at]);
    }
    const double pairs[] = {3 - (int)(rank / 2), rank, 1, rank}; /* 3, 3 and 2, then 1 */
    double places[4] = {0};
    OK(fabricast_all_reduce(group, FABRICAST_MAXLOC, FABRICAST_DOUBLE, pairs, places, 4));
    CHECK(places[0] == 3 && places[1] == 0 && places[2] == 1 && places[3] == 0);
    OK(fabricast_all_reduce(group, FABRICAST_MINLOC, FABRICAST_DOUBLE, pairs, places, 4));
    CHECK(places[0] == 2 && places[1] == 2 && places[2] == 1 && places[3] == 0);
}

static void operations(void)
{
    int64_t mine = rank + 1, result = -1;
    uint32_t block[2] = {rank, rank * 10}, blocks[8], ranks[4];
    char text[6] = "?????";
    size_t count = 0;

    OK(fabricast_barrier(group));
    every_type();
    OK(fabricast_reduce(group, 1, FABRICAST_SUM, FABRICAST_INT64, &mine,
                        rank == 1 ? &result : NULL, 1));
    CHECK(result == (rank == 1 ? 6 : -1));
    OK(fabricast_scan(group, FABRICAST_SUM, FABRICAST_INT64, &mine, &result, 1));
    CHECK(result == mine * (mine + 1) / 2);
    if (rank == 2)
        memcpy(text, "hello", 6);
    OK(fabricast_broadcast(group, 2, text, 6));
    CHECK(strcmp(text, "hello") == 0);
    OK(fabricast_broadcast(group, 0, NULL, 0));
    OK(fabricast_all_gather(group, block, sizeof block, blocks, ranks, 4, &count));
    CHECK(count == PROCESSES);
    for (uint32_t at = 0; at < PROCESSES; at++)
        CHECK(ranks[at] == at && blocks[2 * at] == at && blocks[2 * at + 1] == at * 10);
    OK(fabricast_all_gather(group, block, sizeof block, blocks, NULL, 4, NULL));
    OK(fabricast_all_gather(group, NULL, 0, NULL, NULL, 4, &count));
    CHECK(fabricast_combined_by_switches(group) == 0);
    const char *path = getenv("FABRICAST_PATH");
    CHECK(strcmp(fabricast_path(group), path ? path : "agent") == 0);
}

/* Members that do not agree: each is told, and the group goes on. */
static void disagreement(void)
{
    char text[6] = "other";
    uint32_t blocks[3] = {9, 9, 9};
    size_t count = 0;

    IS(rank == 1 ? FABRICAST_WRONG_LENGTH : FABRICAST_OK,
       fabricast_broadcast(group, 0, text, rank == 1 ? 4 : 6));
    IS(FABRICAST_WRONG_LENGTH,
       fabricast_all_gather(group, blocks, rank == 1 ? 4 : 3, blocks, NULL, 3, &count));
    CHECK(count == PROCESSES && blocks[0] == 9 && blocks[2] == 9);
    IS(FABRICAST_NO_ROOM, fabricast_all_gather(group, blocks, 4, blocks, NULL, 2, &count));
    CHECK(count == PROCESSES && blocks[1] == 9);
    IS(FABRICAST_REFUSED, rank == 1 ? fabricast_barrier(group)
                                    : fabricast_broadcast(group, 0, text, 6));
    CHECK(strcmp(fabricast_error_reason(), "OPERATIONS_DIFFER") == 0);
    OK(fabricast_barrier(group));
}

/* Requests that are waited for in another order than they were started, and one that is freed. */
static void started(void)
{
    fabricast_request *barrier, *reduce, *sum, *scan, *gather, *broadcast, *message;
    int64_t mine = rank, one = 1, total = 0, up_to = 0, reduced = 0;
    uint32_t ranks[3] = {9, 9, 9}, gathered[3];
    size_t count = 0, uncertain = 9;
    int ended = 0;
    char text[3] = "";

    if (rank == 1)
        memcpy(text, "hi", 3);
    OK(fabricast_start_barrier(group, &barrier));
    OK(fabricast_start_all_reduce(group, FABRICAST_SUM, FABRICAST_INT64, &mine, &total, 1, &sum));
    mine = 100; /* what was sent may be reused */
    OK(fabricast_start_scan(group, FABRICAST_SUM, FABRICAST_INT64, &one, &up_to, 1, &scan));
    OK(fabricast_start_reduce(group, 0, FABRICAST_MAX, FABRICAST_INT64, &one, &reduced, 1,
                              &reduce));
    OK(fabricast_start_all_gather(group, &rank, sizeof rank, gathered, ranks, 3, &count, &gather));
    OK(fabricast_start_broadcast(group, 1, text, 3, &broadcast));
    OK(fabricast_request_wait(broadcast, -1));
    CHECK(strcmp(text, "hi") == 0);
    CHECK(total == 0); /* nothing is written before its end is seen */
    OK(fabricast_request_test(sum, &ended));
    CHECK(ended == 1 && total == 3);
    total = 5;
    OK(fabricast_request_wait(sum, 0)); /* and only then */
    CHECK(total == 5);
    OK(fabricast_request_wait(scan, 0));
    CHECK(up_to == rank + 1);
    OK(fabricast_request_wait(gather, 0));
    CHECK(count == 3 && ranks[2] == 2 && gathered[2] == 2);
    OK(fabricast_request_wait(reduce, 0));
    CHECK(reduced == (rank == 0));
    fabricast_request_free(barrier);
    fabricast_request_free(sum);
    fabricast_request_free(scan);
    fabricast_request_free(reduce);
    fabricast_request_free(gather);
    fabricast_request_free(broadcast);

    /* A freed one counts all the same. */
    OK(fabricast_start_all_reduce(group, FABRICAST_SUM, FABRICAST_INT64, &one, &total, 1, &sum));
    fabricast_request_free(sum);
    OK(fabricast_all_reduce(group, FABRICAST_SUM, FABRICAST_INT64, &one, &up_to, 1));
    CHECK(up_to == 3 && total == 5);

    /* Not ended while another has not called it. */
    if (rank != 0) {
        OK(fabricast_start_barrier(group, &barrier));
        OK(fabricast_request_test(barrier, &ended));
        CHECK(ended == 0);
        IS(FABRICAST_TIMEOUT, fabricast_request_wait(barrier, 1));
        SAYS("the operation has not ended within the timeout");
        OK(fabricast_start_multicast(group, "go", 2, &uncertain, &message));
        OK(fabricast_request_wait(message, -1));
        CHECK(uncertain == 0);
        fabricast_request_free(message);
        OK(fabricast_request_wait(barrier, -1));
        fabricast_request_free(barrier);
    }
    /* All but the first have one message, and it has two. */
    for (uint32_t left = rank == 0 ? 2 : 1; left > 0; left--) {
        fabricast_message *heard;

        OK(fabricast_receive(group, -1, &heard));
        CHECK(heard->sender != rank && heard->length == 2 && memcmp(heard->payload, "go", 2) == 0);
        fabricast_message_free(heard);
    }
    if (rank == 0)
        OK(fabricast_barrier(group));
}

/* Number of the next message of each member, and whether all have come. */
static uint32_t next[PROCESSES];
static atomic_uint heard;
static atomic_uint replies;

static void on_message(const fabricast_message *message, fabricast_code code, void *context)
{
    uint32_t number;

    CHECK(code == FABRICAST_OK && context == &heard);
    CHECK(message->length == sizeof number);
    memcpy(&number, message->payload, sizeof number);
    CHECK(message->sender < PROCESSES && next[message->sender]++ == number);
    /* A callback may call the library, also what blocks. */
    if (atomic_fetch_add(&heard, 1) + 1 == MESSAGES * (PROCESSES - 1)) {
        fabricast_member_list *list;

        OK(fabricast_members(group, &list));
        atomic_store(&replies, (unsigned)list->count);
        fabricast_member_list_free(list);
        OK(fabricast_on_message(group, NULL, NULL));
    }
}

static void messages(void)
{
    fabricast_request *requests[MESSAGES];

    OK(fabricast_on_message(group, on_message, &heard));
    OK(fabricast_barrier(group));
    for (uint32_t number = 0; number < MESSAGES; number++)
        OK(fabricast_start_multicast(group, &number, sizeof number, NULL, &requests[number]));
    for (uint32_t number = 0; number < MESSAGES; number++) {
        OK(fabricast_request_wait(requests[number], -1));
        fabricast_request_free(requests[number]);
    }
    while (atomic_load(&replies) != PROCESSES)
        IS(FABRICAST_TIMEOUT, fabricast_wait_detached(client, 1));
    OK(fabricast_barrier(group));
    OK(fabricast_on_message(group, NULL, NULL));
}

static void long_messages(void)
{
    static char sent[FABRICAST_PAYLOAD_MAX], copy[FABRICAST_PAYLOAD_MAX];
    fabricast_message *message;

    memset(sent, 'a' + (int)rank, sizeof sent);
    if (rank == 0) {
        OK(fabricast_multicast(group, sent, sizeof sent, NULL));
    } else {
        OK(fabricast_receive(group, -1, &message));
        CHECK(message->sender == 0 && message->length == sizeof sent);
        CHECK(((const char *)message->payload)[sizeof sent - 1] == 'a');
        fabricast_message_free(message);
    }
    memcpy(copy, sent, sizeof copy);
    OK(fabricast_broadcast(group, 1, copy, sizeof copy));
    CHECK(copy[0] == 'b' && copy[sizeof copy - 1] == 'b');
    OK(fabricast_multicast_best_effort(group, "perhaps", 7));
}

/* Payloads of different lengths, and longer than a message may be. */
static void lists(void)
{
    static char sent[2 * FABRICAST_PAYLOAD_MAX + 5];
    static int64_t numbers[FABRICAST_PAYLOAD_MAX / 4], result[FABRICAST_PAYLOAD_MAX / 4];
    const size_t count = sizeof numbers / sizeof *numbers, length = rank * FABRICAST_PAYLOAD_MAX + 5;
    fabricast_payload parts[PROCESSES];
    fabricast_payload_list *list;
    fabricast_request *requests[5];
    fabricast_payload_list *started[5];

    memset(sent, 'a' + (int)rank, sizeof sent);
    OK(fabricast_multicast_list(group, "all", 3, &list));
    CHECK(list->count == 0);
    fabricast_payload_list_free(list);
    OK(fabricast_start_multicast_list(group, "all", 3, &started[0], &requests[0]));
    OK(fabricast_request_wait(requests[0], -1));
    fabricast_request_free(requests[0]);
    fabricast_payload_list_free(started[0]);
    OK(fabricast_barrier_list(group, &list));
    CHECK(list->count == PROCESSES && list->payloads[2].rank == 2 && list->payloads[2].length == 0);
    fabricast_payload_list_free(list);
    OK(fabricast_broadcast_list(group, 2, sent, sizeof sent, &list));
    CHECK(list->count == 1 && list->payloads->rank == 2 && list->payloads->length == sizeof sent);
    CHECK(((const char *)list->payloads->payload)[sizeof sent - 1] == 'c');
    fabricast_payload_list_free(list);
    OK(fabricast_gather(group, 1, sent, length, &list));
    CHECK((list != NULL) == (rank == 1));
    for (uint32_t at = 0; list != NULL && at < PROCESSES; at++) {
        const fabricast_payload *one = &list->payloads[at];

        CHECK(one->rank == at && one->length == at * FABRICAST_PAYLOAD_MAX + 5);
        CHECK(((const char *)one->payload)[one->length - 1] == (char)('a' + at));
    }
    fabricast_payload_list_free(list);
    for (uint32_t at = 0; at < PROCESSES; at++)
        parts[at] = (fabricast_payload){at, at * FABRICAST_PAYLOAD_MAX, sent};
    OK(fabricast_scatter(group, 0, parts, PROCESSES - 1, &list));
    CHECK(list->count == (rank != PROCESSES - 1));
    CHECK(rank != 1 || (list->payloads->rank == 1 &&
                        list->payloads->length == FABRICAST_PAYLOAD_MAX &&
                        ((const char *)list->payloads->payload)[FABRICAST_PAYLOAD_MAX - 1] == 'a'));
    fabricast_payload_list_free(list);
    OK(fabricast_all_gather_list(group, sent, rank, &list));
    CHECK(list->count == PROCESSES && list->payloads[2].length == 2);
    fabricast_payload_list_free(list);

    OK(fabricast_start_barrier_list(group, &started[0], &requests[0]));
    OK(fabricast_start_broadcast_list(group, 1, sent, 1, &started[1], &requests[1]));
    OK(fabricast_start_gather(group, 0, sent, rank, &started[2], &requests[2]));
    OK(fabricast_start_all_gather_list(group, sent, rank, &started[3], &requests[3]));
    OK(fabricast_start_scatter(group, 2, parts, 0, &started[4], &requests[4]));
    for (size_t at = 0; at < 5; at++) {
        OK(fabricast_request_wait(requests[at], -1));
        fabricast_request_free(requests[at]);
        CHECK((started[at] == NULL) == (at == 2 && rank != 0));
        fabricast_payload_list_free(started[at]);
    }

    for (size_t at = 0; at < count; at++)
        numbers[at] = (int64_t)(at + rank);
    OK(fabricast_all_reduce(group, FABRICAST_SUM, FABRICAST_INT64, numbers, result, count));
    for (size_t at = 0; at < count; at++)
        CHECK(result[at] == (int64_t)(PROCESSES * at + 3));
}

/* All ask for the tree of switches, which is the same for all. */
static void switch_tree(void)
{
    uint32_t most_bytes = 0;

    OK(fabricast_ask_for_switch_tree(group, &most_bytes));
    CHECK(most_bytes >= 8);
    OK(fabricast_ask_for_switch_tree(group, NULL));
}

static atomic_uint calls;
static atomic_int last;

static void on_members(const fabricast_member_list *members, fabricast_code code, void *context)
{
    CHECK(context == NULL && (members == NULL) == (code != FABRICAST_OK));
    if (members != NULL)
        CHECK(members->count >= 1 && members->count <= PROCESSES);
    atomic_fetch_add(&calls, 1);
    atomic_store(&last, (int)code);
}

/* The last one leaves; the others see it. Then all end. */
static void ends(fabricast_watch *watch)
{
    fabricast_member_list *list;

    OK(fabricast_barrier(group));
    if (rank == PROCESSES - 1) {
        OK(fabricast_leave(group));
    } else {
        OK(fabricast_watch_next(watch, -1, &list));
        CHECK(list->count == PROCESSES - 1);
        CHECK(list->members[0].rank == 0 && list->members[1].rank == 1);
        fabricast_member_list_free(list);
        /* Until it is known here, an operation would wait for it, and fail. */
        for (size_t count = 0; count != PROCESSES - 1;) {
            OK(fabricast_participants(group, (uint32_t[PROCESSES]){0}, PROCESSES, &count));
            IS(FABRICAST_TIMEOUT, fabricast_wait_detached(client, 1));
        }
        OK(fabricast_barrier(group));
        OK(fabricast_leave(group));
        /* The other may leave first. */
        fabricast_code code = fabricast_watch_next(watch, -1, &list);
        if (code == FABRICAST_OK) {
            fabricast_member_list_free(list);
            code = fabricast_watch_next(watch, -1, &list);
        }
        IS(FABRICAST_NOT_A_MEMBER, code);
        IS(FABRICAST_NOT_A_MEMBER, fabricast_watch_next(watch, -1, &list));
    }
    /* The callback is told, too, and not called again. */
    while (atomic_load(&last) != FABRICAST_NOT_A_MEMBER)
        IS(FABRICAST_TIMEOUT, fabricast_wait_detached(client, 1));
    IS(FABRICAST_NOT_A_MEMBER, fabricast_members(group, &list));
    CHECK(atomic_load(&calls) >= 2);
}

int main(void)
{
    fabricast_watch *watch;

    OK(fabricast_attach(NULL, NULL, NULL, &client));
    OK(fabricast_join(client, getenv("FABRICAST_GROUP"), &group));
    rank = fabricast_group_rank(group);
    OK(fabricast_wait_for(group, PROCESSES, -1));
    members(&watch);
    OK(fabricast_on_members(group, on_members, NULL));
    operations();
    disagreement();
    started();
    messages();
    long_messages();
    lists();
    switch_tree();
    ends(watch);
    /* In any order. */
    fabricast_client_free(client);
    fabricast_group_free(group);
    fabricast_watch_free(watch);
    tell("ok");
    return 0;
}
