/* Wrong arguments are refused, each with its code and a text that names the fault, and change
 * nothing. Alone in its group, on a node of an agent that serves several. */
#include "check.h"

#include <unistd.h>

static fabricast_client *client;
static fabricast_group *group;

static void attaching(void)
{
    fabricast_client *none = (fabricast_client *)1;

    IS(FABRICAST_INVALID_ARGUMENT, fabricast_attach(NULL, NULL, NULL, NULL));
    SAYS("client is NULL");
    IS(FABRICAST_UNREACHABLE, fabricast_attach("nowhere.sock", NULL, NULL, &none));
    SAYS("no operating agent can be reached at nowhere.sock");
    CHECK(none == NULL);
    IS(FABRICAST_INVALID_ARGUMENT, fabricast_attach(NULL, "\xff", NULL, &none));
    SAYS("process is not UTF-8");
    IS(FABRICAST_REFUSED, fabricast_attach(NULL, NULL, "no such node", &none));
    CHECK(strcmp(fabricast_error_reason(), "UNKNOWN_NODE") == 0);
    CHECK(none == NULL);

    OK(fabricast_attach(NULL, "program", NULL, &client));
    CHECK(strcmp(fabricast_client_process(client), "program") == 0);
    CHECK(strcmp(fabricast_client_node(client), getenv("FABRICAST_NODE")) == 0);
    CHECK(fabricast_client_process(NULL) == NULL && fabricast_client_node(NULL) == NULL);
    IS(FABRICAST_REFUSED, fabricast_attach(NULL, "program", NULL, &none));
    CHECK(strcmp(fabricast_error_reason(), "PROCESS_ATTACHED") == 0);
    IS(FABRICAST_TIMEOUT, fabricast_wait_detached(client, 0));
    IS(FABRICAST_INVALID_ARGUMENT, fabricast_wait_detached(NULL, 0));
}

static void joining(void)
{
    fabricast_group *none = (fabricast_group *)1;
    fabricast_process nowhere = {"later", NULL};

    IS(FABRICAST_INVALID_ARGUMENT, fabricast_join(NULL, "g", &none));
    SAYS("client is NULL");
    CHECK(none == NULL);
    IS(FABRICAST_INVALID_ARGUMENT, fabricast_join(client, NULL, &none));
    SAYS("name is NULL");
    IS(FABRICAST_INVALID_ARGUMENT, fabricast_join(client, "g", NULL));
    IS(FABRICAST_REFUSED, fabricast_join(client, "", &none));
    CHECK(strcmp(fabricast_error_reason(), "NAME_INVALID") == 0);
    IS(FABRICAST_INVALID_ARGUMENT, fabricast_form(client, "g", NULL, 1, NULL));
    IS(FABRICAST_INVALID_ARGUMENT, fabricast_form(client, "g", &nowhere, 1, NULL));
    SAYS("node is NULL");
    IS(FABRICAST_INVALID_ARGUMENT, fabricast_form(client, "g", &nowhere, SIZE_MAX, NULL));
    SAYS("more than memory");
    IS(FABRICAST_REFUSED, fabricast_form(client, "g", NULL, 0, NULL));

    OK(fabricast_join(client, "g", &group));
    CHECK(strcmp(fabricast_group_name(group), "g") == 0 && fabricast_group_rank(group) == 0);
    CHECK(fabricast_group_name(NULL) == NULL);
    CHECK(fabricast_group_rank(NULL) == FABRICAST_NO_RANK);
    CHECK(fabricast_combined_by_switches(NULL) == 0);
    CHECK(strcmp(fabricast_path(group), "agent") == 0 && fabricast_path(NULL) == NULL);
}

/* A group of processes that will attach later; this one is no member. */
static void forming(void)
{
    const char *node = getenv("FABRICAST_NODE");
    fabricast_process later[] = {{"b", node}, {"a", node}};
    uint32_t ranks[] = {9, 9};

    OK(fabricast_form(client, "formed", later, 2, ranks));
    CHECK(ranks[0] == 0 && ranks[1] == 1);
    OK(fabricast_form(client, "formed", later + 1, 1, ranks));
    CHECK(ranks[0] == 1 && ranks[1] == 1);
    OK(fabricast_form(client, "formed", later, 1, NULL));

    ranks[0] = 9;
    OK(fabricast_form_for(client, (uint32_t)getuid(), "formed", later, 2, ranks));
    CHECK(ranks[0] == 0 && ranks[1] == 1);
    IS(FABRICAST_REFUSED, fabricast_form_for(client, getuid() + 1, "formed", later, 2, NULL));
    CHECK(strcmp(fabricast_error_reason(), "NOT_PERMITTED") == 0);
}

