/* The component: settings, the agreement of all processes on them, the attached process, and the
 * summary. */
#include "coll_fabricast.h"

#include <stdarg.h>
#include <unistd.h>

#include "ompi/mca/rte/rte.h"
#include "ompi/runtime/mpiruntime.h"
#include "opal/mca/pmix/pmix.h"
#include "opal/runtime/opal_progress.h"

/* Grows whenever the ranks of a communicator send each other something else. */
#define FORMAT 2
/* The most communicators that a summary lists. */
#define MOST_LISTED 20

const char *const kind_names[KINDS] = {"allgather", "allreduce", "barrier", "bcast", "reduce"};

void say(const char *format, ...)
{
    char line[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "fabricast: %s\n", line); /* at once, so that lines of ranks do not mix */
}

void refuse_if_required(communicator_t *comm)
{
    if (mca_coll_fabricast_component.settings.mode == MODE_REQUIRE)
        ompi_mpi_abort(comm, MPI_ERR_OTHER);
}

/* ---- Settings ---- */

static void register_text(const char *name, const char *help, char **value)
{
    mca_base_component_var_register(&mca_coll_fabricast_component.super.collm_version, name, help,
                                    MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0, OPAL_INFO_LVL_4,
                                    MCA_BASE_VAR_SCOPE_READONLY, value);
}

static void register_number(const char *name, const char *help, mca_base_var_type_t type,
                            void *value)
{
    mca_base_component_var_register(&mca_coll_fabricast_component.super.collm_version, name, help,
                                    type, NULL, 0, 0, OPAL_INFO_LVL_4, MCA_BASE_VAR_SCOPE_READONLY,
                                    value);
}

/* Groups of a job that has reserved some are part of its share. */
static char *default_prefix(char *text, size_t size)
{
    const char *job = getenv("FABRICAST_JOB");

    if (job == NULL || job[0] == '\0')
        snprintf(text, size, "mpi/");
    else
        snprintf(text, size, "job/%s/mpi/", job);
    return text;
}

static int register_parameters(void)
{
    component_t *it = &mca_coll_fabricast_component;
    char *mode = getenv("FABRICAST_MPI"), *nodes = getenv("FABRICAST_MPI_NODES");
    static char prefix[300];

    it->mode = mode == NULL || mode[0] == '\0' ? "off" : mode;
    it->socket = getenv("FABRICAST_SOCKET");
    it->nodes = nodes == NULL ? "" : nodes;
    it->prefix = default_prefix(prefix, sizeof prefix);
    it->least_ranks = 2;
    it->after = 8;
    it->always = 0;
    it->switches = 1;
    it->least_bytes = 1;
    it->most_bytes = (size_t)64 << 20;
    it->timeout_ms = 10000;
    it->verbose = 0;
    register_text("mode",
                  "off, try, or require: end the job where a communicator cannot use Fabricast. "
                  "Default: FABRICAST_MPI in the environment, or else off",
                  &it->mode);
    register_text("socket",
                  "Socket of the node's operating agent. Default: FABRICAST_SOCKET in the "
                  "environment",
                  &it->socket);
    register_text("nodes",
                  "Names of nodes, separated by commas, which the ranks of a machine take in turn. "
                  "Default: FABRICAST_MPI_NODES in the environment, or else FABRICAST_NODE, or "
                  "else the only node of the agent",
                  &it->nodes);
    register_text("prefix",
                  "Beginning of the names of groups. Default: job/JOB/mpi/ with FABRICAST_JOB in "
                  "the environment, or else mpi/",
                  &it->prefix);
    register_number("least_ranks", "Communicators with fewer ranks are left to the next module",
                    MCA_BASE_VAR_TYPE_INT, &it->least_ranks);
    register_number("after",
                    "Operations of a communicator, of those that wait for their end, before its "
                    "group is formed",
                    MCA_BASE_VAR_TYPE_INT, &it->after);
    register_number("always",
                    "1 lets the group do all operations that it can, instead of those that it does "
                    "faster than the next module. So does the mode require",
                    MCA_BASE_VAR_TYPE_INT, &it->always);
    register_number("switches",
                    "1 asks for a tree of switches for each group, which the control plane "
                    "compares with a tree of adapters",
                    MCA_BASE_VAR_TYPE_INT, &it->switches);
    register_number("least_bytes",
                    "Operations with fewer bytes in a contribution are left to the next module",
                    MCA_BASE_VAR_TYPE_SIZE_T, &it->least_bytes);
    register_number("most_bytes",
                    "Operations with more bytes in a contribution are left to the next module",
                    MCA_BASE_VAR_TYPE_SIZE_T, &it->most_bytes);
    register_number("timeout", "Time in milliseconds in which all ranks have to be in their group",
                    MCA_BASE_VAR_TYPE_INT, &it->timeout_ms);
    register_number("verbose",
                    "1 tells at the end which communicators used Fabricast, 2 also when each "
                    "forms its group or why it does not, and why an operation goes where it goes",
                    MCA_BASE_VAR_TYPE_INT, &it->verbose);
    return OPAL_SUCCESS;
}

