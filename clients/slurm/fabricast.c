/* Plugin of Slurm (SPANK): asks for multicast groups for a job, and gives their token to its tasks.
 *
 *   srun, sbatch, salloc          slurmctld                          slurmstepd
 *   --fabricast[-groups]  ──────► PrologSlurmctld, with              tasks, with
 *   chooses the token             SPANK_FABRICAST[_TOKEN|_GROUPS|..] FABRICAST_JOB, _TOKEN, ...
 *
 * A job without the option gets nothing. Arguments in plugstack.conf, all optional:
 *   scheduler=NAME  name of this Slurm, as for `fabricast slurm`; default slurm
 *   socket=PATH     socket of the operating agents, for FABRICAST_SOCKET
 *   node            set FABRICAST_NODE to the node's name, for sockets that serve several nodes
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/spank.h>

SPANK_PLUGIN(fabricast, 1);

enum { TOKEN_BYTES = 16, MOST_GROUPS = 1 << 20, MOST_ENTRIES = 65535 };

static const char *demand;            /* yes or require; NULL without the option */
static long groups;                   /* 0 for the whole share */
static long entries;                  /* for aggregation */
static const char *scheduler = "slurm";
static const char *agent_socket;
static int names_node;

/* Slurm hands an option without a value on to steps as this text. */
static const char NO_VALUE[] = "(null)";

static int set_demand(int value, const char *text, int remote) {
    (void)value;
    (void)remote;
    if (text != NULL && strcmp(text, "no") == 0) {
        demand = NULL;
    } else if (text == NULL || strcmp(text, "yes") == 0 || strcmp(text, NO_VALUE) == 0) {
        demand = "yes";
    } else if (strcmp(text, "require") == 0) {
        demand = "require";
    } else {
        slurm_error("--fabricast: '%s' is not yes, no or require", text);
        return -1;
    }
    return 0;
}

/* Reads a number from 1 to `most`; implies --fabricast. */
static int read_number(const char *option, const char *text, long most, long *number) {
    char *end = NULL;
    errno = 0;
    *number = text == NULL ? 0 : strtol(text, &end, 10);
    if (errno != 0 || end == NULL || *end != '\0' || *number < 1 || *number > most) {
        slurm_error("--%s: '%s' is not from 1 to %ld", option, text == NULL ? "" : text, most);
        return -1;
    }
    if (demand == NULL) {
        demand = "yes";
    }
    return 0;
}

static int set_groups(int value, const char *text, int remote) {
    (void)value;
    (void)remote;
    return read_number("fabricast-groups", text, MOST_GROUPS, &groups);
}

static int set_entries(int value, const char *text, int remote) {
    (void)value;
    (void)remote;
    return read_number("fabricast-aggregation", text, MOST_ENTRIES, &entries);
}

static struct spank_option options[] = {
    {"fabricast", "yes|no|require", "Reserve multicast groups for the job; `require`: or do not run",
     2, 0, set_demand},
    {"fabricast-groups", "N", "Number of groups; default: the job's share", 1, 0, set_groups},
    {"fabricast-aggregation", "N", "Aggregation entries in each switch above the nodes; default: 0",
     1, 0, set_entries},
    SPANK_OPTIONS_TABLE_END,
};

/* Reads an argument of plugstack.conf; 0 if there is no such argument. */
static int read_argument(const char *argument) {
    if (strncmp(argument, "scheduler=", 10) == 0) {
        scheduler = argument + 10;
    } else if (strncmp(argument, "socket=", 7) == 0) {
        agent_socket = argument + 7;
    } else if (strcmp(argument, "node") == 0) {
        names_node = 1;
    } else {
        return 0;
    }
    return 1;
}

int slurm_spank_init(spank_t spank, int count, char **arguments) {
    struct spank_option *option;
    int at;
    for (at = 0; at < count; at++) {
        if (!read_argument(arguments[at])) {
            slurm_error("fabricast: '%s' in plugstack.conf is no argument", arguments[at]);
            return -1;
        }
    }
    switch (spank_context()) {
    case S_CTX_LOCAL:
    case S_CTX_ALLOCATOR:
    case S_CTX_REMOTE:
        for (option = options; option->name != NULL; option++) {
            if (spank_option_register(spank, option) != ESPANK_SUCCESS) {
                return -1;
            }
        }
        break;
    default:
        break;
    }
    return 0;
}