static void without_a_group(void)
{
    int64_t number = 1;
    uint32_t most_bytes = 5;
    size_t count = 5;
    int ended = 5;
    fabricast_request *request = (fabricast_request *)1;
    fabricast_message *message = (fabricast_message *)1;
    fabricast_member_list *members = (fabricast_member_list *)1;
    fabricast_watch *watch = (fabricast_watch *)1;
    fabricast_payload part = {0, 1, NULL};
    fabricast_payload_list *list = (fabricast_payload_list *)1;
    fabricast_code codes[] = {
        fabricast_leave(NULL),
        fabricast_take_part(NULL),
        fabricast_wait_for(NULL, 1, 0),
        fabricast_participants(NULL, NULL, 0, &count),
        fabricast_members(NULL, &members),
        fabricast_watch_members(NULL, &watch),
        fabricast_watch_next(NULL, 0, &members),
        fabricast_on_members(NULL, NULL, NULL),
        fabricast_multicast(NULL, "", 1, &count),
        fabricast_start_multicast(NULL, "", 1, &count, &request),
        fabricast_multicast_best_effort(NULL, "", 1),
        fabricast_receive(NULL, 0, &message),
        fabricast_on_message(NULL, NULL, NULL),
        fabricast_set_failure_policy(NULL, FABRICAST_FAIL),
        fabricast_ask_for_switch_tree(NULL, &most_bytes),
        fabricast_barrier(NULL),
        fabricast_broadcast(NULL, 0, &number, 8),
        fabricast_reduce(NULL, 0, FABRICAST_SUM, FABRICAST_INT64, &number, &number, 1),
        fabricast_all_reduce(NULL, FABRICAST_SUM, FABRICAST_INT64, &number, &number, 1),
        fabricast_scan(NULL, FABRICAST_SUM, FABRICAST_INT64, &number, &number, 1),
        fabricast_all_gather(NULL, &number, 8, &number, NULL, 1, &count),
        fabricast_barrier_list(NULL, &list),
        fabricast_broadcast_list(NULL, 0, &number, 8, &list),
        fabricast_gather(NULL, 0, &number, 8, &list),
        fabricast_all_gather_list(NULL, &number, 8, &list),
        fabricast_scatter(NULL, 0, &part, 1, &list),
        fabricast_start_barrier(NULL, &request),
        fabricast_start_broadcast(NULL, 0, &number, 8, &request),
        fabricast_start_reduce(NULL, 0, FABRICAST_SUM, FABRICAST_INT64, &number, &number, 1,
                               &request),
        fabricast_start_all_reduce(NULL, FABRICAST_SUM, FABRICAST_INT64, &number, &number, 1,
                                   &request),
        fabricast_start_scan(NULL, FABRICAST_SUM, FABRICAST_INT64, &number, &number, 1, &request),
        fabricast_start_all_gather(NULL, &number, 8, &number, NULL, 1, &count, &request),
        fabricast_request_wait(NULL, 0),
        fabricast_request_test(NULL, &ended),
    };

    for (size_t at = 0; at < sizeof codes / sizeof *codes; at++)
        IS(FABRICAST_INVALID_ARGUMENT, codes[at]);
    CHECK(request == NULL && message == NULL && members == NULL && watch == NULL);
    CHECK(number == 1 && count == 5 && ended == 5 && most_bytes == 5);
    fabricast_client_free(NULL);
    fabricast_group_free(NULL);
    fabricast_request_free(NULL);
    fabricast_message_free(NULL);
    fabricast_member_list_free(NULL);
    fabricast_watch_free(NULL);
    fabricast_payload_list_free(NULL);
}

