/* Operations under way.
 *
 * An operation has three steps, each in the order of calls: the ranks of a host bring what they
 * contribute to their leader, the group of the leaders does the operation, and the leaders hand the
 * result out. Where a host has one rank there is only the step between. So one copy for each host
 * goes through the fabric.
 *
 * In the group an operation is one or more parts of at most FABRICAST_PAYLOAD_MAX bytes, which the
 * library runs one after the other. Parts are started in the order of calls, on all leaders alike,
 * a few at once; they end in this order, too. */
#include "coll_fabricast.h"

#include "ompi/op/op.h"
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
    free(operation->exchange.more);
    free(operation->exchange.block);
    free(operation->exchange.blocks);
    free(operation->combining.numbers_from);
    free(operation->combining.numbers_to);
}

OBJ_CLASS_INSTANCE(operation_t, ompi_coll_base_nbc_request_t, construct, destruct);

operation_t *new_operation(kind_t kind, size_t length)
{
    operation_t *operation = OBJ_NEW(operation_t);

    if (operation == NULL)
        return NULL;
    operation->kind = kind;
    operation->combining.length = length;
    /* The library continues a broadcast of a full segment with another one, which may be empty. */
    operation->combining.most = kind == BCAST ? FABRICAST_PAYLOAD_MAX - 8 : FABRICAST_PAYLOAD_MAX;
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
    operation->packed_from = malloc(operation->combining.length);
    if (operation->packed_from == NULL)
        return MPI_ERR_NO_MEM;
    operation->from = operation->packed_from;
    return convert(buffer, operation->packed_from, operation->combining.length, 0);
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
    operation->elements.buffer = buffer.start;
    operation->elements.count = buffer.count;
    operation->elements.datatype = buffer.datatype;
    operation->elements.packed = length;
    return MPI_SUCCESS;
}

/* ---- From the ranks of a host to their leader ---- */

/* The leader's memory for what the next rank brings. */
static char *memory_for_giver(operation_t *it)
{
    switch (it->kind) {
    case ALLGATHER:
        return it->exchange.block + (size_t)it->exchange.giver * it->exchange.each;
    case ALLREDUCE:
    case REDUCE:
        return it->exchange.more;
    case BARRIER:
    case BCAST:
    case KINDS:
        break;
    }
    return it->to;
}

/* Takes what the other ranks of the host bring, at their leader. Returns 1 once all is there. */
static int take_others(module_t *module, operation_t *it, int *moved)
{
    exchange_t *exchange = &it->exchange;

    while (exchange->giver < exchange->end_of_givers) {
        char *to = memory_for_giver(it) + exchange->brought;
        const size_t left = exchange->up - exchange->brought;
        const size_t bytes = read_up(&module->host, exchange->giver, to, left);

        *moved |= bytes > 0;
        exchange->brought += bytes;
        if (exchange->brought < exchange->up)
            return 0;
        if (exchange->more != NULL)
            ompi_op_reduce(it->elements.operator, exchange->more, it->packed_from,
                           it->elements.count, it->elements.datatype);
        exchange->giver++;
        exchange->brought = 0;
    }
    return 1;
}

/* Brings what this rank contributes to its leader. Returns 1 once all is there. */
static int bring_own(module_t *module, operation_t *it, int *moved)
{
    exchange_t *exchange = &it->exchange;
    size_t bytes = 0;

    if (exchange->brought < exchange->up)
        bytes = write_up(&module->host, it->from + exchange->brought,
                         exchange->up - exchange->brought);
    *moved |= bytes > 0;
    exchange->brought += bytes;
    return exchange->brought == exchange->up;
}

/* Lets the group carry pairs as numbers. */
static fabricast_code number_pairs(operation_t *it)
{
    combining_t *combining = &it->combining;

    if (combining->pairs == NULL)
        return FABRICAST_OK;
    combining->numbers_from = malloc(combining->length);
    combining->numbers_to = it->to == NULL ? NULL : malloc(combining->length);
    if (combining->numbers_from == NULL || (it->to != NULL && combining->numbers_to == NULL))
        return FABRICAST_SYSTEM;
    numbers_of_pairs(combining->pairs, it->from, combining->numbers_from, it->elements.count);
    return FABRICAST_OK;
}

/* Brings contributions to the leader, of one operation after the other. Returns 1 if something went
 * on. */
static int bring(module_t *module, fabricast_code *code)
{
    const int is_leader = module->host.place == 0;
    int moved = 0;

    while (module->unbrought != NULL) {
        operation_t *it = module->unbrought;

        if (!(is_leader ? take_others(module, it, &moved) : bring_own(module, it, &moved)))
            break;
        if (is_leader)
            *code = number_pairs(it);
        if (*code != FABRICAST_OK)
            break;
        module->unbrought = it->later;
        moved = 1;
    }
    return moved;
}

