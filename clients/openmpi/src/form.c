/* The group of a communicator.
 *
 * Rank 0 names it, all ranks join, tell each other which member they are, and wait until all take
 * part. A rank that cannot says so, and then no rank uses it. The ranks talk by the functions of the
 * next module. */
#include "coll_fabricast.h"

#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "opal/runtime/opal_progress.h"
#include "opal/util/info.h"

/* Time after which a rank that waits lets Open MPI progress other messages. */
#define TURN_MS 1

enum { HAS_FAILED, HAS_JOINED, DECLINES };

/* What each rank tells the others. */
typedef struct vote {
    int32_t answer; /* HAS_JOINED, HAS_FAILED, DECLINES */
    uint32_t member; /* rank in the group */
} vote_t;

#define NAME_SIZE 256

/* Keeps what failed, and why. Returns HAS_FAILED, which is 0. */
static int failed(module_t *module, const char *what)
{
    snprintf(module->why, sizeof module->why, "%s: %s", what, fabricast_error_text());
    return HAS_FAILED;
}

/* Makes a name that no group has had. */
static void name_group(const module_t *module, char *name)
{
    uint64_t chance = 0;

    if (getrandom(&chance, sizeof chance, 0) != (ssize_t)sizeof chance)
        chance = (uint64_t)getpid() << 32 | (uint64_t)clock();
    snprintf(name, NAME_SIZE, "%s%08x/%u/%016llx", mca_coll_fabricast_component.prefix,
             OMPI_PROC_MY_NAME->jobid, module->comm->c_contextid, (unsigned long long)chance);
}

/* Returns 1 if the program does not want Fabricast for this communicator. */
static int is_declined(const communicator_t *comm)
{
    char value[8] = "";
    int is_set = 0;

    if (comm->super.s_info != NULL)
        opal_info_get(comm->super.s_info, "coll_fabricast", sizeof value - 1, value, &is_set);
    return is_set && strcmp(value, "off") == 0;
}

/* Joins the group, and takes part. */
static int join(module_t *module, const char *name)
{
    fabricast_client *client;

    if (is_declined(module->comm)) {
        snprintf(module->why, sizeof module->why, "it has the info coll_fabricast=off");
        return DECLINES;
    }
    client = attached_client(module->why);
    if (client == NULL)
        return HAS_FAILED;
    if (fabricast_join(client, name, &module->group) != FABRICAST_OK)
        return failed(module, "join the group");
    if (fabricast_take_part(module->group) != FABRICAST_OK)
        return failed(module, "take part");
    module->path = fabricast_path(module->group);
    return HAS_JOINED;
}

/* Waits until all ranks take part. Returns 1 if so. */
static int wait_for_all(module_t *module)
{
    fabricast_code code = FABRICAST_TIMEOUT;

    for (int waited = 0; waited <= mca_coll_fabricast_component.timeout_ms; waited += TURN_MS) {
        code = fabricast_wait_for(module->group, module->size, TURN_MS);
        if (code != FABRICAST_TIMEOUT)
            break;
        opal_progress();
    }
    if (code != FABRICAST_OK)
        return failed(module, "wait for the other ranks");
    if (fabricast_set_failure_policy(module->group, FABRICAST_FAIL_ALWAYS) != FABRICAST_OK)
        return failed(module, "require the other ranks");
    return 1;
}

/* Learns from the votes who is which member. Returns the first rank that has not joined, or -1. */
static int read_votes(module_t *module, const vote_t *votes)
{
    module->is_in_order = 1;
    for (int rank = 0; rank < module->size; rank++) {
        if (votes[rank].answer != HAS_JOINED)
            return rank;
        module->members[rank] = votes[rank].member;
        module->places[rank] = 0;
        for (int other = 0; other < module->size; other++)
            module->places[rank] += votes[other].member < votes[rank].member;
        module->is_in_order &= module->places[rank] == rank;
    }
    return -1;
}

/* Lets all ranks know why one of them has not joined. */
static int share_reason(module_t *module, int rank)
{
    char why[WHY_SIZE] = "";
    int code;

    memcpy(why, module->why, sizeof why);
    code = module->next.bcast(why, sizeof why, MPI_BYTE, rank, module->comm,
                              module->next.bcast_module);
    snprintf(module->why, sizeof module->why, "rank %d: %.280s", rank, why);
    return code;
}

void leave_group(module_t *module)
{
    if (module->group != NULL) {
        fabricast_leave(module->group);
        fabricast_group_free(module->group);
    }
    module->group = NULL;
}

/* Ends the forming, on all ranks alike. One of them tells of it. */
static void end(module_t *module, int is_formed, int is_wanted, int tells)
{
    const component_t *component = &mca_coll_fabricast_component;
    int is_required = is_wanted && component->settings.mode == MODE_REQUIRE;

    module->state = is_formed ? FORMED : LEFT_ALONE;
    if (is_formed) {
        if (component->verbose >= 2 && tells)
            say("communicator '%s' of %d ranks is the group %s", module->name, module->size,
                fabricast_group_name(module->group));
        return;
    }
    leave_group(module);
    if (tells && (is_required || component->verbose >= 2))
        say("communicator '%s' of %d ranks %s: %s", module->name, module->size,
            is_required ? "cannot use Fabricast, as FABRICAST_MPI=require demands"
                        : "is left to the next module",
            module->why);
    if (is_wanted)
        refuse_if_required(module->comm);
}

void form_group(module_t *module)
{
    const int is_first = module->rank == 0;
    communicator_t *comm = module->comm;
    next_t *next = &module->next;
    vote_t *votes = calloc(module->size, sizeof *votes), own = {0};
    char name[NAME_SIZE] = "";
    int code, missing = -1, is_wanted = 1, mine, all = 0;

    module->state = FORMING;
    memcpy(module->name, comm->c_name, sizeof module->name);
    module->members = calloc(module->size, sizeof *module->members);
    module->places = calloc(module->size, sizeof *module->places);
    if (votes == NULL || module->members == NULL || module->places == NULL)
        ompi_mpi_abort(comm, MPI_ERR_NO_MEM);
    if (is_first)
        name_group(module, name);
    code = next->bcast(name, sizeof name, MPI_BYTE, 0, comm, next->bcast_module);
    if (code == OMPI_SUCCESS)
        own.answer = join(module, name);
    own.member = fabricast_group_rank(module->group);
    if (code == OMPI_SUCCESS)
        code = next->allgather(&own, sizeof own, MPI_BYTE, votes, sizeof own, MPI_BYTE, comm,
                               next->allgather_module);
    if (code == OMPI_SUCCESS)
        missing = read_votes(module, votes);
    if (missing >= 0)
        is_wanted = votes[missing].answer != DECLINES;
    free(votes);
    if (code != OMPI_SUCCESS || missing >= 0) {
        if (code == OMPI_SUCCESS)
            share_reason(module, missing);
        end(module, 0, is_wanted, is_first);
        return;
    }
    mine = wait_for_all(module);
    code = next->allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm, next->allreduce_module);
    if (mine && !all)
        snprintf(module->why, sizeof module->why, "some ranks did not see the others take part");
    end(module, code == OMPI_SUCCESS && all, 1, is_first);
}
