/* Operations, made from the arguments of MPI's functions: numbers and reductions that the group
 * knows, and what each rank of a host brings and gets. */
#include "coll_fabricast.h"

#include "ompi/op/op.h"

size_t bytes_of(int count, datatype_t *datatype)
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

/* Operators of MPI on numbers, and the reductions that they are. */
static const struct {
    enum ompi_op_type operator;
    fabricast_reduction reduction;
    int is_for_floats;
} reductions[] = {
    {OMPI_OP_SUM, FABRICAST_SUM, 1},   {OMPI_OP_PROD, FABRICAST_PROD, 1},
    {OMPI_OP_MIN, FABRICAST_MIN, 1},   {OMPI_OP_MAX, FABRICAST_MAX, 1},
    {OMPI_OP_BAND, FABRICAST_AND, 0},  {OMPI_OP_BOR, FABRICAST_OR, 0},
    {OMPI_OP_BXOR, FABRICAST_XOR, 0},  {OMPI_OP_LAND, FABRICAST_LAND, 0},
    {OMPI_OP_LOR, FABRICAST_LOR, 0},   {OMPI_OP_LXOR, FABRICAST_LXOR, 0},
};

/* Finds the reduction of Fabricast for an operator of MPI. Returns 0 if there is none. */
static int find_reduction(operator_t *operator, fabricast_type type, fabricast_reduction *reduction)
{
    if (!ompi_op_is_intrinsic(operator))
        return 0;
    for (size_t at = 0; at < sizeof reductions / sizeof *reductions; at++) {
        if (operator->op_type != reductions[at].operator)
            continue;
        *reduction = reductions[at].reduction;
        return reductions[at].is_for_floats || !is_float(type);
    }
    return 0;
}

/* Finds the reduction of Fabricast for an operator of MPI on pairs. Returns 0 if there is none. */
static int find_reduction_of_pairs(operator_t *operator, fabricast_reduction *reduction)
{
    if (!ompi_op_is_intrinsic(operator))
        return 0;
    *reduction = operator->op_type == OMPI_OP_MINLOC ? FABRICAST_MINLOC : FABRICAST_MAXLOC;
    return operator->op_type == OMPI_OP_MINLOC || operator->op_type == OMPI_OP_MAXLOC;
}

size_t bytes_of_reduction(const reduction_t *it)
{
    size_t number;
    fabricast_type type;
    fabricast_reduction reduction;
    int is_known = find_pair(it->datatype, &type, &number)
                       ? find_reduction_of_pairs(it->operator, &reduction)
                       : find_type(it->datatype, &type) &&
                             find_reduction(it->operator, type, &reduction);

    return is_known ? bytes_of(it->count, it->datatype) : 0;
}

/* Bytes of a part of an operation that carries the contributions of all hosts together. */
static size_t share(const module_t *module)
{
    size_t bytes = FABRICAST_PAYLOAD_MAX / module->host_count / 16 * 16; /* no pair is parted */

    return bytes < 1024 ? 1024 : bytes;
}

/* Lets all ranks of a host bring so many bytes to their leader, and take so many from it. */
static void exchange(const module_t *module, operation_t *operation, size_t up, size_t down)
{
    if (module->host.size == 1)
        return;
    operation->exchange.up = up;
    operation->exchange.down = down;
    operation->exchange.giver = 1;
    operation->exchange.end_of_givers = module->host.size;
}

operation_t *make_barrier(const module_t *module)
{
    operation_t *operation = new_operation(BARRIER, 0);

    if (operation == NULL)
        return NULL;
    operation->to = &operation->token;
    operation->from = operation->to;
    exchange(module, operation, 1, 1);
    return operation;
}

/* Gives a leader memory for the contributions of its host, and for the result of another rank. */
static int prepare_leader(const module_t *module, operation_t *operation)
{
    if (module->host.size == 1 || module->host.place > 0)
        return MPI_SUCCESS;
    operation->packed_from = malloc(operation->exchange.up);
    operation->exchange.more = malloc(operation->exchange.up);
    if (operation->to == NULL && operation->exchange.down > 0) {
        operation->packed_to = malloc(operation->exchange.down);
        operation->to = operation->packed_to;
    }
    if (operation->packed_from == NULL || operation->exchange.more == NULL ||
        (operation->to == NULL && operation->exchange.down > 0))
        return MPI_ERR_NO_MEM;
    memcpy(operation->packed_from, operation->from, operation->exchange.up);
    operation->from = operation->packed_from;
    return MPI_SUCCESS;
}

