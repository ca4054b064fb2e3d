/* What Open MPI calls for a communicator. Each function asks for the choice; the group does the
 * operation, or the function that was there before. */
#include "coll_fabricast.h"

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
    release_memory(&module->host);
    free(module->host_of);
    free(module->place_of);
    free(module->leaders);
    free(module->sizes);
    free(module->members);
    free(module->places);
    for (int kind = 0; kind < KINDS; kind++)
        for (int size = 0; size < SIZES; size++)
            free(module->choices[kind][size]);
#define RELEASE(name)                                                                              \
    if (module->next.name##_module != NULL)                                                        \
        OBJ_RELEASE(module->next.name##_module);
    REPLACED_FUNCTIONS(RELEASE)
#undef RELEASE
    pthread_mutex_destroy(&module->lock);
}

OBJ_CLASS_INSTANCE(module_t, mca_coll_base_module_t, construct, destruct);

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
    const size_t bytes = bytes_of(to_count, to_datatype);
    turn_t turn = begin_turn(module, ALLGATHER, bytes, 1);
    int code = turn.is_ours
                   ? go(module, make_allgather(module, &it), NULL)
                   : module->next.allgather(from, from_count, from_datatype, to, to_count,
                                            to_datatype, comm, module->next.allgather_module);

    return end_turn(module, ALLGATHER, bytes, turn, code);
}

static int iallgather(const void *from, int from_count, datatype_t *from_datatype, void *to,
                      int to_count, datatype_t *to_datatype, communicator_t *comm,
                      ompi_request_t **request, base_module_t *base)
{
    module_t *module = (module_t *)base;
    gathering_t it = {from, from_count, from_datatype, to, to_count, to_datatype};

    if (!begin_turn(module, ALLGATHER, bytes_of(to_count, to_datatype), 0).is_ours)
        return module->next.iallgather(from, from_count, from_datatype, to, to_count, to_datatype,
                                       comm, request, module->next.iallgather_module);
    return go(module, make_allgather(module, &it), request);
}

static int allreduce(const void *from, void *to, int count, datatype_t *datatype,
                     operator_t *operator, communicator_t *comm, base_module_t *base)
{
    module_t *module = (module_t *)base;
    reduction_t it = {from, to, count, datatype, operator, -1};
    const size_t bytes = bytes_of_reduction(&it);
    turn_t turn = begin_turn(module, ALLREDUCE, bytes, 1);
    int code = turn.is_ours ? go(module, make_reduction(module, &it), NULL)
                            : module->next.allreduce(from, to, count, datatype, operator, comm,
                                                     module->next.allreduce_module);

    return end_turn(module, ALLREDUCE, bytes, turn, code);
}

static int iallreduce(const void *from, void *to, int count, datatype_t *datatype,
                      operator_t *operator, communicator_t *comm, ompi_request_t **request,
                      base_module_t *base)
{
    module_t *module = (module_t *)base;
    reduction_t it = {from, to, count, datatype, operator, -1};

    if (!begin_turn(module, ALLREDUCE, bytes_of_reduction(&it), 0).is_ours)
        return module->next.iallreduce(from, to, count, datatype, operator, comm, request,
                                       module->next.iallreduce_module);
    return go(module, make_reduction(module, &it), request);
}

static int barrier(communicator_t *comm, base_module_t *base)
{
    module_t *module = (module_t *)base;
    turn_t turn = begin_turn(module, BARRIER, 0, 1);
    int code = turn.is_ours ? go(module, make_barrier(module), NULL)
                            : module->next.barrier(comm, module->next.barrier_module);

    return end_turn(module, BARRIER, 0, turn, code);
}

static int ibarrier(communicator_t *comm, ompi_request_t **request, base_module_t *base)
{
    module_t *module = (module_t *)base;

    if (!begin_turn(module, BARRIER, 0, 0).is_ours)
        return module->next.ibarrier(comm, request, module->next.ibarrier_module);
    return go(module, make_barrier(module), request);
}

static int bcast(void *buffer, int count, datatype_t *datatype, int root, communicator_t *comm,
                 base_module_t *base)
{
    module_t *module = (module_t *)base;
    buffer_t it = {buffer, count, datatype};
    const size_t bytes = bytes_of(count, datatype);
    turn_t turn = begin_turn(module, BCAST, bytes, 1);
    int code = turn.is_ours
                   ? go(module, make_bcast(module, it, root), NULL)
                   : module->next.bcast(buffer, count, datatype, root, comm,
                                        module->next.bcast_module);

    return end_turn(module, BCAST, bytes, turn, code);
}

static int ibcast(void *buffer, int count, datatype_t *datatype, int root, communicator_t *comm,
                  ompi_request_t **request, base_module_t *base)
{
    module_t *module = (module_t *)base;
    buffer_t it = {buffer, count, datatype};

    if (!begin_turn(module, BCAST, bytes_of(count, datatype), 0).is_ours)
        return module->next.ibcast(buffer, count, datatype, root, comm, request,
                                   module->next.ibcast_module);
    return go(module, make_bcast(module, it, root), request);
}

static int reduce(const void *from, void *to, int count, datatype_t *datatype, operator_t *operator,
                  int root, communicator_t *comm, base_module_t *base)
{
    module_t *module = (module_t *)base;
    reduction_t it = {from, to, count, datatype, operator, root};
    const size_t bytes = bytes_of_reduction(&it);
    turn_t turn = begin_turn(module, REDUCE, bytes, 1);
    int code = turn.is_ours ? go(module, make_reduction(module, &it), NULL)
                            : module->next.reduce(from, to, count, datatype, operator, root, comm,
                                                  module->next.reduce_module);

    return end_turn(module, REDUCE, bytes, turn, code);
}

static int ireduce(const void *from, void *to, int count, datatype_t *datatype,
                   operator_t *operator, int root, communicator_t *comm, ompi_request_t **request,
                   base_module_t *base)
{
    module_t *module = (module_t *)base;
    reduction_t it = {from, to, count, datatype, operator, root};

    if (!begin_turn(module, REDUCE, bytes_of_reduction(&it), 0).is_ours)
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