/* Reads the mode. An unknown one is told, and counts as off. */
static int read_mode(const char *text, int32_t *mode)
{
    static const char *const names[] = {"off", "try", "require"};

    for (int it = MODE_OFF; it <= MODE_REQUIRE; it++)
        if (text != NULL && strcmp(text, names[it]) == 0) {
            *mode = it;
            return OPAL_SUCCESS;
        }
    say("FABRICAST_MPI is '%s', and not off, try or require", text == NULL ? "" : text);
    return OPAL_ERR_BAD_PARAM;
}

/* Publishes the settings for all processes of the job. */
static int open_component(void)
{
    component_t *it = &mca_coll_fabricast_component;
    int code = read_mode(it->mode, &it->settings.mode);

    if (code != OPAL_SUCCESS || it->settings.mode == MODE_OFF || opal_pmix.put == NULL)
        return OPAL_ERR_NOT_AVAILABLE;
    it->settings.format = FORMAT;
    it->settings.least_ranks = it->least_ranks < 2 ? 2 : it->least_ranks;
    it->settings.after = it->after;
    it->settings.always = it->always != 0 || it->settings.mode == MODE_REQUIRE;
    it->settings.switches = it->switches != 0;
    it->settings.least_bytes = it->least_bytes;
    it->settings.most_bytes = it->most_bytes;
    pthread_mutex_init(&it->lock, NULL);
    OPAL_MODEX_SEND(code, OPAL_PMIX_GLOBAL, &it->super.collm_version, &it->settings,
                    sizeof it->settings);
    return code;
}

/* Compares the settings of all processes of the job with those of this one: 1 if they are equal.
 * All processes come to the same answer. */
static int compare_settings(void)
{
    component_t *it = &mca_coll_fabricast_component;
    communicator_t *world = &ompi_mpi_comm_world.comm;

    for (int rank = 0; rank < ompi_comm_size(world); rank++) {
        opal_process_name_t name = ompi_group_get_proc_name(world->c_local_group, rank);
        void *theirs = NULL;
        size_t size = 0;
        int code, equal;

        if (rank == ompi_comm_rank(world))
            continue;
        OPAL_MODEX_RECV(code, &it->super.collm_version, &name, &theirs, &size);
        equal = code == OPAL_SUCCESS && size == sizeof it->settings &&
                memcmp(theirs, &it->settings, size) == 0;
        if (code == OPAL_SUCCESS)
            free(theirs);
        if (equal)
            continue;
        if (ompi_comm_rank(world) == (rank == 0)) /* one of those that see a difference */
            say("rank %d %s: Fabricast is not used", rank,
                code == OPAL_SUCCESS ? "has other settings of coll_fabricast"
                                     : "lacks coll_fabricast, or has it off");
        refuse_if_required(world);
        return 0;
    }
    return 1;
}

static int init_component(bool progress_threads, bool mpi_threads)
{
    (void)progress_threads;
    (void)mpi_threads;
    return OMPI_SUCCESS;
}