/* Finds the numbers of a reduction and what is done with them; returns the bytes of them all. */
static size_t describe_reduction(operation_t *operation, const reduction_t *it)
{
    operation->elements.operator = it->operator;
    operation->elements.datatype = it->datatype;
    operation->elements.count = it->count;
    operation->combining.number = it->datatype->super.size;
    if (find_pair(it->datatype, &operation->combining.type, &operation->combining.number)) {
        operation->combining.pairs = it->datatype;
        find_reduction_of_pairs(it->operator, &operation->combining.reduction);
        return 2 * operation->combining.number * it->count;
    }
    find_type(it->datatype, &operation->combining.type);
    find_reduction(it->operator, operation->combining.type, &operation->combining.reduction);
    return bytes_of(it->count, it->datatype);
}

operation_t *make_reduction(const module_t *module, const reduction_t *it)
{
    const int is_for_all = it->root < 0;
    operation_t *operation = new_operation(is_for_all ? ALLREDUCE : REDUCE, 0);
    int is_below = is_for_all; /* another rank of this host than the leader gets the result */
    ptrdiff_t gap;
    size_t span;

    if (operation == NULL)
        return NULL;
    span = opal_datatype_span(&it->datatype->super, it->count, &gap);
    operation->combining.length = describe_reduction(operation, it);
    if (is_float(operation->combining.type))
        operation->combining.most = share(module);
    if (!is_for_all) {
        const int host = module->host_of[it->root];

        operation->combining.root = module->members[host];
        is_below = host == module->host_of[module->rank] && module->place_of[it->root] > 0;
    }
    operation->from = it->from == MPI_IN_PLACE ? it->to : it->from;
    if (is_for_all || it->root == module->rank)
        operation->to = it->to;
    exchange(module, operation, span, is_below ? span : 0);
    operation->result = prepare_leader(module, operation);
    return operation;
}

operation_t *make_bcast(const module_t *module, buffer_t buffer, int root)
{
    const size_t bytes = bytes_of(buffer.count, buffer.datatype);
    const int is_root = root == module->rank, is_leader = module->host.place == 0;
    const int is_here = module->host_of[root] == module->host_of[module->rank];
    const int place = module->place_of[root];
    operation_t *operation = new_operation(BCAST, bytes);

    if (operation == NULL)
        return NULL;
    operation->combining.root = module->members[module->host_of[root]];
    if (module->host.size > 1)
        operation->exchange.down = bytes;
    if (is_here && place > 0 && (is_root || is_leader)) {
        operation->exchange.up = bytes;
        operation->exchange.giver = place;
        operation->exchange.end_of_givers = place + 1;
    }
    if (!is_root) {
        operation->result = put_to(operation, buffer, bytes);
        return operation;
    }
    operation->result = take_from(operation, buffer);
    if (is_leader)
        operation->to = (char *)operation->from; /* it is only read there */
    return operation;
}

/* Lets the leader of a host give one block for all its ranks, of the same length at all hosts. */
static int make_blocks(const module_t *module, operation_t *operation)
{
    const size_t each = operation->combining.length;

    operation->exchange.each = each;
    operation->combining.length = each * module->most_at_host;
    operation->exchange.block = calloc(module->most_at_host, each);
    operation->exchange.blocks = malloc(operation->combining.length * module->host_count);
    if (operation->exchange.block == NULL || operation->exchange.blocks == NULL)
        return MPI_ERR_NO_MEM;
    memcpy(operation->exchange.block, operation->from, each);
    operation->from = operation->exchange.block;
    return MPI_SUCCESS;
}

operation_t *make_allgather(const module_t *module, const gathering_t *it)
{
    const size_t bytes = bytes_of(it->to_count, it->to_datatype);
    buffer_t from = {(void *)it->from, it->from_count, it->from_datatype};
    buffer_t to = {it->to, (size_t)it->to_count * module->size, it->to_datatype};
    operation_t *operation = new_operation(ALLGATHER, bytes);
    ptrdiff_t extent;

    if (operation == NULL)
        return NULL;
    operation->combining.most = share(module);
    exchange(module, operation, bytes, bytes * module->size);
    if (it->from == MPI_IN_PLACE) {
        ompi_datatype_type_extent(it->to_datatype, &extent);
        from = (buffer_t){(char *)it->to + (ptrdiff_t)module->rank * it->to_count * extent,
                          it->to_count, it->to_datatype};
    }
    operation->result = take_from(operation, from);
    if (operation->result == MPI_SUCCESS)
        operation->result = put_to(operation, to, bytes * module->size);
    if (operation->result == MPI_SUCCESS && module->host_count < module->size &&
        module->host.place == 0)
        operation->result = make_blocks(module, operation);
    return operation;
}