/* ---- In the group of the leaders ---- */

/* Memory for the contributions of all hosts to an all-gather. */
static char *blocks_of(const operation_t *it)
{
    return it->exchange.blocks == NULL ? it->to : it->exchange.blocks;
}

/* Starts the next part of an operation. */
static fabricast_code start_part(module_t *module, operation_t *it, part_t *part)
{
    combining_t *combining = &it->combining;
    const size_t at = combining->started, left = combining->length - at;
    const size_t bytes = left < combining->most ? left : combining->most;
    const char *from = combining->numbers_from == NULL ? it->from : combining->numbers_from;
    char *result = combining->numbers_to == NULL ? it->to : combining->numbers_to;
    char *to = result == NULL ? NULL : result + at;
    fabricast_code code = FABRICAST_INTERNAL;

    *part = (part_t){.operation = it, .offset = at, .length = bytes};
    switch (it->kind) {
    case ALLGATHER:
        if (bytes == combining->length && module->is_in_order)
            to = blocks_of(it);
        else
            to = part->gathered = malloc(bytes * module->host_count);
        if (to == NULL)
            return FABRICAST_SYSTEM;
        code = fabricast_start_all_gather(module->group, from + at, bytes, to, NULL,
                                          module->host_count, NULL, &part->request);
        break;
    case ALLREDUCE:
        code = fabricast_start_all_reduce(module->group, combining->reduction, combining->type,
                                          from + at, to, bytes / combining->number,
                                          &part->request);
        break;
    case BARRIER:
        code = fabricast_start_barrier(module->group, &part->request);
        break;
    case BCAST:
        code = fabricast_start_broadcast(module->group, combining->root, to, bytes, &part->request);
        break;
    case REDUCE:
        code = fabricast_start_reduce(module->group, combining->root, combining->reduction,
                                      combining->type, from + at, to, bytes / combining->number,
                                      &part->request);
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

    for (int host = 0; part->gathered != NULL && host < module->host_count; host++)
        memcpy(blocks_of(it) + (size_t)host * it->combining.length + part->offset,
               part->gathered + (size_t)module->places[host] * part->length, part->length);
}

static void drop_part(part_t *part)
{
    fabricast_request_free(part->request);
    free(part->gathered);
    *part = (part_t){0};
}

/* Starts as many parts as may run at once. Returns a code of Fabricast. */
static fabricast_code start_parts(module_t *module)
{
    while (module->unstarted != module->unbrought && module->part_count < MOST_PARTS) {
        operation_t *it = module->unstarted;
        part_t *part = &module->parts[(module->first_part + module->part_count) % MOST_PARTS];
        fabricast_code code = start_part(module, it, part);

        if (code != FABRICAST_OK) {
            free(part->gathered);
            return code;
        }
        module->part_count++;
        it->combining.started += part->length;
        if (it->combining.started == it->combining.length)
            module->unstarted = it->later;
    }
    return FABRICAST_OK;
}

/* Puts the result into the memory of the leader, in MPI's form. */
static void take_result(const module_t *module, operation_t *it)
{
    combining_t *combining = &it->combining;
    const exchange_t *exchange = &it->exchange;

    if (combining->numbers_to != NULL)
        pairs_of_numbers(combining->pairs, combining->numbers_to, it->to, it->elements.count);
    for (int rank = 0; exchange->blocks != NULL && rank < module->size; rank++)
        memcpy(it->to + (size_t)rank * exchange->each,
               exchange->blocks + (size_t)module->host_of[rank] * combining->length +
                   (size_t)module->place_of[rank] * exchange->each,
               exchange->each);
    combining->is_combined = 1;
}

/* Starts parts, and looks if the oldest one has ended, for which it waits so long. Returns 1 if it
 * has. */
static int combine(module_t *module, int wait_ms, fabricast_code *code)
{
    part_t *part = &module->parts[module->first_part];
    operation_t *it;
    int ended = 1;

    *code = start_parts(module);
    if (*code != FABRICAST_OK || module->part_count == 0)
        return 0;
    if (wait_ms > 0) {
        *code = fabricast_request_wait(part->request, wait_ms);
        ended = *code != FABRICAST_TIMEOUT;
    } else {
        *code = fabricast_request_test(part->request, &ended);
    }
    if (!ended)
        *code = FABRICAST_OK;
    if (!ended || *code != FABRICAST_OK)
        return 0;
    it = part->operation;
    place_gathered(module, part);
    it->combining.ended += part->length;
    drop_part(part);
    module->first_part = (module->first_part + 1) % MOST_PARTS;
    module->part_count--;
    if (it->combining.ended == it->combining.length)
        take_result(module, it);
    return 1;
}

/* ---- From the leader to the ranks of its host ---- */

/* Ends the oldest operation, which may be freed then. */
static void end_oldest(module_t *module, int result)
{
    operation_t *it = module->oldest;

    module->oldest = it->later;
    if (module->oldest == NULL)
        module->newest = NULL;
    if (result == MPI_SUCCESS && it->elements.buffer != NULL) {
        buffer_t buffer = {it->elements.buffer, it->elements.count, it->elements.datatype};

        result = convert(buffer, it->to, it->elements.packed, 1);
    }
    it->result = result;
    it->has_ended = 1;
    if (it->is_blocking)
        return;
    it->request.super.req_status.MPI_ERROR = result;
    ompi_request_complete(&it->request.super, true);
}

/* Hands the result of the oldest operation on, and ends it after that. Returns 1 if something went
 * on. */
static int hand_on(module_t *module)
{
    operation_t *it = module->oldest;
    const int is_leader = module->host.place == 0;
    exchange_t *exchange;
    size_t bytes = 0;

    if (it == NULL || it == module->unbrought || (is_leader && !it->combining.is_combined))
        return 0;
    exchange = &it->exchange;
    if (exchange->handed < exchange->down) {
        const size_t left = exchange->down - exchange->handed;
        char *at = it->to == NULL ? NULL : it->to + exchange->handed;

        if (is_leader)
            bytes = write_down(&module->host, at, left);
        else
            bytes = read_down(&module->host, at, left);
        exchange->handed += bytes;
        if (exchange->handed < exchange->down)
            return bytes > 0;
    }
    end_oldest(module, MPI_SUCCESS);
    return 1;
}

/* ---- All of them ---- */

/* Ends all operations with an error: the ranks may not be at the same one any more. The others get
 * an error, too, because this rank leaves, and breaks its host. */
static void fail(module_t *module, const char *why)
{
    snprintf(module->why, sizeof module->why, "%s", why);
    module->state = BROKEN;
    say("rank %d of communicator '%s': %s", module->rank, module->name, module->why);
    for (; module->part_count > 0; module->part_count--) {
        drop_part(&module->parts[module->first_part]);
        module->first_part = (module->first_part + 1) % MOST_PARTS;
    }
    module->unbrought = NULL;
    module->unstarted = NULL;
    while (module->oldest != NULL)
        end_oldest(module, MPI_ERR_OTHER);
    break_host(&module->host);
    if (module->group != NULL)
        fabricast_leave(module->group);
}

void give_up(module_t *module, const char *why)
{
    pthread_mutex_lock(&module->lock);
    if (module->state == FORMED)
        fail(module, why);
    pthread_mutex_unlock(&module->lock);
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
    for (int host = 0; count > 0 && host < module->host_count; host++) {
        const char *what = module->sizes[host] == 1 ? "rank" : "the host of rank";

        if (module->members[host] != failed[0])
            continue;
        if (count == 1)
            snprintf(why, WHY_SIZE, "%s: %s %d failed", name, what, module->leaders[host]);
        else
            snprintf(why, WHY_SIZE, "%s: %s %d and %zu more failed", name, what,
                     module->leaders[host], count - 1);
        return;
    }
    snprintf(why, WHY_SIZE, "%s: %s", name, fabricast_error_text());
}

int advance(module_t *module, int wait_ms)
{
    int events = 0;
    char why[WHY_SIZE] = "";

    while (module->state == FORMED && module->oldest != NULL) {
        fabricast_code code = FABRICAST_OK;
        int moved = bring(module, &code);

        if (code == FABRICAST_OK && module->host.place == 0) {
            const int is_ahead = moved || module->oldest->combining.is_combined;

            moved |= combine(module, is_ahead ? 0 : wait_ms, &code);
        }
        if (code != FABRICAST_OK) {
            describe(module, code, why);
            fail(module, why);
            return events + 1;
        }
        moved |= hand_on(module);
        if (!moved)
            break;
        events++;
        wait_ms = 0;
    }
    if (events > 0 || module->oldest == NULL || !is_host_broken(&module->host, why))
        return events;
    fail(module, why);
    return 1;
}

/* Puts an operation behind the others. */
static void enqueue(module_t *module, operation_t *operation)
{
    if (module->newest == NULL)
        module->oldest = operation;
    else
        module->newest->later = operation;
    module->newest = operation;
    if (module->unbrought == NULL)
        module->unbrought = operation;
    if (module->unstarted == NULL && module->host.place == 0)
        module->unstarted = operation;
    if (operation->is_own)
        return;
    module->counts.done[operation->kind]++;
    module->counts.bytes +=
        operation->exchange.each > 0 ? operation->exchange.each : operation->combining.length;
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
    advance(module, 0);
    pthread_mutex_unlock(&module->lock);
    activate(module);
    return MPI_SUCCESS;
}