/* Returns 1 if the members of a communicator are of one job, and so have agreed. */
static int is_of_one_job(communicator_t *comm)
{
    ompi_jobid_t job = ompi_group_get_proc_name(comm->c_local_group, 0).jobid;

    for (int rank = 1; rank < ompi_comm_size(comm); rank++)
        if (ompi_group_get_proc_name(comm->c_local_group, rank).jobid != job)
            return 0;
    return 1;
}

static base_module_t *query(communicator_t *comm, int *priority)
{
    component_t *it = &mca_coll_fabricast_component;

    if (OMPI_COMM_IS_INTER(comm) || ompi_comm_size(comm) < 2)
        return NULL;
    if (it->agreement == 0)
        it->agreement = compare_settings() ? 1 : -1;
    if (it->agreement < 0 || ompi_comm_size(comm) < it->settings.least_ranks ||
        !is_of_one_job(comm))
        return NULL;
    return query_communicator(comm, priority);
}

/* ---- The attached process ---- */

/* Writes the name of the node of this process, if the list of nodes says one. */
static const char *choose_node(char *name, size_t size)
{
    const char *nodes = mca_coll_fabricast_component.nodes;
    unsigned count = 1, wanted;

    if (nodes == NULL || nodes[0] == '\0')
        return NULL;
    for (const char *at = nodes; *at != '\0'; at++)
        count += *at == ',';
    wanted = ompi_process_info.my_local_rank % count;
    for (; wanted > 0; wanted--)
        nodes = strchr(nodes, ',') + 1;
    snprintf(name, size, "%.*s", (int)strcspn(nodes, ","), nodes);
    return name;
}

fabricast_client *attached_client(char *why)
{
    component_t *it = &mca_coll_fabricast_component;
    char process[64], node[512];

    pthread_mutex_lock(&it->lock);
    if (it->client != NULL && fabricast_wait_detached(it->client, 0) == FABRICAST_DETACHED) {
        fabricast_client_free(it->client);
        it->client = NULL;
    }
    /* The name is new on its node, so that nobody waits for the end of another process. */
    snprintf(process, sizeof process, "mpi-%08x-%u-%ld", OMPI_PROC_MY_NAME->jobid,
             OMPI_PROC_MY_NAME->vpid, (long)getpid());
    if (it->client == NULL &&
        fabricast_attach(it->socket, process, choose_node(node, sizeof node), &it->client) !=
            FABRICAST_OK)
        snprintf(why, WHY_SIZE, "%s", fabricast_error_text());
    pthread_mutex_unlock(&it->lock);
    return it->client;
}

/* ---- Operations that no call waits for ---- */

/* Advances what is under way, whenever Open MPI progresses messages. */
static int progress(void)
{
    component_t *it = &mca_coll_fabricast_component;
    module_t *idle = NULL;
    int events = 0;

    if (it->active == NULL || pthread_mutex_trylock(&it->lock) != 0)
        return 0;
    for (module_t **at = &it->active; *at != NULL;) {
        module_t *module = *at;
        int is_idle = 0;

        if (pthread_mutex_trylock(&module->lock) == 0) {
            events += advance(module, 0);
            is_idle = module->oldest == NULL;
            pthread_mutex_unlock(&module->lock);
        }
        if (is_idle) {
            *at = module->next_active;
            module->is_active = 0;
            module->next_active = idle;
            idle = module;
        } else {
            at = &module->next_active;
        }
    }
    pthread_mutex_unlock(&it->lock);
    while (idle != NULL) {
        module_t *module = idle;

        idle = module->next_active;
        OBJ_RELEASE(module);
    }
    return events;
}

void activate(module_t *module)
{
    component_t *it = &mca_coll_fabricast_component;

    pthread_mutex_lock(&it->lock);
    if (!module->is_active) {
        OBJ_RETAIN(module);
        module->is_active = 1;
        module->next_active = it->active;
        it->active = module;
    }
    if (!it->is_registered)
        opal_progress_register(progress);
    it->is_registered = 1;
    pthread_mutex_unlock(&it->lock);
}

/* ---- The summary ---- */

static uint64_t sum(const uint64_t *counts)
{
    uint64_t all = 0;

    for (int kind = 0; kind < KINDS; kind++)
        all += counts[kind];
    return all;
}

