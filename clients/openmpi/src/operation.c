/* Operations under way.
 *
 * An operation is one or more parts of at most FABRICAST_PAYLOAD_MAX bytes, which the library runs
 * one after the other. Parts are started in the order of calls, on all ranks alike, a few at once;
 * they end in this order, too. */
#include "coll_fabricast.h"

#include "opal/datatype/opal_convertor.h"
#include "opal/runtime/opal_progress.h"

/* Time after which a blocking call lets Open MPI progress other messages. */
#define TURN_MS 1

static int cancel_nothing(struct ompi_request_t *request, int flag)
{
    (void)request;
    (void)flag;
    return MPI_ERR_REQUEST;
}

static int free_request(struct ompi_request_t **request)
{
    OMPI_REQUEST_FINI(*request);
    OBJ_RELEASE(*request);
    *request = MPI_REQUEST_NULL;
    return OMPI_SUCCESS;
}

static void construct(operation_t *operation)
{
    ompi_request_t *request = &operation->request.super;
    size_t own = sizeof operation->request;

    memset((char *)operation + own, 0, sizeof *operation - own);
    OMPI_REQUEST_INIT(request, false);
    request->req_type = OMPI_REQUEST_COLL;
    request->req_status._cancelled = 0;
    request->req_free = free_request;
    request->req_cancel = cancel_nothing;
}

static void destruct(operation_t *operation)
{
    free(operation->packed_from);
    free(operation->packed_to);
}

OBJ_CLASS_INSTANCE(operation_t, ompi_coll_base_nbc_request_t, construct, destruct);

operation_t *new_operation(kind_t kind, size_t length)
{
    operation_t *operation = OBJ_NEW(operation_t);

    if (operation == NULL)
        return NULL;
    operation->kind = kind;
    operation->length = length;
    /* The library continues a broadcast of a full segment with another one, which may be empty. */
    operation->most = kind == BCAST ? FABRICAST_PAYLOAD_MAX - 8 : FABRICAST_PAYLOAD_MAX;
    return operation;
}

static int is_contiguous(buffer_t buffer)
{
    return ompi_datatype_is_contiguous_memory_layout(buffer.datatype, buffer.count > 1 ? 2 : 1);
}

/* The first byte of a contiguous buffer. */
static char *first_byte(buffer_t buffer)
{
    ptrdiff_t gap;

    opal_datatype_span(&buffer.datatype->super, buffer.count, &gap);
    return (char *)buffer.start + gap;
}

/* Copies a buffer to packed bytes, or back. */
static int convert(buffer_t buffer, char *packed, size_t length, int unpack)
{
    opal_convertor_t convertor;
    int code;

    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    if (unpack)
        code = opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor,
                                                        &buffer.datatype->super, buffer.count,
                                                        buffer.start, 0, &convertor);
    else
        code = opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor,
                                                        &buffer.datatype->super, buffer.count,
                                                        buffer.start, 0, &convertor);
    for (size_t done = 0; code == OMPI_SUCCESS && done < length;) {
        struct iovec place = {.iov_base = packed + done, .iov_len = length - done};
        uint32_t places = 1;
        size_t bytes = place.iov_len;
        int ended = unpack ? opal_convertor_unpack(&convertor, &place, &places, &bytes)
                           : opal_convertor_pack(&convertor, &place, &places, &bytes);

        done += bytes;
        if (ended < 0 || bytes == 0 || (ended == 1 && done < length))
            code = OMPI_ERROR;
    }
    OBJ_DESTRUCT(&convertor);
    return code == OMPI_SUCCESS ? MPI_SUCCESS : MPI_ERR_TYPE;
}

int take_from(operation_t *operation, buffer_t buffer)
{
    if (is_contiguous(buffer)) {
        operation->from = first_byte(buffer);
        return MPI_SUCCESS;
    }
    operation->packed_from = malloc(operation->length);
    if (operation->packed_from == NULL)
        return MPI_ERR_NO_MEM;
    operation->from = operation->packed_from;
    return convert(buffer, operation->packed_from, operation->length, 0);
}

