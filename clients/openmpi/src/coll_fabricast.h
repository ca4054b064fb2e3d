/* The component coll/fabricast of Open MPI 4.1: collective operations of MPI over groups of
 * Fabricast. docs/open-mpi.md tells users of it.
 *
 * component.c  settings, the agreement of all processes on them, the attached process, the summary
 * module.c     functions that Open MPI calls for a communicator
 * choice.c     the choice between the group and the next module, by measured times
 * form.c       the group of a communicator: all ranks have it, or none
 * host.c       memory that the ranks of one host share
 * kinds.c      operations, made from the arguments of MPI's functions
 * pairs.c      values with their indices, which are carried as numbers
 * operation.c  operations under way
 *
 * A communicator's ranks decide alike without asking each other, because they decide by what MPI
 * makes equal on all of them: the settings, the order of calls on the communicator, the function,
 * the operator, and the bytes of the type signature. The group is voted on, once, and measured
 * times are combined by the group, so that all ranks have the same ones. */
#ifndef COLL_FABRICAST_H
#define COLL_FABRICAST_H

#include "ompi_config.h"

#if OMPI_MAJOR_VERSION != 4 || OMPI_MINOR_VERSION != 1
#error "this component is for Open MPI 4.1"
#endif

#include <fabricast.h>
#include <pthread.h>

#include "mpi.h"
#include "ompi/communicator/communicator.h"
#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/base/coll_base_util.h"
#include "ompi/mca/coll/coll.h"

typedef struct ompi_communicator_t communicator_t;
typedef struct ompi_datatype_t datatype_t;
typedef struct ompi_op_t operator_t;
typedef mca_coll_base_module_t base_module_t;

/* Length of a sentence that says why something is as it is. */
#define WHY_SIZE 320

enum mode { MODE_OFF, MODE_TRY, MODE_REQUIRE };

/* What all processes of a job have to agree on. */
typedef struct agreed {
    uint32_t format; /* of what the ranks of a communicator send each other */
    int32_t mode;
    int32_t least_ranks;
    int32_t after;
    int32_t always;   /* the group does all that it can */
    int32_t switches; /* groups ask for trees of switches */
    uint64_t least_bytes;
    uint64_t most_bytes;
} agreed_t;

/* The operations, blocking or not. */
typedef enum kind { ALLGATHER, ALLREDUCE, BARRIER, BCAST, REDUCE, KINDS } kind_t;

extern const char *const kind_names[KINDS];

/* What a communicator's ranks did with each kind of operation. */
typedef struct counts {
    uint64_t done[KINDS];  /* through the group */
    uint64_t bytes;        /* that this rank gave to them, or took from a broadcast */
    uint64_t next[KINDS];  /* by the next module */
    uint64_t faster;       /* of these, because it is faster */
} counts_t;

typedef enum state {
    UNDECIDED, /* no operation has asked for a group yet */
    FORMING,   /* the ranks vote, by operations of the next module */
    FORMED,
    LEFT_ALONE, /* the next module does everything */
    BROKEN      /* an operation failed: the others of the communicator fail, too */
} state_t;

/* Calls X for each function of a communicator that the component replaces. */
#define REPLACED_FUNCTIONS(X)                                                                      \
    X(allgather)                                                                                   \
    X(allreduce)                                                                                   \
    X(barrier)                                                                                     \
    X(bcast)                                                                                       \
    X(reduce)                                                                                      \
    X(iallgather)                                                                                  \
    X(iallreduce)                                                                                  \
    X(ibarrier)                                                                                    \
    X(ibcast)                                                                                      \
    X(ireduce)

/* The functions that were there before, with their modules. */
typedef struct next {
#define FIELD(name)                                                                                \
    mca_coll_base_module_##name##_fn_t name;                                                       \
    base_module_t *name##_module;
    REPLACED_FUNCTIONS(FIELD)
#undef FIELD
} next_t;

typedef struct operation operation_t;

/* A part of an operation that the library runs. */
typedef struct part {
    fabricast_request *request;
    operation_t *operation;
    size_t offset, length;
    char *gathered; /* payloads that are not in their places yet */
} part_t;

/* Parts that the library has at once. */
#define MOST_PARTS 8

/* Pairs of operations that a trial measures at most, of which the first does not count. */
#define MOST_PAIRS 7

/* Operations of one kind and of about one size: who does them. */
typedef struct choice {
    int is_known;
    int is_group;         /* the group does them, not the next module */
    uint64_t until_trial; /* operations until they are measured again */
    int measured;         /* operations of the trial so far, by the group and the next in turn */
    double seconds[2 * MOST_PAIRS];
} choice_t;

/* Choices of a kind: one for no bytes, and one for each number of bits of the bytes. */
#define SIZES 65

typedef struct shared shared_t;

/* Ranks of the communicator that are on the host of this one, and can share memory with it. The
 * first of them is the leader, which is in the group for all. */
