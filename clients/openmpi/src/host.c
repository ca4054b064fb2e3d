/* Memory that the ranks of one host share.
 *
 * Each rank but the leader has a ring of bytes to the leader, and the leader has one to all others.
 * A ring counts the bytes that were written and those that were read; a reader of the leader's ring
 * has a count of its own. Bytes come in the order of operations, which all ranks know, so there is
 * nothing in the rings but contributions and results. Nobody waits here: ranks look again while
 * Open MPI progresses. */
#include "coll_fabricast.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Bytes of the rings. */
#define UP_BYTES ((size_t)64 << 10)
#define DOWN_BYTES ((size_t)256 << 10)
/* Milliseconds after which a rank that waits in vain looks again if the others live. */
#define LOOK_MS 100

/* A number of bytes, on a cache line of its own. */
typedef struct count {
    uint64_t bytes;
    char unused[56];
} count_t;

/* Counts of a rank that is not the leader. */
typedef struct rank_counts {
    count_t up_written, up_read, down_read;
} rank_counts_t;

/* The rings follow the counts: that of the leader, then those of the others. */
struct shared {
    count_t is_broken, down_written;
    rank_counts_t ranks[]; /* by place; that of the leader is not used */
};

static uint64_t get(const count_t *count)
{
    return __atomic_load_n(&count->bytes, __ATOMIC_ACQUIRE);
}

static void set(count_t *count, uint64_t bytes)
{
    __atomic_store_n(&count->bytes, bytes, __ATOMIC_RELEASE);
}

static size_t least(size_t one, size_t other)
{
    return one < other ? one : other;
}

/* ---- The memory ---- */

static size_t length_of(const host_t *host)
{
    const size_t others = (size_t)host->size - 1;

    return sizeof(shared_t) + (others + 1) * sizeof(rank_counts_t) + DOWN_BYTES + others * UP_BYTES;
}

static char *down_ring(const host_t *host)
{
    return (char *)(host->shared->ranks + host->size);
}

static char *up_ring(const host_t *host, int place)
{
    return down_ring(host) + DOWN_BYTES + (size_t)(place - 1) * UP_BYTES;
}

static int map(host_t *host, int file)
{
    void *at = mmap(NULL, length_of(host), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

    if (at == MAP_FAILED)
        return errno;
    host->shared = at;
    return 0;
}

int make_memory(host_t *host, const char *name)
{
    int file = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600), code;

    if (file < 0)
        return errno;
    code = posix_fallocate(file, 0, (off_t)length_of(host)); /* all of it, or an error now */
    if (code == 0)
        code = map(host, file);
    close(file);
    return code;
}

int find_memory(host_t *host, const char *name)
{
    int file = shm_open(name, O_RDWR, 0), code;

    if (file < 0)
        return errno;
    code = map(host, file);
    close(file);
    return code;
}

void release_memory(host_t *host)
{
    if (host->shared != NULL)
        munmap(host->shared, length_of(host));
    host->shared = NULL;
    free(host->processes);
    host->processes = NULL;
}

/* ---- The rings ---- */

static void put(char *ring, size_t size, uint64_t at, const char *from, size_t length)
{
    const size_t first = least(length, size - at % size);

    memcpy(ring + at % size, from, first);
    memcpy(ring, from + first, length - first);
}

static void take(const char *ring, size_t size, uint64_t at, char *to, size_t length)
{
    const size_t first = least(length, size - at % size);

    memcpy(to, ring + at % size, first);
    memcpy(to + first, ring, length - first);
}

size_t write_up(host_t *host, const char *from, size_t length)
{
    rank_counts_t *own = &host->shared->ranks[host->place];
    const uint64_t written = get(&own->up_written);
    const size_t bytes = least(length, UP_BYTES - (written - get(&own->up_read)));

    if (bytes == 0)
        return 0;
    put(up_ring(host, host->place), UP_BYTES, written, from, bytes);
    set(&own->up_written, written + bytes);
    return bytes;
}

size_t read_up(host_t *host, int place, char *to, size_t length)
{
    rank_counts_t *giver = &host->shared->ranks[place];
    const uint64_t read = get(&giver->up_read);
    const size_t bytes = least(length, get(&giver->up_written) - read);

    if (bytes == 0)
        return 0;
    take(up_ring(host, place), UP_BYTES, read, to, bytes);
    set(&giver->up_read, read + bytes);
    return bytes;
}

size_t write_down(host_t *host, const char *from, size_t length)
{
    shared_t *shared = host->shared;
    const uint64_t written = get(&shared->down_written);
    size_t bytes = length;

    for (int place = 1; place < host->size; place++)
        bytes = least(bytes, DOWN_BYTES - (written - get(&shared->ranks[place].down_read)));
    if (bytes == 0)
        return 0;
    put(down_ring(host), DOWN_BYTES, written, from, bytes);
    set(&shared->down_written, written + bytes);
    return bytes;
}

size_t read_down(host_t *host, char *to, size_t length)
{
    rank_counts_t *own = &host->shared->ranks[host->place];
    const uint64_t read = get(&own->down_read);
    const size_t bytes = least(length, get(&host->shared->down_written) - read);

    if (bytes == 0)
        return 0;
    if (to != NULL)
        take(down_ring(host), DOWN_BYTES, read, to, bytes);
    set(&own->down_read, read + bytes);
    return bytes;
}

/* ---- Failures ---- */

void break_host(host_t *host)
{
    if (host->shared != NULL)
        set(&host->shared->is_broken, 1);
}

/* Returns 1 if a process has ended, also if nobody has waited for it yet. */
static int has_ended(pid_t process)
{
    struct pollfd end = {.events = POLLIN};
    int is_over;

    end.fd = (int)syscall(SYS_pidfd_open, process, 0);
    if (end.fd < 0) /* no such process, or a kernel without the call */
        return errno == ESRCH || (kill(process, 0) != 0 && errno == ESRCH);
    is_over = poll(&end, 1, 0) > 0;
    close(end.fd);
    return is_over;
}

/* Returns the place of a rank that this one waits for and whose process has ended, or -1. */
static int find_ended(const host_t *host)
{
    const int first = host->place > 0 ? 0 : 1, end = host->place > 0 ? 1 : host->size;

    for (int place = first; place < end; place++)
        if (has_ended(host->processes[place]))
            return place;
    return -1;
}

static uint64_t milliseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int is_host_broken(host_t *host, char *why)
{
    uint64_t now;
    int ended;

    if (host->shared == NULL)
        return 0;
    if (get(&host->shared->is_broken) != 0) {
        snprintf(why, WHY_SIZE, "another rank of the host has failed");
        return 1;
    }
    now = milliseconds();
    if (now < host->next_look)
        return 0;
    host->next_look = now + LOOK_MS;
    ended = find_ended(host);
    /* What it wrote before its end counts: at a second look there is nothing more. */
    if (ended < 0 || ended != host->suspect) {
        host->suspect = ended;
        return 0;
    }
    snprintf(why, WHY_SIZE, "process %d of the host has ended", (int)host->processes[ended]);
    return 1;
}
