/* A member dies before it has contributed to an operation of the others, three times: first all of
 * them are told who, then they go on without, then they never do. The test is that member. */
#include "check.h"

static fabricast_client *client;
static fabricast_group *group;

/* Waits until it is alone and then for another member, starts a barrier, tells that it is under way,
 * and waits for its end. */
static fabricast_code barrier(fabricast_failure_policy policy)
{
    fabricast_request *request;
    fabricast_code code;

    for (size_t count = 0; count != 1;) {
        OK(fabricast_participants(group, (uint32_t[2]){0}, 2, &count));
        IS(FABRICAST_TIMEOUT, fabricast_wait_detached(client, 1));
    }
    tell("alone");
    OK(fabricast_wait_for(group, 2, -1));
    OK(fabricast_set_failure_policy(group, policy));
    OK(fabricast_start_barrier(group, &request));
    IS(FABRICAST_TIMEOUT, fabricast_request_wait(request, 200));
    tell("under way");
    code = fabricast_request_wait(request, -1);
    CHECK(fabricast_request_wait(request, -1) == code);
    fabricast_request_free(request);
    return code;
}

int main(void)
{
    uint32_t failed[2];
    size_t count = 0;

    OK(fabricast_attach(NULL, NULL, NULL, &client));
    OK(fabricast_join(client, "g", &group));
    IS(FABRICAST_MEMBERS_FAILED, barrier(FABRICAST_FAIL));
    SAYS("members 1 failed");
    OK(fabricast_error_failed_ranks(failed, 2, &count));
    CHECK(count == 1 && failed[0] == 1);
    OK(fabricast_barrier(group)); /* that member is no part of it */
    OK(barrier(FABRICAST_SURVIVORS));
    IS(FABRICAST_MEMBERS_FAILED, barrier(FABRICAST_FAIL_ALWAYS));
    IS(FABRICAST_MEMBERS_FAILED, fabricast_barrier(group));
    OK(fabricast_error_failed_ranks(failed, 2, &count));
    CHECK(count == 1 && failed[0] == 1);
    fabricast_group_free(group);
    fabricast_client_free(client);
    tell("ok");
    return 0;
}