typedef struct host {
    int size;
    int place;          /* of this rank among them; that of the leader is 0 */
    int32_t *processes; /* by place: ids */
    shared_t *shared;   /* NULL if there is one rank */
    uint64_t next_look; /* in milliseconds: when to look again which processes live */
    int suspect;        /* place of one that has ended; -1: none */
} host_t;

/* The component on one communicator. */
typedef struct module {
    base_module_t super;
    communicator_t *comm; /* NULL once the communicator is gone */
    int rank, size;
    char name[MPI_MAX_OBJECT_NAME];
    next_t next;
    state_t state;
    char why[WHY_SIZE]; /* it is left alone, or broken */
    int before_group;   /* blocking operations that the group could have done */
    int is_always;      /* the group does all that it can */
    choice_t *choices[KINDS][SIZES];
    const char *path;   /* of its operations, as fabricast_path says when the group is joined */
    counts_t counts;

    int host_count, most_at_host;
    int *host_of;       /* by rank: number of its host */
    int *place_of;      /* by rank: place among the ranks of its host */
    int *leaders;       /* by host: rank of the leader */
    int *sizes;         /* by host: ranks on it */
    uint32_t *members;  /* by host: rank of the leader in the group */
    int *places;        /* by host: place of its leader in the order of the group's ranks */
    int is_in_order;    /* the two orders are the same */

    pthread_mutex_t lock; /* of what follows */
    fabricast_group *group; /* NULL at ranks that are no leaders */
    host_t host;
    /* Operations in the order of calls. `unbrought` is the first that lacks contributions of this
     * host, `unstarted` the first with parts that the group has not begun. */
    operation_t *oldest, *newest, *unbrought, *unstarted;
    part_t parts[MOST_PARTS];                 /* a ring */
    int first_part, part_count;

    struct module *next_active; /* under the lock of the component */
    int is_active;
} module_t;
OBJ_CLASS_DECLARATION(module_t);

/* The exchange between the ranks of a host. */
typedef struct exchange {
    size_t up;          /* bytes that each rank brings to the leader */
    size_t down;        /* bytes that the leader hands to each of the others */
    size_t brought;     /* bytes of a rank that have come so far */
    size_t handed;      /* bytes that were handed on so far */
    int giver;          /* place of the rank whose bytes the leader takes */
    int end_of_givers;  /* place after that of the last one */
    char *more;         /* the leader's memory for what another rank adds to a reduction */
    char *block;        /* contributions of the host to an all-gather */
    char *blocks;       /* those of all hosts */
    size_t each;        /* bytes of a rank in them */
} exchange_t;

/* The work of the group of the leaders. */
typedef struct combining {
    uint32_t root;
    fabricast_reduction reduction;
    fabricast_type type;
    size_t length;      /* bytes of a contribution */
    size_t number;      /* bytes of a number of a reduction */
    size_t most;        /* bytes of a part */
    size_t started;     /* bytes of parts that were started */
    size_t ended;       /* of those that have ended */
    int is_combined;    /* the group has done its part */
    datatype_t *pairs;  /* type of pairs that are carried as numbers, or NULL */
    char *numbers_from; /* these numbers */
    char *numbers_to;
} combining_t;

/* Elements of a reduction, or of the buffer where a packed result is unpacked to. */
typedef struct elements {
    operator_t *operator;
    size_t count;
    datatype_t *datatype;
    void *buffer;       /* NULL: nothing is unpacked */
    size_t packed;      /* bytes of the packed result */
} elements_t;

/* Operations that were called and have not ended yet. The first field is MPI's request. */
struct operation {
    ompi_coll_base_nbc_request_t request;
    operation_t *later;
    kind_t kind;
    const char *from;   /* the contribution of this rank; once all is brought, of its host */
    char *to;           /* place for the result, or NULL */
    char *packed_from;  /* memory of the two, if the program's cannot be used */
    char *packed_to;
    char token;         /* contribution and result of a barrier */
    int is_own;         /* the program has not called it */
    int is_blocking;
    int has_ended;
    int result;         /* code of MPI */
    exchange_t exchange;
    combining_t combining;
    elements_t elements;
};
OBJ_CLASS_DECLARATION(operation_t);

/* ---- component.c ---- */

typedef struct component {
    mca_coll_base_component_t super;
    agreed_t settings;
    char *mode, *socket, *nodes, *prefix; /* values of parameters */
    int least_ranks, after, always, switches, timeout_ms, verbose;
    size_t least_bytes, most_bytes;
    int agreement; /* of all processes on the settings: 0 unknown, 1 yes, -1 no */

    pthread_mutex_t lock; /* of what follows */
    fabricast_client *client;
    module_t *active; /* modules with operations under way that no call waits for */
    int is_registered;
    char *summary;
    int communicators, left_alone, unlisted;
} component_t;

extern component_t mca_coll_fabricast_component;

/* Says something on standard error. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Ends the job, if FABRICAST_MPI=require demands it; the sentence was said before. */
void refuse_if_required(communicator_t *comm);

