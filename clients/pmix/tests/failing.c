/* One rank fails in fabricast_pmix_join, in the way that the argument names: every rank has to
 * return from it, fail, and say why. The C library is replaced; PMIx is that of the launcher.
 *
 *     cc failing.c ../fabricast_pmix.c -Wl,--wrap=PMIx_Put,--wrap=PMIx_Commit -lpmix
 *     mpirun -n 3 ./a.out CASE
 */
#include "../fabricast_pmix.h"

#include <pmix.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

pmix_status_t __real_PMIx_Put(pmix_scope_t scope, const char key[], pmix_value_t *value);
pmix_status_t __real_PMIx_Commit(void);

static const char *fails = "";
static int member;

pmix_status_t __wrap_PMIx_Put(pmix_scope_t scope, const char key[], pmix_value_t *value)
{
    const char *what = key + strlen("fabricast.");
    bool is_failing = fails[0] != '\0' && strncmp(what, fails, strlen(fails)) == 0;

    return is_failing ? PMIX_ERROR : __real_PMIx_Put(scope, key, value);
}

pmix_status_t __wrap_PMIx_Commit(void)
{
    return strcmp(fails, "commit") == 0 ? PMIX_ERROR : __real_PMIx_Commit();
}

fabricast_code fabricast_attach(const char *socket, const char *process, const char *node,
                                fabricast_client **client)
{
    (void)socket, (void)process, (void)node;
    *client = (fabricast_client *)&member;
    return FABRICAST_OK;
}

fabricast_code fabricast_join(const fabricast_client *client, const char *name,
                              fabricast_group **group)
{
    (void)client, (void)name;
    if (strcmp(fails, "join") == 0)
        return FABRICAST_REFUSED;
    *group = (fabricast_group *)&member;
    return FABRICAST_OK;
}

fabricast_code fabricast_leave(const fabricast_group *group)
{
    (void)group;
    return FABRICAST_OK;
}

void fabricast_group_free(fabricast_group *group)
{
    (void)group;
}

uint32_t fabricast_group_rank(const fabricast_group *group)
{
    (void)group;
    return 7;
}

const char *fabricast_error_text(void)
{
    return "the agent refuses it";
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";
    fabricast_client *client = NULL;
    fabricast_group *group = (fabricast_group *)&count; /* must not be left as it is */
    pmix_proc_t self;
    fabricast_code code;

    if (fabricast_pmix_attach(NULL, NULL, &client) != FABRICAST_OK ||
        PMIx_Init(&self, NULL, 0) != PMIX_SUCCESS)
        return 1;
    /* The name of the group is what rank 0 publishes, the rest is tried at rank 1. */
    if (self.rank == (strcmp(what, "group") == 0 ? 0 : 1)) {
        fails = what;
        if (strcmp(what, "attach") == 0)
            client = NULL;
    }
    code = fabricast_pmix_join(client, NULL, &group, NULL);
    printf("rank %u %s: %s\n", self.rank,
           code == FABRICAST_OK ? "joined" : group == NULL ? "failed" : "left a group behind",
           code == FABRICAST_OK ? "" : fabricast_pmix_error_text());
    PMIx_Finalize(NULL, 0);
    return 0;
}