static void operations(void)
{
    int64_t number = 7, result = 9;
    double real = 0.5;
    size_t count = 5;
    uint32_t rank = 5;
    fabricast_request *request;
    fabricast_payload part = {0, 1, NULL};
    fabricast_payload_list *list;
    static char longest[FABRICAST_PAYLOAD_MAX + 1];

    IS(FABRICAST_INVALID_ARGUMENT,
       fabricast_all_reduce(group, 12, FABRICAST_INT64, &number, &result, 1));
    SAYS("reduction 12 is no reduction");
    IS(FABRICAST_INVALID_ARGUMENT,
       fabricast_all_reduce(group, FABRICAST_SUM, -1, &number, &result, 1));
    SAYS("type -1 is no type of numbers");
    IS(FABRICAST_INVALID_ARGUMENT,
       fabricast_all_reduce(group, FABRICAST_SUM, FABRICAST_INT64, NULL, &result, 1));
    SAYS("the numbers to send is NULL");
    IS(FABRICAST_INVALID_ARGUMENT,
       fabricast_all_reduce(group, FABRICAST_SUM, FABRICAST_INT64, &number, NULL, 1));
    IS(FABRICAST_INVALID_ARGUMENT, fabricast_all_reduce(group, FABRICAST_SUM, FABRICAST_INT64,
                                                        &number, &result, SIZE_MAX / 8));
    SAYS("more than memory");
    IS(FABRICAST_INVALID_ARGUMENT,
       fabricast_reduce(group, 0, FABRICAST_SUM, FABRICAST_INT64, &number, NULL, 1));
    IS(FABRICAST_INVALID_ARGUMENT, fabricast_broadcast(group, 0, NULL, 1));
    IS(FABRICAST_INVALID_ARGUMENT, fabricast_all_gather(group, &number, 8, NULL, NULL, 1, NULL));
    IS(FABRICAST_INVALID_ARGUMENT,
       fabricast_all_gather(group, &number, 8, &result, NULL, SIZE_MAX / 8, NULL));
    IS(FABRICAST_MEMBERS_FAILED, fabricast_broadcast(group, 7, &number, 8));
    SAYS("members 7 failed");
    IS(FABRICAST_INVALID_ARGUMENT, fabricast_set_failure_policy(group, 3));
    IS(FABRICAST_REFUSED, fabricast_ask_for_switch_tree(group, &rank));
    CHECK(strcmp(fabricast_error_reason(), "NO_SWITCH_TREE") == 0);
    SAYS("has a single member");
    IS(FABRICAST_INVALID_ARGUMENT, fabricast_start_barrier(group, NULL));
    IS(FABRICAST_INVALID_ARGUMENT, fabricast_multicast(group, NULL, 1, NULL));
    IS(FABRICAST_INVALID_ARGUMENT, fabricast_participants(group, NULL, 1, &count));
    IS(FABRICAST_INVALID_ARGUMENT, fabricast_participants(group, &rank, 1, NULL));
    IS(FABRICAST_INVALID_ARGUMENT, fabricast_receive(group, 0, NULL));
    IS(FABRICAST_REFUSED,
       fabricast_all_reduce(group, FABRICAST_OR, FABRICAST_DOUBLE, &real, &real, 1));
    CHECK(strcmp(fabricast_error_reason(), "CONTRIBUTION_INVALID") == 0);
    IS(FABRICAST_REFUSED, fabricast_multicast(group, longest, sizeof longest, NULL));
    CHECK(strcmp(fabricast_error_reason(), "PAYLOAD_TOO_LONG") == 0);
    IS(FABRICAST_INVALID_ARGUMENT, fabricast_scatter(group, 0, &part, 1, &list));
    SAYS("a part is NULL");
    IS(FABRICAST_INVALID_ARGUMENT, fabricast_gather(group, 0, NULL, 1, &list));
    IS(FABRICAST_INVALID_ARGUMENT, fabricast_barrier_list(group, NULL));
    OK(fabricast_start_barrier(group, &request));
    OK(fabricast_broadcast(group, 0, longest, sizeof longest));
    OK(fabricast_request_wait(request, -1));
    IS(FABRICAST_INVALID_ARGUMENT, fabricast_request_test(request, NULL));
    fabricast_request_free(request);
    IS(FABRICAST_NO_ROOM, fabricast_participants(group, NULL, 0, &count));
    CHECK(count == 1);
    IS(FABRICAST_NO_ROOM, fabricast_all_gather(group, &number, 8, NULL, NULL, 0, &count));
    CHECK(number == 7 && result == 9 && real == 0.5 && count == 1 && rank == 5);
}

/* A group that begins and a membership that ends. */
static void the_end(void)
{
    fabricast_message *message;
    fabricast_group *second;

    OK(fabricast_participants(group, (uint32_t[4]){0}, 4, &(size_t){0}));
    IS(FABRICAST_TIMEOUT, fabricast_receive(group, 0, &message));
    SAYS("no message came within the timeout");
    IS(FABRICAST_TIMEOUT, fabricast_wait_for(group, 2, 1));
    OK(fabricast_join(client, "g", &second));
    IS(FABRICAST_REFUSED, fabricast_take_part(second));
    CHECK(strcmp(fabricast_error_reason(), "SEAT_TAKEN") == 0);
    OK(fabricast_leave(second));
    /* It was the last member, and the group is gone. */
    IS(FABRICAST_REFUSED, fabricast_leave(group));
    CHECK(strcmp(fabricast_error_reason(), "UNKNOWN_GROUP") == 0);
    IS(FABRICAST_NOT_A_MEMBER, fabricast_barrier(group));
    SAYS("not a member of group 'g'");
    CHECK(strcmp(fabricast_error_reason(), "") == 0);
    IS(FABRICAST_NOT_A_MEMBER, fabricast_receive(group, -1, &message));
    fabricast_group_free(second);
}

int main(void)
{
    CHECK(strcmp(fabricast_version(), FABRICAST_VERSION) == 0);
    CHECK(strcmp(fabricast_error_text(), "") == 0);
    attaching();
    joining();
    forming();
    without_a_group();
    operations();
    the_end();
    fabricast_client_free(client);
    fabricast_group_free(group);
    tell("ok");
    return 0;
}
