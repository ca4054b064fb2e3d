/* What Open MPI calls for a communicator. Each function decides if the group does the operation;
 * otherwise the function that was there before does. */
#include "coll_fabricast.h"

#include "ompi/op/op.h"

static void construct(module_t *module)
{
    size_t own = sizeof module->super;

    memset((char *)module + own, 0, sizeof *module - own);
    pthread_mutex_init(&module->lock, NULL);
}

static void destruct(module_t *module)
{
    summarize(module);
    leave_group(module);
    free(module->members);
    free(module->places);
#define RELEASE(name)                                                                              \
    if (module->next.name##_module != NULL)                                                        \
        OBJ_RELEASE(module->next.name##_module);
    REPLACED_FUNCTIONS(RELEASE)
#undef RELEASE
    pthread_mutex_destroy(&module->lock);
}

OBJ_CLASS_INSTANCE(module_t, mca_coll_base_module_t, construct, destruct);

/* Decides if the group does an operation of so many bytes.
 *
 * may_form: 1 if the call may wait for the other ranks, to form the group. */
static int takes(module_t *module, kind_t kind, size_t bytes, int may_form)
{
    const agreed_t *settings = &mca_coll_fabricast_component.settings;
    int is_meant = kind == BARRIER || (bytes > 0 && bytes >= settings->least_bytes &&
                                       bytes <= settings->most_bytes);

    if (is_meant && may_form && module->state == UNDECIDED &&
        module->before_group++ >= settings->after)
        form_group(module);
    if (is_meant && (module->state == FORMED || module->state == BROKEN))
        return 1;
    if (module->state != FORMING)
        module->counts.next[kind]++;
    return 0;
}

/* Bytes of a buffer, packed. */
static size_t bytes_of(int count, datatype_t *datatype)
{
    size_t size;

    ompi_datatype_type_size(datatype, &size);
    return size * count;
}

/* Finds the type of Fabricast for a type of MPI. Returns 0 if there is none. */
static int find_type(datatype_t *datatype, fabricast_type *type)
{
    size_t size = datatype->super.size;

    if (!ompi_datatype_is_predefined(datatype))
        return 0;
    switch (ompi_op_ddt_map[datatype->id]) {
    case OMPI_OP_BASE_TYPE_INT32_T:
    case OMPI_OP_BASE_TYPE_INT64_T:
    case OMPI_OP_BASE_TYPE_LONG:
    case OMPI_OP_BASE_TYPE_INTEGER:
    case OMPI_OP_BASE_TYPE_INTEGER4:
    case OMPI_OP_BASE_TYPE_INTEGER8:
        *type = size == 4 ? FABRICAST_INT32 : FABRICAST_INT64;
        break;
    case OMPI_OP_BASE_TYPE_UINT32_T:
    case OMPI_OP_BASE_TYPE_UINT64_T:
    case OMPI_OP_BASE_TYPE_UNSIGNED_LONG:
        *type = size == 4 ? FABRICAST_UINT32 : FABRICAST_UINT64;
        break;
    case OMPI_OP_BASE_TYPE_FLOAT:
    case OMPI_OP_BASE_TYPE_DOUBLE:
    case OMPI_OP_BASE_TYPE_REAL:
    case OMPI_OP_BASE_TYPE_REAL4:
    case OMPI_OP_BASE_TYPE_REAL8:
    case OMPI_OP_BASE_TYPE_DOUBLE_PRECISION:
        *type = size == 4 ? FABRICAST_FLOAT : FABRICAST_DOUBLE;
        break;
    default:
        return 0;
    }
    return size == 4 || size == 8;
}

static int is_float(fabricast_type type)
{
    return type == FABRICAST_FLOAT || type == FABRICAST_DOUBLE;
}

/* Finds the reduction of Fabricast for an operator of MPI. Returns 0 if there is none. */
static int find_reduction(operator_t *operator, fabricast_type type, fabricast_reduction *reduction)
{
    if (!ompi_op_is_intrinsic(operator))
        return 0;
    switch (operator->op_type) {
    case OMPI_OP_SUM:
        *reduction = FABRICAST_SUM;
        return 1;
    case OMPI_OP_MIN:
        *reduction = FABRICAST_MIN;
        return 1;
    case OMPI_OP_MAX:
        *reduction = FABRICAST_MAX;
        return 1;
    case OMPI_OP_BAND:
        *reduction = FABRICAST_AND;
        return !is_float(type);
    case OMPI_OP_BOR:
        *reduction = FABRICAST_OR;
        return !is_float(type);
    case OMPI_OP_BXOR:
        *reduction = FABRICAST_XOR;
        return !is_float(type);
    case OMPI_OP_PROD:
        *reduction = FABRICAST_PROD;
        return 1;
    case OMPI_OP_LAND:
        *reduction = FABRICAST_LAND;
        return !is_float(type);
    case OMPI_OP_LOR:
        *reduction = FABRICAST_LOR;
        return !is_float(type);
    case OMPI_OP_LXOR:
        *reduction = FABRICAST_LXOR;
        return !is_float(type);
    default:
        return 0;
    }
}

/* Finds the reduction of Fabricast for an operator of MPI on pairs. Returns 0 if there is none. */
static int find_reduction_of_pairs(operator_t *operator, fabricast_reduction *reduction)
{
    if (!ompi_op_is_intrinsic(operator))
        return 0;
    *reduction = operator->op_type == OMPI_OP_MINLOC ? FABRICAST_MINLOC : FABRICAST_MAXLOC;
    return operator->op_type == OMPI_OP_MINLOC || operator->op_type == OMPI_OP_MAXLOC;
}

/* Bytes of a part of an operation that carries the contributions of all ranks together. */
static size_t share(const module_t *module)
{
    size_t bytes = FABRICAST_PAYLOAD_MAX / module->size / 16 * 16; /* no pair is parted */

    return bytes < 1024 ? 1024 : bytes;
}

/* Arguments of a reduction, with or without a root. */
typedef struct reduction {
    const void *from;
    void *to;
    int count;
    datatype_t *datatype;
    operator_t *operator;
    int root; /* -1: all ranks get the result */
} reduction_t;

/* Decides as `takes`. */
static int takes_reduction(module_t *module, const reduction_t *it, int may_form)
{
    kind_t kind = it->root < 0 ? ALLREDUCE : REDUCE;
    size_t bytes = bytes_of(it->count, it->datatype);
    size_t number;
    fabricast_type type;
    fabricast_reduction reduction;
    int is_known = find_pair(it->datatype, &type, &number)
                       ? find_reduction_of_pairs(it->operator, &reduction)
                       : find_type(it->datatype, &type) &&
                             find_reduction(it->operator, type, &reduction);

    return takes(module, kind, is_known ? bytes : 0, may_form);
}

/* Carries the pairs of a reduction as numbers; returns a code of MPI. */
static int take_pairs(operation_t *operation, const reduction_t *it)
{
    const void *pairs = it->from == MPI_IN_PLACE ? it->to : it->from;

    operation->pairs = it->datatype;
    operation->packed_from = malloc(operation->length);
    if (operation->packed_from == NULL)
        return MPI_ERR_NO_MEM;
    numbers_of_pairs(it->datatype, pairs, operation->packed_from, it->count);
    operation->from = operation->packed_from;
    if (operation->to == NULL)
        return MPI_SUCCESS;
    operation->packed_to = malloc(operation->length);
    if (operation->packed_to == NULL)
        return MPI_ERR_NO_MEM;
    operation->to = operation->packed_to;
    operation->buffer = it->to;
    operation->count = it->count;
    return MPI_SUCCESS;
}

static operation_t *make_reduction(const module_t *module, const reduction_t *it)
{
    size_t bytes = bytes_of(it->count, it->datatype), number = it->datatype->super.size;
    fabricast_type type;
    int are_pairs = find_pair(it->datatype, &type, &number);
    operation_t *operation;

    if (are_pairs)
        bytes = 2 * number * it->count;
    operation = new_operation(it->root < 0 ? ALLREDUCE : REDUCE, bytes);
    if (operation == NULL)
        return NULL;
    if (are_pairs) {
        operation->type = type;
        find_reduction_of_pairs(it->operator, &operation->reduction);
    } else {
        find_type(it->datatype, &operation->type);
        find_reduction(it->operator, operation->type, &operation->reduction);
    }
    operation->root = it->root < 0 ? 0 : module->members[it->root];
    operation->number = number;
    if (is_float(operation->type))
        operation->most = share(module);
    operation->from = it->from == MPI_IN_PLACE ? it->to : it->from;
    if (it->root < 0 || it->root == module->rank)
        operation->to = it->to;
    if (are_pairs)
        operation->result = take_pairs(operation, it);
    return operation;
}

static operation_t *make_bcast(const module_t *module, buffer_t buffer, int root)
{
    size_t bytes = bytes_of(buffer.count, buffer.datatype);
    operation_t *operation = new_operation(BCAST, bytes);

    if (operation == NULL)
        return NULL;
    operation->root = module->members[root];
    if (root == module->rank) {
        operation->result = take_from(operation, buffer);
        operation->to = (char *)operation->from; /* it is only read there */
    } else {
        operation->result = put_to(operation, buffer, bytes);
    }
    return operation;
}

/* Arguments of an all-gather. */
typedef struct gathering {
    const void *from;
    int from_count;
    datatype_t *from_datatype;
    void *to;
    int to_count;
    datatype_t *to_datatype;
} gathering_t;

static operation_t *make_allgather(const module_t *module, const gathering_t *it)
{
    size_t bytes = bytes_of(it->to_count, it->to_datatype);
    buffer_t from = {(void *)it->from, it->from_count, it->from_datatype};
    buffer_t to = {it->to, (size_t)it->to_count * module->size, it->to_datatype};
    operation_t *operation = new_operation(ALLGATHER, bytes);
    ptrdiff_t extent;

    if (operation == NULL)
        return NULL;
    operation->most = share(module);
    if (it->from == MPI_IN_PLACE) {
        ompi_datatype_type_extent(it->to_datatype, &extent);
        from = (buffer_t){(char *)it->to + (ptrdiff_t)module->rank * it->to_count * extent,
                          it->to_count, it->to_datatype};
    }
    operation->result = take_from(operation, from);
    if (operation->result == MPI_SUCCESS)
        operation->result = put_to(operation, to, bytes * module->size);
    return operation;
}

/* Runs or starts an operation that was made. If that failed the others may not wait for it. */
static int go(module_t *module, operation_t *operation, ompi_request_t **request)
{
    int code = operation == NULL ? MPI_ERR_NO_MEM : operation->result;

    if (code == MPI_SUCCESS)
        return request == NULL ? run(module, operation) : start(module, operation, request);
    if (operation != NULL)
        OBJ_RELEASE(operation);
    give_up(module, "the buffers of an operation cannot be used");
    return code;
}

static int allgather(const void *from, int from_count, datatype_t *from_datatype, void *to,
                     int to_count, datatype_t *to_datatype, communicator_t *comm,
                     base_module_t *base)
{
    module_t *module = (module_t *)base;
    gathering_t it = {from, from_count, from_datatype, to, to_count, to_datatype};

    if (!takes(module, ALLGATHER, bytes_of(to_count, to_datatype), 1))
        return module->next.allgather(from, from_count, from_datatype, to, to_count, to_datatype,
                                      comm, module->next.allgather_module);
    return go(module, make_allgather(module, &it), NULL);
}

static int iallgather(const void *from, int from_count, datatype_t *from_datatype, void *to,
                      int to_count, datatype_t *to_datatype, communicator_t *comm,
                      ompi_request_t **request, base_module_t *base)
{
    module_t *module = (module_t *)base;
    gathering_t it = {from, from_count, from_datatype, to, to_count, to_datatype};

    if (!takes(module, ALLGATHER, bytes_of(to_count, to_datatype), 0))
        return module->next.iallgather(from, from_count, from_datatype, to, to_count, to_datatype,
                                       comm, request, module->next.iallgather_module);
    return go(module, make_allgather(module, &it), request);
}

static int allreduce(const void *from, void *to, int count, datatype_t *datatype,
                     operator_t *operator, communicator_t *comm, base_module_t *base)
{
    module_t *module = (module_t *)base;
    reduction_t it = {from, to, count, datatype, operator, -1};

    if (!takes_reduction(module, &it, 1))
        return module->next.allreduce(from, to, count, datatype, operator, comm,
                                      module->next.allreduce_module);
    return go(module, make_reduction(module, &it), NULL);
}

static int iallreduce(const void *from, void *to, int count, datatype_t *datatype,
                      operator_t *operator, communicator_t *comm, ompi_request_t **request,
                      base_module_t *base)
{
    module_t *module = (module_t *)base;
    reduction_t it = {from, to, count, datatype, operator, -1};

    if (!takes_reduction(module, &it, 0))
        return module->next.iallreduce(from, to, count, datatype, operator, comm, request,
                                       module->next.iallreduce_module);
    return go(module, make_reduction(module, &it), request);
}

static int barrier(communicator_t *comm, base_module_t *base)
{
    module_t *module = (module_t *)base;

    if (!takes(module, BARRIER, 0, 1))
        return module->next.barrier(comm, module->next.barrier_module);
    return go(module, new_operation(BARRIER, 0), NULL);
}

static int ibarrier(communicator_t *comm, ompi_request_t **request, base_module_t *base)
{
    module_t *module = (module_t *)base;

    if (!takes(module, BARRIER, 0, 0))
        return module->next.ibarrier(comm, request, module->next.ibarrier_module);
    return go(module, new_operation(BARRIER, 0), request);
}

static int bcast(void *buffer, int count, datatype_t *datatype, int root, communicator_t *comm,
                 base_module_t *base)
{
    module_t *module = (module_t *)base;
    buffer_t it = {buffer, count, datatype};

    if (!takes(module, BCAST, bytes_of(count, datatype), 1))
        return module->next.bcast(buffer, count, datatype, root, comm, module->next.bcast_module);
    return go(module, make_bcast(module, it, root), NULL);
}

static int ibcast(void *buffer, int count, datatype_t *datatype, int root, communicator_t *comm,
                  ompi_request_t **request, base_module_t *base)
{
    module_t *module = (module_t *)base;
    buffer_t it = {buffer, count, datatype};

    if (!takes(module, BCAST, bytes_of(count, datatype), 0))
        return module->next.ibcast(buffer, count, datatype, root, comm, request,
                                   module->next.ibcast_module);
    return go(module, make_bcast(module, it, root), request);
}

static int reduce(const void *from, void *to, int count, datatype_t *datatype, operator_t *operator,
                  int root, communicator_t *comm, base_module_t *base)
{
    module_t *module = (module_t *)base;
    reduction_t it = {from, to, count, datatype, operator, root};

    if (!takes_reduction(module, &it, 1))
        return module->next.reduce(from, to, count, datatype, operator, root, comm,
                                   module->next.reduce_module);
    return go(module, make_reduction(module, &it), NULL);
}

static int ireduce(const void *from, void *to, int count, datatype_t *datatype,
                   operator_t *operator, int root, communicator_t *comm, ompi_request_t **request,
                   base_module_t *base)
{
    module_t *module = (module_t *)base;
    reduction_t it = {from, to, count, datatype, operator, root};

    if (!takes_reduction(module, &it, 0))
        return module->next.ireduce(from, to, count, datatype, operator, root, comm, request,
                                    module->next.ireduce_module);
    return go(module, make_reduction(module, &it), request);
}

/* Keeps the functions that are there. Groups are formed later, because a communicator may be made
 * by a call that must not wait. */
static int enable(base_module_t *base, communicator_t *comm)
{
    module_t *module = (module_t *)base;
    mca_coll_base_comm_coll_t *functions = comm->c_coll;

#define KEEP(name)                                                                                 \
    if (functions->coll_##name == NULL || functions->coll_##name##_module == NULL)                 \
        return OMPI_ERR_NOT_FOUND;                                                                 \
    module->next.name = functions->coll_##name;                                                    \
    module->next.name##_module = functions->coll_##name##_module;                                  \
    OBJ_RETAIN(module->next.name##_module);
    REPLACED_FUNCTIONS(KEEP)
#undef KEEP
    module->comm = comm;
    return OMPI_SUCCESS;
}

/* Called when a communicator ends, for each function. Requests may still be under way; they report
 * failures to MPI_COMM_WORLD then. */
static int disable(base_module_t *base, communicator_t *comm)
{
    module_t *module = (module_t *)base;

    (void)comm;
    pthread_mutex_lock(&module->lock);
    module->comm = NULL;
    for (operation_t *it = module->oldest; it != NULL; it = it->later)
        it->request.super.req_mpi_object.comm = &ompi_mpi_comm_world.comm;
    pthread_mutex_unlock(&module->lock);
    return OMPI_SUCCESS;
}

base_module_t *query_communicator(communicator_t *comm, int *priority)
{
    module_t *module = OBJ_NEW(module_t);

    if (module == NULL)
        return NULL;
    *priority = 90;
    module->rank = ompi_comm_rank(comm);
    module->size = ompi_comm_size(comm);
    memcpy(module->name, comm->c_name, sizeof module->name);
    module->super.coll_module_enable = enable;
    module->super.coll_module_disable = disable;
#define REPLACE(name) module->super.coll_##name = name;
    REPLACED_FUNCTIONS(REPLACE)
#undef REPLACE
    return &module->super;
}
