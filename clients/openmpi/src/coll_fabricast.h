/* The component coll/fabricast of Open MPI 4.1: collective operations of MPI over groups of
 * Fabricast. docs/open-mpi.md tells users of it.
 *
 * component.c  settings, the agreement of all processes on them, the attached process, the summary
 * module.c     what Open MPI calls for a communicator: decides who does an operation
 * form.c       the group of a communicator: all ranks have it, or none
 * pairs.c      values with their indices, which are carried as numbers
 * operation.c  operations under way
 *
 * A communicator's ranks decide alike without asking each other, because they decide by what MPI
 * makes equal on all of them: the settings, the order of calls on the communicator, the function,
 * the operator, and the bytes of the type signature. Only the group is voted on, once. */
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
    const char *path;  /* of its operations, as fabricast_path says when the group is joined */
    counts_t counts;

    pthread_mutex_t lock; /* of what follows */
    fabricast_group *group;
    uint32_t *members; /* by rank: rank in the group */
    int *places;       /* by rank: place in the order of the group's ranks */
    int is_in_order;   /* the two orders are the same */
    operation_t *oldest, *newest, *unstarted; /* operations in the order of calls */
    part_t parts[MOST_PARTS];                 /* a ring */
    int first_part, part_count;

    struct module *next_active; /* under the lock of the component */
    int is_active;
} module_t;
OBJ_CLASS_DECLARATION(module_t);

/* Operations that were called and have not ended yet. The first field is MPI's request. */
struct operation {
    ompi_coll_base_nbc_request_t request;
    operation_t *later;
    kind_t kind;
    uint32_t root; /* in the group */
    fabricast_reduction reduction;
    fabricast_type type;
    size_t length;      /* bytes of a contribution */
    size_t number;      /* bytes of a number of a reduction */
    size_t most;        /* bytes of a part */
    size_t started;     /* bytes of parts that were started */
    size_t ended;       /* of those that have ended */
    const char *from;   /* the contribution */
    char *to;           /* place for the result, or NULL */
    char *packed_from;  /* memory of the two, if the program's is not contiguous */
    char *packed_to;
    datatype_t *pairs;  /* type of pairs that are carried as numbers, or NULL */
    void *buffer;       /* where the result is unpacked to, if it was packed */
    size_t count;
    datatype_t *datatype;
    int is_blocking;
    int has_ended;
    int result;         /* code of MPI */
};
OBJ_CLASS_DECLARATION(operation_t);

/* ---- component.c ---- */

typedef struct component {
    mca_coll_base_component_t super;
    agreed_t settings;
    char *mode, *socket, *nodes, *prefix; /* values of parameters */
    int least_ranks, after, timeout_ms, verbose;
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

/* ---- form.c ---- */

/* Forms the group of a communicator, by one vote of all ranks: the module becomes FORMED or
 * LEFT_ALONE on all of them. */
void form_group(module_t *module);

/* Leaves the group, if there is one. */
void leave_group(module_t *module);

/* ---- pairs.c ---- */

/* Finds the type of both numbers of a pair of MPI, and its bytes. Returns 0 if there is none. */
int find_pair(datatype_t *datatype, fabricast_type *type, size_t *number);

/* Copies pairs to numbers, or back. */
void numbers_of_pairs(datatype_t *datatype, const void *pairs, void *numbers, size_t count);
void pairs_of_numbers(datatype_t *datatype, const void *numbers, void *pairs, size_t count);

/* ---- operation.c ---- */

/* A buffer of the program. */
typedef struct buffer {
    void *start;
    size_t count;
    datatype_t *datatype;
} buffer_t;

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

/* Advances the operations of a module, whose lock is held. Waits so long for the oldest. Returns
 * how many parts have ended. */
int advance(module_t *module, int wait_ms);

#endif