int put_to(operation_t *operation, buffer_t buffer, size_t length)
{
    if (is_contiguous(buffer)) {
        operation->to = first_byte(buffer);
        return MPI_SUCCESS;
    }
    operation->packed_to = malloc(length);
    if (operation->packed_to == NULL)
        return MPI_ERR_NO_MEM;
    operation->to = operation->packed_to;
    operation->buffer = buffer.start;
    operation->count = buffer.count;
    operation->datatype = buffer.datatype;
    return MPI_SUCCESS;
}

/* Starts the next part of an operation. */
static fabricast_code start_part(module_t *module, operation_t *it, part_t *part)
{
    const size_t at = it->started, left = it->length - at;
    const size_t bytes = left < it->most ? left : it->most;
    char *to = it->to == NULL ? NULL : it->to + at;
    fabricast_code code = FABRICAST_INTERNAL;

    *part = (part_t){.operation = it, .offset = at, .length = bytes};
    switch (it->kind) {
    case ALLGATHER:
        if (bytes != it->length || !module->is_in_order) {
            to = part->gathered = malloc(bytes * module->size);
            if (to == NULL)
                return FABRICAST_SYSTEM;
        }
        code = fabricast_start_all_gather(module->group, it->from + at, bytes, to, NULL,
                                          module->size, NULL, &part->request);
        break;
    case ALLREDUCE:
        code = fabricast_start_all_reduce(module->group, it->reduction, it->type, it->from + at,
                                          to, bytes / it->number, &part->request);
        break;
    case BARRIER:
        code = fabricast_start_barrier(module->group, &part->request);
        break;
    case BCAST:
        code = fabricast_start_broadcast(module->group, it->root, to, bytes, &part->request);
        break;
    case REDUCE:
        code = fabricast_start_reduce(module->group, it->root, it->reduction, it->type,
                                      it->from + at, to, bytes / it->number, &part->request);
        break;
    case KINDS:
        break;
    }
    return code;
}

/* Puts the payloads of a part of an all-gather into their places. */
static void place_gathered(const module_t *module, const part_t *part)
{
    const operation_t *it = part->operation;

    for (int rank = 0; part->gathered != NULL && rank < module->size; rank++)
        memcpy(it->to + rank * it->length + part->offset,
               part->gathered + module->places[rank] * part->length, part->length);
}

static void drop_part(part_t *part)
{
    fabricast_request_free(part->request);
    free(part->gathered);
    *part = (part_t){0};
}

/* Ends the oldest operation, which may be freed then. */
static void end_oldest(module_t *module, int result)
{
    operation_t *it = module->oldest;

    module->oldest = it->later;
    if (module->oldest == NULL)
        module->newest = NULL;
    if (result == MPI_SUCCESS && it->pairs != NULL && it->buffer != NULL) {
        pairs_of_numbers(it->pairs, it->to, it->buffer, it->count);
    } else if (result == MPI_SUCCESS && it->buffer != NULL) {
        buffer_t buffer = {it->buffer, it->count, it->datatype};
        size_t length = it->kind == ALLGATHER ? it->length * module->size : it->length;

        result = convert(buffer, it->to, length, 1);
    }
    it->result = result;
    it->has_ended = 1;
    if (it->is_blocking)
        return;
    it->request.super.req_status.MPI_ERROR = result;
    ompi_request_complete(&it->request.super, true);
}

/* Ends all operations with an error: the ranks may not be at the same one any more. The others get
 * an error, too, because this rank leaves. */
static void fail(module_t *module, const char *why)
{
    snprintf(module->why, sizeof module->why, "%s", why);
    module->state = BROKEN;
    say("rank %d of communicator '%s': %s", module->rank, module->name, module->why);
    for (; module->part_count > 0; module->part_count--) {
        drop_part(&module->parts[module->first_part]);
        module->first_part = (module->first_part + 1) % MOST_PARTS;
    }
    module->unstarted = NULL;
    while (module->oldest != NULL)
        end_oldest(module, MPI_ERR_OTHER);
    fabricast_leave(module->group);
}

void give_up(module_t *module, const char *why)
{
    pthread_mutex_lock(&module->lock);
    if (module->state == FORMED)
        fail(module, why);
    pthread_mutex_unlock(&module->lock);
}

