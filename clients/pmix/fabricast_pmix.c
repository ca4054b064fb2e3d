/* The ranks of a PMIx job as a group.
 *
 *   rank 0                      rank r
 *   name       ──── fence ───►  joins
 *              ◄─── fence ────  its member, or why it has none
 */
#include "fabricast_pmix.h"

#include <pmix.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_SIZE 512
#define NO_SIZE "the server does not know the number of ranks"

static _Thread_local char error_text[TEXT_SIZE];
static _Atomic unsigned calls;

/* A call of all ranks. */
typedef struct call {
    pmix_proc_t self, all;
    unsigned number; /* of calls before, the same at all ranks */
} call_t;

static fabricast_code failed(fabricast_code code, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(error_text, sizeof error_text, format, arguments);
    va_end(arguments);
    return code;
}

static void finalize(void)
{
    PMIx_Finalize(NULL, 0);
}

/* Connects to the server, once for the process: a server may drop what a process has published that
 * goes and comes again. */
static pmix_status_t initialize(pmix_proc_t *self)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static pmix_proc_t known;
    static int is_initialized;
    pmix_status_t status = PMIX_SUCCESS;

    pthread_mutex_lock(&lock);
    if (!is_initialized) {
        status = PMIx_Init(&known, NULL, 0);
        is_initialized = status == PMIX_SUCCESS && atexit(finalize) == 0;
    }
    *self = known;
    pthread_mutex_unlock(&lock);
    return status;
}

static fabricast_code failed_in_pmix(const char *what, pmix_status_t status)
{
    return failed(FABRICAST_SYSTEM, "PMIx: %s: %s", what, PMIx_Error_string(status));
}

/* Publishes a text of this rank; others see it after the next fence. */
static pmix_status_t put(const call_t *call, const char *what, const char *text)
{
    char key[PMIX_MAX_KEYLEN + 1];
    pmix_value_t value;
    pmix_status_t status;

    snprintf(key, sizeof key, "fabricast.%s.%u", what, call->number);
    PMIX_VALUE_LOAD(&value, text, PMIX_STRING);
    status = PMIx_Put(PMIX_GLOBAL, key, &value);
    PMIX_VALUE_DESTRUCT(&value);
    return status;
}

/* Waits for all ranks, and takes what they have published. Waits also where this rank could not
 * publish: the others wait for it. */
static pmix_status_t fence(const call_t *call)
{
    pmix_info_t info;
    bool collect = true;
    pmix_status_t committed = PMIx_Commit(), status;

    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    status = PMIx_Fence(&call->all, 1, &info, 1);
    PMIX_INFO_DESTRUCT(&info);
    return committed == PMIX_SUCCESS ? status : committed;
}

/* Returns a text that a rank has published, to be freed; NULL if there is none. */
static char *get(const call_t *call, uint32_t rank, const char *what)
{
    char key[PMIX_MAX_KEYLEN + 1], *text = NULL;
    pmix_value_t *value = NULL;
    pmix_proc_t proc;

    snprintf(key, sizeof key, "fabricast.%s.%u", what, call->number);
    PMIX_LOAD_PROCID(&proc, call->self.nspace, rank);
    if (PMIx_Get(&proc, key, NULL, 0, &value) != PMIX_SUCCESS)
        return NULL;
    if (value->type == PMIX_STRING && value->data.string != NULL)
        text = strdup(value->data.string);
    PMIX_VALUE_RELEASE(value);
    return text;
}

/* Reads the number of ranks; 0 if the server does not say. */
static uint32_t job_size(const call_t *call)
{
    pmix_value_t *value = NULL;
    uint32_t size = 0;

    if (PMIx_Get(&call->all, PMIX_JOB_SIZE, NULL, 0, &value) != PMIX_SUCCESS)
        return 0;
    if (value->type == PMIX_UINT32)
        size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    return size;
}

/* Writes a name that no other group has: another launcher may have had the same namespace. */
static void make_name(const call_t *call, char *name)
{
    const char *job = getenv("FABRICAST_JOB");
    int has_job = job != NULL && job[0] != '\0';

    snprintf(name, TEXT_SIZE, "%s%.200s/%.100s-%lx/%u", has_job ? "job/" : "pmix",
             has_job ? job : "", call->self.nspace, (long)getpid(), call->number);
}

/* Joins the group that rank 0 has named; returns why there is no member, or NULL. */
static const char *join_named(const call_t *call, const fabricast_client *client,
                              fabricast_group **group)
{
    char *named = get(call, 0, "group");
    const char *why = NULL;

    if (client == NULL)
        why = "has not attached";
    else if (named == NULL)
        why = "got no name of a group";
    else if (fabricast_join(client, named, group) != FABRICAST_OK)
        why = fabricast_error_text();
    free(named);
    return why;
}