/* The path of a communicator's operations, in words. The multicast may have come later than the
 * group. */
static const char *path_of(const module_t *module)
{
    const char *path = module->group == NULL ? module->path : fabricast_path(module->group);

    if (path == NULL || strcmp(path, "agent") == 0)
        return "through the agent";
    return strcmp(path, "direct") == 0 ? "by the direct path" : "by the direct path with multicast";
}

/* Writes what the group of a communicator has done. Returns the length of the text. */
static int tell_done(const module_t *module, char *text, size_t size)
{
    const counts_t *counts = &module->counts;
    const uint64_t combined =
        module->group == NULL ? 0 : fabricast_combined_by_switches(module->group);
    int length = 0;

    for (int kind = 0; kind < KINDS; kind++)
        if (counts->done[kind] > 0)
            length += snprintf(text + length, size - length, "%llu %s, ",
                               (unsigned long long)counts->done[kind], kind_names[kind]);
    length += snprintf(text + length, size - length, "%llu bytes %s",
                       (unsigned long long)counts->bytes, path_of(module));
    if (module->host_count < module->size)
        length += snprintf(text + length, size - length, " between %d hosts", module->host_count);
    if (combined > 0)
        length += snprintf(text + length, size - length, ", %llu combined by switches",
                           (unsigned long long)combined);
    length += snprintf(text + length, size - length, "; ");
    return length;
}

void summarize(const module_t *module)
{
    component_t *it = &mca_coll_fabricast_component;
    const counts_t *counts = &module->counts;
    char line[1024], *longer = NULL;
    int length = 0;

    if (it->verbose < 1 || OMPI_PROC_MY_NAME->vpid != 0 ||
        sum(counts->done) + sum(counts->next) == 0)
        return;
    pthread_mutex_lock(&it->lock);
    it->communicators++;
    it->left_alone += sum(counts->done) == 0;
    it->unlisted += it->communicators > MOST_LISTED;
    length = snprintf(line, sizeof line, "fabricast: '%s', %d ranks: ", module->name, module->size);
    if (sum(counts->done) > 0)
        length += tell_done(module, line + length, sizeof line - length);
    length += snprintf(line + length, sizeof line - length, "%llu by the next module",
                       (unsigned long long)sum(counts->next));
    if (counts->faster > 0)
        length += snprintf(line + length, sizeof line - length, ", %llu because it is faster",
                           (unsigned long long)counts->faster);
    snprintf(line + length, sizeof line - length, "%s%s\n", module->why[0] == '\0' ? "" : ": ",
             module->why);
    if (it->communicators <= MOST_LISTED &&
        asprintf(&longer, "%s%s", it->summary == NULL ? "" : it->summary, line) >= 0) {
        free(it->summary);
        it->summary = longer;
    }
    pthread_mutex_unlock(&it->lock);
}

static int close_component(void)
{
    component_t *it = &mca_coll_fabricast_component;

    if (it->is_registered)
        opal_progress_unregister(progress);
    fabricast_client_free(it->client);
    if (it->summary != NULL)
        fprintf(stderr, "fabricast: %d communicators of rank 0, %d without Fabricast\n%s",
                it->communicators, it->left_alone, it->summary);
    if (it->unlisted > 0)
        say("%d more communicators", it->unlisted);
    free(it->summary);
    it->client = NULL;
    it->summary = NULL;
    it->is_registered = 0;
    return OPAL_SUCCESS;
}

/* What Open MPI looks for in the file. */
__attribute__((visibility("default"))) component_t mca_coll_fabricast_component = {
    .super = {
        .collm_version = {
            MCA_COLL_BASE_VERSION_2_0_0,
            .mca_component_name = "fabricast",
            MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
                                  OMPI_RELEASE_VERSION),
            .mca_open_component = open_component,
            .mca_close_component = close_component,
            .mca_register_component_params = register_parameters,
        },
        .collm_data = {MCA_BASE_METADATA_PARAM_NONE},
        .collm_init_query = init_component,
        .collm_comm_query = query,
    },
};