/* Writes a random token in hexadecimal digits. */
static int make_token(char text[2 * TOKEN_BYTES + 1]) {
    unsigned char bytes[TOKEN_BYTES];
    int file = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, bytes, sizeof bytes);
    size_t at;
    if (file >= 0) {
        close(file);
    }
    if (got != (ssize_t)sizeof bytes) {
        slurm_error("fabricast: no random numbers");
        return -1;
    }
    for (at = 0; at < sizeof bytes; at++) {
        snprintf(text + 2 * at, 3, "%02x", bytes[at]);
    }
    return 0;
}

/* Hands a number to the prolog; 0 is left out. */
static int hand_number(spank_t spank, const char *name, long number) {
    char text[24];
    snprintf(text, sizeof text, "%ld", number);
    return number == 0 || spank_job_control_setenv(spank, name, text, 1) == ESPANK_SUCCESS;
}

/* Where the job is submitted: hands what it asks for to the controller's prolog. */
static int hand_over(spank_t spank) {
    char token[2 * TOKEN_BYTES + 1];
    const char *given = getenv("FABRICAST_TOKEN");
    /* A step of a job has the job's token; its share is part of the job's. */
    if (spank_context() == S_CTX_LOCAL && getenv("SLURM_JOB_ID") != NULL && given != NULL) {
        return 0;
    }
    if (make_token(token) != 0 || setenv("FABRICAST_TOKEN", token, 1) != 0) {
        return -1;
    }
    if (spank_job_control_setenv(spank, "FABRICAST", demand, 1) != ESPANK_SUCCESS ||
        spank_job_control_setenv(spank, "FABRICAST_TOKEN", token, 1) != ESPANK_SUCCESS ||
        !hand_number(spank, "FABRICAST_GROUPS", groups) ||
        !hand_number(spank, "FABRICAST_AGGREGATION", entries)) {
        slurm_error("fabricast: the job cannot be told to the prolog");
        return -1;
    }
    return 0;
}

int slurm_spank_init_post_opt(spank_t spank, int count, char **arguments) {
    spank_context_t context = spank_context();
    (void)count;
    (void)arguments;
    if (demand == NULL || (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR)) {
        return 0;
    }
    return hand_over(spank);
}

/* Finds the token in a task's environment: Slurm keeps what was handed over there, also where the
 * environment of the submission is left behind (--export=NONE). */
static int find_token(spank_t spank, char *text, int length) {
    return spank_getenv(spank, "FABRICAST_TOKEN", text, length) == ESPANK_SUCCESS ||
           spank_getenv(spank, "SLURM_SPANK_FABRICAST_TOKEN", text, length) == ESPANK_SUCCESS;
}

/* On the node: tells a task where it belongs. Only tasks of a job with a token are told. */
int slurm_spank_task_init(spank_t spank, int count, char **arguments) {
    uint32_t job = 0, task = 0;
    char text[256], host[256];
    (void)count;
    (void)arguments;
    if (!find_token(spank, text, (int)sizeof text) ||
        spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS) {
        return 0;
    }
    spank_setenv(spank, "FABRICAST_TOKEN", text, 1);
    snprintf(text, sizeof text, "%s-%u", scheduler, job);
    spank_setenv(spank, "FABRICAST_JOB", text, 1);
    if (agent_socket != NULL) {
        spank_setenv(spank, "FABRICAST_SOCKET", agent_socket, 1);
    }
    if (names_node &&
        spank_getenv(spank, "SLURMD_NODENAME", host, (int)sizeof host) == ESPANK_SUCCESS) {
        spank_setenv(spank, "FABRICAST_NODE", host, 1);
    }
    if (spank_get_item(spank, S_TASK_GLOBAL_ID, &task) == ESPANK_SUCCESS) {
        uint32_t step = 0;
        spank_get_item(spank, S_JOB_STEPID, &step);
        snprintf(text, sizeof text, "%s-%u.%u.%u", scheduler, job, step, task);
        spank_setenv(spank, "FABRICAST_PROCESS", text, 1);
    }
    return 0;
}