/* Joins the group that rank 0 has named, and publishes which member that makes, or why there is
 * none. Takes part in both fences, whatever fails: the other ranks wait in them. */
static pmix_status_t join(const call_t *call, const fabricast_client *client, const char *name,
                          uint32_t size, fabricast_group **group)
{
    char text[TEXT_SIZE];
    const char *why;
    pmix_status_t status = PMIX_SUCCESS, next;

    if (call->self.rank == 0) {
        make_name(call, text);
        status = put(call, "group", name == NULL ? text : name);
    }
    next = fence(call);
    if (status == PMIX_SUCCESS)
        status = next;
    if (status != PMIX_SUCCESS)
        why = PMIx_Error_string(status);
    else
        why = size == 0 ? NO_SIZE : join_named(call, client, group);
    if (why == NULL)
        snprintf(text, sizeof text, "%lu", (unsigned long)fabricast_group_rank(*group));
    next = put(call, why == NULL ? "member" : "why", why == NULL ? text : why);
    if (status == PMIX_SUCCESS)
        status = next;
    next = fence(call);
    return status == PMIX_SUCCESS ? next : status;
}

/* Reads which member each rank is. */
static fabricast_code read_members(const call_t *call, uint32_t size, uint32_t *members)
{
    for (uint32_t rank = 0; rank < size; rank++) {
        char *member = get(call, rank, "member"), *why;

        if (member == NULL) {
            why = get(call, rank, "why");
            failed(FABRICAST_REFUSED, "rank %u: %s", rank, why == NULL ? "says nothing" : why);
            free(why);
            return FABRICAST_REFUSED;
        }
        if (members != NULL)
            members[rank] = (uint32_t)strtoul(member, NULL, 10);
        free(member);
    }
    return FABRICAST_OK;
}

fabricast_code fabricast_pmix_join(const fabricast_client *client, const char *name,
                                   fabricast_group **group, uint32_t *members)
{
    call_t call = {.number = calls++};
    pmix_status_t status = initialize(&call.self);
    uint32_t size;
    fabricast_code code;

    *group = NULL;
    if (status != PMIX_SUCCESS)
        return failed_in_pmix("no server", status);
    PMIX_LOAD_PROCID(&call.all, call.self.nspace, PMIX_RANK_WILDCARD);
    size = job_size(&call);
    status = join(&call, client, name, size, group);
    if (status != PMIX_SUCCESS)
        code = failed_in_pmix("tell the other ranks", status);
    else if (size == 0)
        code = failed(FABRICAST_SYSTEM, "PMIx: %s", NO_SIZE);
    else
        code = read_members(&call, size, members);
    if (code != FABRICAST_OK && *group != NULL) {
        fabricast_leave(*group);
        fabricast_group_free(*group);
        *group = NULL;
    }
    return code;
}

fabricast_code fabricast_pmix_attach(const char *socket, const char *node,
                                     fabricast_client **client)
{
    char process[TEXT_SIZE];
    pmix_proc_t self;
    pmix_status_t status = initialize(&self);
    fabricast_code code;

    *client = NULL;
    if (status != PMIX_SUCCESS)
        return failed_in_pmix("no server", status);
    snprintf(process, sizeof process, "%.200s.%u-%ld", self.nspace, self.rank, (long)getpid());
    code = fabricast_attach(socket, process, node, client);
    if (code != FABRICAST_OK)
        failed(code, "%s", fabricast_error_text());
    return code;
}

uint32_t fabricast_pmix_size(void)
{
    call_t call = {0};
    pmix_status_t status = initialize(&call.self);
    uint32_t size;

    if (status != PMIX_SUCCESS) {
        failed_in_pmix("no server", status);
        return 0;
    }
    PMIX_LOAD_PROCID(&call.all, call.self.nspace, PMIX_RANK_WILDCARD);
    size = job_size(&call);
    if (size == 0)
        failed(FABRICAST_SYSTEM, "PMIx: %s", NO_SIZE);
    return size;
}

fabricast_code fabricast_pmix_leave(fabricast_group *group)
{
    call_t call = {0};
    pmix_status_t status = initialize(&call.self);
    fabricast_code code;

    if (status == PMIX_SUCCESS) {
        PMIX_LOAD_PROCID(&call.all, call.self.nspace, PMIX_RANK_WILDCARD);
        status = PMIx_Fence(&call.all, 1, NULL, 0);
    }
    code = fabricast_leave(group);
    if (code != FABRICAST_OK)
        failed(code, "%s", fabricast_error_text());
    fabricast_group_free(group);
    return status == PMIX_SUCCESS ? code : failed_in_pmix("wait for the other ranks", status);
}

const char *fabricast_pmix_error_text(void)
{
    return error_text;
}