/* Attaches the process, once. Returns NULL if that fails, with the reason in `why`. */
fabricast_client *attached_client(char *why);

/* Adds a communicator that ends to the summary. */
void summarize(const module_t *module);

/* Lets Open MPI's progress function advance the operations of the module. */
void activate(module_t *module);

/* ---- module.c ---- */

base_module_t *query_communicator(communicator_t *comm, int *priority);

/* ---- choice.c ---- */

/* The choice for one call. */
typedef struct turn {
    int is_ours;        /* the group does the operation */
    choice_t *measured; /* NULL: it is not measured */
    double begun;       /* seconds */
} turn_t;

/* Decides who does an operation of so many bytes: the group forms before, if it is time for it.
 *
 * bytes: 0 for those that the group cannot do, unless it is a barrier.
 * may_wait: 1 if the call may wait for the other ranks. */
turn_t begin_turn(module_t *module, kind_t kind, size_t bytes, int may_wait);

/* Ends what begin_turn has begun for a call that may wait. Takes and returns the call's code. */
int end_turn(module_t *module, kind_t kind, size_t bytes, turn_t turn, int code);

/* ---- form.c ---- */

/* Forms the group of a communicator, by one vote of all ranks: the module becomes FORMED or
 * LEFT_ALONE on all of them. */
void form_group(module_t *module);

/* Leaves the group, if there is one. */
void leave_group(module_t *module);

/* ---- host.c ---- */

/* Makes the memory of a host's ranks, at the leader, or finds it, at the others. Returns 0 or a
 * number of the system's error. */
int make_memory(host_t *host, const char *name);
int find_memory(host_t *host, const char *name);

/* Takes the memory out of this process. */
void release_memory(host_t *host);

/* Write bytes for the leader, and for all others; return how many there was room for. */
size_t write_up(host_t *host, const char *from, size_t length);
size_t write_down(host_t *host, const char *from, size_t length);

/* Read bytes of the rank at a place, and of the leader; return how many there were. Those that
 * nobody wants are dropped: `to` is NULL then. */
size_t read_up(host_t *host, int place, char *to, size_t length);
size_t read_down(host_t *host, char *to, size_t length);

/* Lets the other ranks of the host fail, too. */
void break_host(host_t *host);

/* Looks if another rank of the host has failed or ended, and says so in `why`. For ranks that wait
 * for others in vain. */
int is_host_broken(host_t *host, char *why);

/* ---- kinds.c ---- */

/* A buffer of the program. */
typedef struct buffer {
    void *start;
    size_t count;
    datatype_t *datatype;
} buffer_t;

/* Arguments of a reduction, with or without a root. */
typedef struct reduction {
    const void *from;
    void *to;
    int count;
    datatype_t *datatype;
    operator_t *operator;
    int root; /* -1: all ranks get the result */
} reduction_t;

/* Arguments of an all-gather. */
typedef struct gathering {
    const void *from;
    int from_count;
    datatype_t *from_datatype;
    void *to;
    int to_count;
    datatype_t *to_datatype;
} gathering_t;

/* Bytes of a buffer, packed. */
size_t bytes_of(int count, datatype_t *datatype);

/* Bytes of a reduction; 0 if the group cannot do it. */
size_t bytes_of_reduction(const reduction_t *it);

/* Make operations. NULL without memory; other failures are the operation's result. */
operation_t *make_allgather(const module_t *module, const gathering_t *it);
operation_t *make_barrier(const module_t *module);
operation_t *make_bcast(const module_t *module, buffer_t buffer, int root);
operation_t *make_reduction(const module_t *module, const reduction_t *it);

/* ---- pairs.c ---- */

/* Finds the type of both numbers of a pair of MPI, and its bytes. Returns 0 if there is none. */
int find_pair(datatype_t *datatype, fabricast_type *type, size_t *number);

/* Copies pairs to numbers, or back. */
void numbers_of_pairs(datatype_t *datatype, const void *pairs, void *numbers, size_t count);
void pairs_of_numbers(datatype_t *datatype, const void *numbers, void *pairs, size_t count);

/* ---- operation.c ---- */

operation_t *new_operation(kind_t kind, size_t length);

/* Gives an operation its contribution, packed if need be; returns a code of MPI. */
int take_from(operation_t *operation, buffer_t buffer);

/* Gives an operation the place for its result of `length` bytes; returns a code of MPI. */
int put_to(operation_t *operation, buffer_t buffer, size_t length);

/* Runs an operation to its end, and frees it; returns a code of MPI. */
int run(module_t *module, operation_t *operation);

/* Starts an operation. */
int start(module_t *module, operation_t *operation, ompi_request_t **request);

/* Ends all operations of a module, and all later ones, with an error. */
void give_up(module_t *module, const char *why);

/* Advances the operations of a module, whose lock is held. Waits so long for the group. Returns how
 * many times something went on. */
int advance(module_t *module, int wait_ms);

#endif
