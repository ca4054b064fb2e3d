/* The group of a communicator.
 *
 * Rank 0 names it. The ranks tell each other which host they are on, and the leader of each host
 * joins; they tell each other which member they are, and wait until all take part. A rank that
 * cannot says so, and then no rank uses it. The ranks talk by the functions of the next module. */
#include "coll_fabricast.h"

#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ompi/runtime/mpiruntime.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/info.h"

/* Time after which a rank that waits lets Open MPI progress other messages. */
#define TURN_MS 1

enum { HAS_FAILED, IS_READY, DECLINES };

/* What each rank tells the others. */
typedef struct vote {
    int32_t answer;  /* HAS_FAILED, IS_READY, DECLINES */
    uint32_t member; /* rank in the group, of a leader */
    uint64_t host;   /* equal for ranks that can share memory */
    int32_t process; /* its id */
    int32_t always;  /* it wants all operations by the group */
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

/* Returns 1 if the program has given this communicator such a value of the info coll_fabricast. */
static int has_info(const communicator_t *comm, const char *wanted)
{
    char value[8] = "";
    int is_set = 0;

    if (comm->super.s_info != NULL)
        opal_info_get(comm->super.s_info, "coll_fabricast", sizeof value - 1, value, &is_set);
    return is_set && strcmp(value, wanted) == 0;
}

static uint64_t mix(uint64_t key, uint64_t number)
{
    return (key ^ number) * 0x100000001b3u;
}

/* A number that is equal for ranks of one node that can share memory and see each other's end. */
static uint64_t key_of_host(const fabricast_client *client)
{
    const char *node = fabricast_client_node(client);
    uint64_t key = 0xcbf29ce484222325u;
    struct stat memory, processes;

    for (; node != NULL && *node != '\0'; node++)
        key = mix(key, (unsigned char)*node);
    if (stat("/dev/shm", &memory) != 0 || stat("/proc/self/ns/pid", &processes) != 0)
        return mix(key, (uint64_t)OMPI_PROC_MY_NAME->vpid + 1);
    return mix(mix(key, memory.st_dev), processes.st_ino);
}

/* Attaches the process. */
static vote_t attach(module_t *module)
{
    const component_t *component = &mca_coll_fabricast_component;
    vote_t own = {.answer = HAS_FAILED, .process = (int32_t)getpid()};
    fabricast_client *client;

    if (has_info(module->comm, "off")) {
        snprintf(module->why, sizeof module->why, "it has the info coll_fabricast=off");
        own.answer = DECLINES;
        return own;
    }
    own.always = component->settings.always || has_info(module->comm, "always");
    client = attached_client(module->why);
    if (client == NULL)
        return own;
    own.answer = IS_READY;
    own.host = key_of_host(client);
    return own;
}

/* Name of the memory of this host, which nobody has had before. */
static void name_memory(const module_t *module, const char *group, char *name, size_t size)
{
    snprintf(name, size, "/fabricast_mpi-%.16s-%d", strrchr(group, '/') + 1,
             module->host_of[module->rank]);
}

/* Joins the group, and takes part, at a leader, which makes the memory of its host before. */
static int join(module_t *module, const char *name)
{
    fabricast_client *client = attached_client(module->why);
    char memory[64];
    int code = 0;

    if (client == NULL)
        return HAS_FAILED;
    name_memory(module, name, memory, sizeof memory);
    if (module->host.size > 1)
        code = make_memory(&module->host, memory);
    if (code != 0) {
        snprintf(module->why, sizeof module->why, "make memory for the ranks of a host: %s",
                 strerror(code));
        return HAS_FAILED;
    }
    if (fabricast_join(client, name, &module->group) != FABRICAST_OK)
        return failed(module, "join the group");
    if (fabricast_take_part(module->group) != FABRICAST_OK)
        return failed(module, "take part");
    module->path = fabricast_path(module->group);
    return IS_READY;
}

/* Finds the memory of the host, at a rank that is no leader. Returns 1 if it is there. */
static int find(module_t *module, const char *name)
{
    char memory[64];
    int code;

    name_memory(module, name, memory, sizeof memory);
    code = find_memory(&module->host, memory);
    if (code != 0)
        snprintf(module->why, sizeof module->why, "find the memory of the host: %s",
                 strerror(code));
    return code == 0;
}

/* Waits until all leaders take part. Returns 1 if so. */
static int wait_for_all(module_t *module)
{
    fabricast_code code = FABRICAST_TIMEOUT;

    for (int waited = 0; waited <= mca_coll_fabricast_component.timeout_ms; waited += TURN_MS) {
        code = fabricast_wait_for(module->group, module->host_count, TURN_MS);
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

/* Learns from the votes which ranks share a host. */
static void read_hosts(module_t *module, const vote_t *votes)
{
    host_t *own = &module->host;

    module->is_always = 1;
    for (int rank = 0; rank < module->size; rank++) {
        int host = 0;

        while (host < module->host_count && votes[module->leaders[host]].host != votes[rank].host)
            host++;
        if (host == module->host_count)
            module->leaders[module->host_count++] = rank;
        module->host_of[rank] = host;
        module->place_of[rank] = module->sizes[host]++;
        if (module->most_at_host < module->sizes[host])
            module->most_at_host = module->sizes[host];
        module->is_always &= votes[rank].always;
    }
    own->size = module->sizes[module->host_of[module->rank]];
    own->place = module->place_of[module->rank];
    own->suspect = -1;
    own->processes = calloc(own->size, sizeof *own->processes);
    if (own->processes == NULL)
        ompi_mpi_abort(module->comm, MPI_ERR_NO_MEM);
    for (int rank = 0; rank < module->size; rank++)
        if (module->host_of[rank] == module->host_of[module->rank])
            own->processes[module->place_of[rank]] = votes[rank].process;
}

/* Learns from the votes which member the leader of each host is. */
static void read_members(module_t *module, const vote_t *votes)
{
    module->is_in_order = 1;
    for (int host = 0; host < module->host_count; host++) {
        const uint32_t member = votes[module->leaders[host]].member;

        module->members[host] = member;
        for (int other = 0; other < module->host_count; other++)
            module->places[host] += votes[module->leaders[other]].member < member;
        module->is_in_order &= module->places[host] == host;
    }
}

/* Lets all ranks know why one of them cannot go on. */
static void share_reason(module_t *module, int rank)
{
    char why[WHY_SIZE] = "";

    memcpy(why, module->why, sizeof why);
    if (module->next.bcast(why, sizeof why, MPI_BYTE, rank, module->comm,
                           module->next.bcast_module) == OMPI_SUCCESS)
        snprintf(module->why, sizeof module->why, "rank %d: %.280s", rank, why);
}

/* Tells all ranks what this one has to say. Returns 1 if all are ready; else they know who is
 * not. */
static int vote(module_t *module, const vote_t *own, vote_t *votes, int *is_wanted)
{
    int missing = 0;

    if (module->next.allgather(own, sizeof *own, MPI_BYTE, votes, sizeof *own, MPI_BYTE,
                               module->comm, module->next.allgather_module) != OMPI_SUCCESS) {
        snprintf(module->why, sizeof module->why, "the ranks cannot vote");
        return 0;
    }
    while (missing < module->size && votes[missing].answer == IS_READY)
        missing++;
    if (missing == module->size)
        return 1;
    *is_wanted = votes[missing].answer != DECLINES;
    share_reason(module, missing);
    return 0;
}

void leave_group(module_t *module)
{
    if (module->group != NULL) {
        fabricast_leave(module->group);
        fabricast_group_free(module->group);
    }
    module->group = NULL;
}

/* Asks for a tree of switches, at one rank. The control plane compares it with trees of adapters by
 * its cost model, and refuses it where they are faster, or where no entry is left. */
static void ask_for_switches(const module_t *module)
{
    const component_t *component = &mca_coll_fabricast_component;
    uint32_t most = 0;
    fabricast_code code;

    if (!component->settings.switches)
        return;
    code = fabricast_ask_for_switch_tree(module->group, &most);
    if (component->verbose < 2)
        return;
    if (code == FABRICAST_OK)
        say("communicator '%s': switches combine up to %u bytes", module->name, most);
    else
        say("communicator '%s': adapters combine: %s", module->name, fabricast_error_text());
}

/* Ends the forming, on all ranks alike. One of them tells of it. */
static void end(module_t *module, int is_formed, int is_wanted)
{
    const component_t *component = &mca_coll_fabricast_component;
    const int is_required = is_wanted && component->settings.mode == MODE_REQUIRE;
    const int tells = module->rank == 0;

    module->state = is_formed ? FORMED : LEFT_ALONE;
    if (is_formed) {
        if (component->verbose >= 2 && tells)
            say("communicator '%s' of %d ranks on %d hosts is the group %s", module->name,
                module->size, module->host_count, fabricast_group_name(module->group));
        if (tells)
            ask_for_switches(module);
        return;
    }
    leave_group(module);
    release_memory(&module->host);
    if (tells && (is_required || component->verbose >= 2))
        say("communicator '%s' of %d ranks %s: %s", module->name, module->size,
            is_required ? "cannot use Fabricast, as FABRICAST_MPI=require demands"
                        : "is left to the next module",
            module->why);
    if (is_wanted)
        refuse_if_required(module->comm);
}

static void *room_for(const module_t *module, size_t bytes)
{
    void *room = calloc(module->size, bytes);

    if (room == NULL)
        ompi_mpi_abort(module->comm, MPI_ERR_NO_MEM);
    return room;
}

/* Lets all leaders join. Returns 1 on all ranks if all have. */
static int join_all(module_t *module, const char *name, int *is_wanted)
{
    vote_t *votes = room_for(module, sizeof *votes), own = attach(module);
    int have_joined = 0;

    if (vote(module, &own, votes, is_wanted)) {
        read_hosts(module, votes);
        if (module->host_count == 1) {
            snprintf(module->why, sizeof module->why, "all its ranks are on one host");
            *is_wanted = 0;
        } else {
            if (module->host.place == 0)
                own.answer = join(module, name);
            own.member = fabricast_group_rank(module->group);
            have_joined = vote(module, &own, votes, is_wanted);
        }
    }
    if (have_joined)
        read_members(module, votes);
    free(votes);
    return have_joined;
}

void form_group(module_t *module)
{
    communicator_t *comm = module->comm;
    next_t *next = &module->next;
    char name[NAME_SIZE] = "", memory[64];
    int is_wanted = 1, mine, all = 0;

    module->state = FORMING;
    memcpy(module->name, comm->c_name, sizeof module->name);
    module->host_of = room_for(module, sizeof *module->host_of);
    module->place_of = room_for(module, sizeof *module->place_of);
    module->leaders = room_for(module, sizeof *module->leaders);
    module->sizes = room_for(module, sizeof *module->sizes);
    module->members = room_for(module, sizeof *module->members);
    module->places = room_for(module, sizeof *module->places);
    if (module->rank == 0)
        name_group(module, name);
    if (next->bcast(name, sizeof name, MPI_BYTE, 0, comm, next->bcast_module) != OMPI_SUCCESS) {
        snprintf(module->why, sizeof module->why, "the group cannot be named");
        end(module, 0, is_wanted);
        return;
    }
    if (join_all(module, name, &is_wanted)) {
        mine = module->host.place == 0 ? wait_for_all(module) : find(module, name);
        if (next->allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm, next->allreduce_module) !=
            OMPI_SUCCESS)
            all = 0;
        if (mine && !all)
            snprintf(module->why, sizeof module->why,
                     "some ranks did not see the others take part, or the memory of their host");
    }
    if (module->host.size > 1 && module->host.place == 0) {
        name_memory(module, name, memory, sizeof memory);
        shm_unlink(memory); /* all have found it, or nobody needs it */
    }
    end(module, all, is_wanted);
}