/* Starts as many parts as may run at once. Returns a code of Fabricast. */
static fabricast_code start_parts(module_t *module)
{
    while (module->unstarted != NULL && module->part_count < MOST_PARTS) {
        operation_t *it = module->unstarted;
        part_t *part = &module->parts[(module->first_part + module->part_count) % MOST_PARTS];
        fabricast_code code = start_part(module, it, part);

        if (code != FABRICAST_OK) {
            free(part->gathered);
            return code;
        }
        module->part_count++;
        it->started += part->length;
        if (it->started == it->length)
            module->unstarted = it->later;
    }
    return FABRICAST_OK;
}

/* The last failure of this thread; ranks that failed are those of the communicator, not of the
 * group. */
static void describe(const module_t *module, fabricast_code code, char *why)
{
    uint32_t failed[8];
    size_t count = 0;
    const char *name = fabricast_code_name(code);

    if (code == FABRICAST_MEMBERS_FAILED)
        fabricast_error_failed_ranks(failed, sizeof failed / sizeof *failed, &count);
    for (int rank = 0; count > 0 && rank < module->size; rank++) {
        if (module->members[rank] != failed[0])
            continue;
        if (count == 1)
            snprintf(why, WHY_SIZE, "%s: rank %d failed", name, rank);
        else
            snprintf(why, WHY_SIZE, "%s: rank %d and %zu more failed", name, rank, count - 1);
        return;
    }
    snprintf(why, WHY_SIZE, "%s: %s", name, fabricast_error_text());
}

int advance(module_t *module, int wait_ms)
{
    int parts = 0;
    char why[WHY_SIZE];

    for (;;) {
        fabricast_code code = start_parts(module);
        part_t *part = &module->parts[module->first_part];
        operation_t *it = part->operation;
        int ended = 1;

        if (code == FABRICAST_OK) {
            if (module->part_count == 0)
                return parts;
            if (wait_ms > 0) {
                code = fabricast_request_wait(part->request, wait_ms);
                ended = code != FABRICAST_TIMEOUT;
            } else {
                code = fabricast_request_test(part->request, &ended);
            }
            if (!ended)
                return parts;
        }
        parts++;
        if (code != FABRICAST_OK) {
            describe(module, code, why);
            fail(module, why);
            return parts;
        }
        place_gathered(module, part);
        it->ended += part->length;
        drop_part(part);
        module->first_part = (module->first_part + 1) % MOST_PARTS;
        module->part_count--;
        if (it->ended == it->length)
            end_oldest(module, MPI_SUCCESS);
        wait_ms = 0;
    }
}

/* Puts an operation behind the others. */
static void enqueue(module_t *module, operation_t *operation)
{
    if (module->newest == NULL)
        module->oldest = operation;
    else
        module->newest->later = operation;
    module->newest = operation;
    if (module->unstarted == NULL)
        module->unstarted = operation;
    module->counts.done[operation->kind]++;
    module->counts.bytes += operation->length;
}

int run(module_t *module, operation_t *operation)
{
    int has_ended = 0, result = MPI_ERR_OTHER;

    operation->is_blocking = 1;
    pthread_mutex_lock(&module->lock);
    if (module->state == FORMED)
        enqueue(module, operation);
    else
        has_ended = 1;
    while (!has_ended) {
        advance(module, TURN_MS);
        has_ended = operation->has_ended;
        result = operation->result;
        pthread_mutex_unlock(&module->lock);
        if (!has_ended)
            opal_progress();
        pthread_mutex_lock(&module->lock);
    }
    pthread_mutex_unlock(&module->lock);
    OBJ_RELEASE(operation);
    return result;
}

int start(module_t *module, operation_t *operation, ompi_request_t **request)
{
    ompi_request_t *it = &operation->request.super;

    pthread_mutex_lock(&module->lock);
    if (module->state != FORMED) {
        pthread_mutex_unlock(&module->lock);
        OBJ_RELEASE(operation);
        return MPI_ERR_OTHER;
    }
    it->req_state = OMPI_REQUEST_ACTIVE;
    it->req_mpi_object.comm = module->comm;
    *request = it;
    enqueue(module, operation);
    start_parts(module); /* what fails is tried and told again by `advance` */
    pthread_mutex_unlock(&module->lock);
    activate(module);
    return MPI_SUCCESS;
}
