/* The choice between the group and the next module.
 *
 * What the group can do, the group and the next module do in turn at first, and the times are
 * compared: a trial of a few operations for each kind and size. The faster one does those that
 * follow, until another trial would not cost more than a twentieth of the time since. With
 * coll_fabricast_always the group does all.
 *
 * A time is that of the slowest rank, from the moment at which all have come to the operation. */
#include "coll_fabricast.h"

#include <time.h>

#include "ompi/runtime/mpiruntime.h"

/* Pairs of operations after which a trial ends if one of the two is much faster. */
#define FEW_PAIRS 3
#define MUCH_FASTER 3.0
/* The time until the next trial, in times of what the trial costs. */
#define TRIALS_APART 20.0
/* The fewest and the most operations between two trials. */
#define FEWEST_BETWEEN 100.0
#define MOST_BETWEEN 1e15

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Decides if the group can do an operation of so many bytes.
 *
 * may_form: 1 if the call may wait for the other ranks, to form the group. */
static int can_do(module_t *module, kind_t kind, size_t bytes, int may_form)
{
    const agreed_t *settings = &mca_coll_fabricast_component.settings;
    int is_meant = kind == BARRIER || (bytes > 0 && bytes >= settings->least_bytes &&
                                       bytes <= settings->most_bytes);

    if (is_meant && may_form && module->state == UNDECIDED &&
        module->before_group++ >= settings->after)
        form_group(module);
    return is_meant && (module->state == FORMED || module->state == BROKEN);
}

/* Operations of the same number of bits of bytes have one choice. */
static int size_of(size_t bytes)
{
    return bytes == 0 ? 0 : 64 - __builtin_clzll(bytes);
}

static choice_t *choice_for(module_t *module, kind_t kind, size_t bytes)
{
    choice_t **choice = &module->choices[kind][size_of(bytes)];

    if (*choice == NULL)
        *choice = calloc(1, sizeof **choice);
    if (*choice == NULL) /* a rank that does not measure would keep the others waiting */
        ompi_mpi_abort(module->comm, MPI_ERR_NO_MEM);
    return *choice;
}

/* Runs an operation that the program has not called. */
static int run_own(module_t *module, operation_t *operation)
{
    if (operation == NULL) {
        give_up(module, "no memory to measure an operation");
        return MPI_ERR_NO_MEM;
    }
    operation->is_own = 1;
    if (operation->result == MPI_SUCCESS)
        return run(module, operation);
    OBJ_RELEASE(operation);
    give_up(module, "no memory to measure an operation");
    return MPI_ERR_NO_MEM;
}

turn_t begin_turn(module_t *module, kind_t kind, size_t bytes, int may_wait)
{
    turn_t turn = {.is_ours = can_do(module, kind, bytes, may_wait)};
    choice_t *choice;

    if (!turn.is_ours && module->state != FORMING)
        module->counts.next[kind]++;
    if (!turn.is_ours || module->state != FORMED || module->is_always)
        return turn;
    choice = choice_for(module, kind, bytes);
    if (!may_wait || (choice->is_known && choice->until_trial > 0)) {
        turn.is_ours = choice->is_known && choice->is_group;
        module->counts.faster += choice->is_known && !choice->is_group;
        if (may_wait)
            choice->until_trial--;
    } else if (run_own(module, make_barrier(module)) == MPI_SUCCESS) {
        turn.is_ours = choice->measured % 2 == 0;
        turn.measured = choice;
        turn.begun = seconds();
    }
    if (!turn.is_ours)
        module->counts.next[kind]++;
    return turn;
}

static int compare(const void *one, const void *other)
{
    const double a = *(const double *)one, b = *(const double *)other;

    return (a > b) - (a < b);
}

/* The median time of the group (0) or of the next module (1). The first operation of each does not
 * count. */
static double median(const choice_t *choice, int of)
{
    double times[MOST_PAIRS] = {0};
    const int count = choice->measured / 2 - 1;

    for (int pair = 0; pair < count; pair++)
        times[pair] = choice->seconds[2 * (pair + 1) + of];
    qsort(times, (size_t)count, sizeof *times, compare);
    return times[count / 2];
}

/* Says why operations go where they go. */
static void explain(const module_t *module, kind_t kind, size_t bytes, const choice_t *choice)
{
    const int size = size_of(bytes);
    char range[64] = "";

    if (mca_coll_fabricast_component.verbose < 2 || module->rank != 0)
        return;
    if (size > 0)
        snprintf(range, sizeof range, " of %llu to %llu bytes", 1ULL << (size - 1),
                 (1ULL << (size - 1)) * 2 - 1);
    say("communicator '%s': %s%s takes %.1f us by the group and %.1f us by the next module: %s "
        "does the next %llu",
        module->name, kind_names[kind], range, median(choice, 0) * 1e6, median(choice, 1) * 1e6,
        choice->is_group ? "the group" : "the next module",
        (unsigned long long)choice->until_trial);
}

/* Ends a trial, if the two differ enough or it has lasted long enough. All ranks have the same
 * times here. */
static void decide(module_t *module, kind_t kind, size_t bytes, choice_t *choice)
{
    const int pairs = choice->measured / 2;
    const double group = median(choice, 0), next = median(choice, 1);
    const double slow = group > next ? group : next, fast = group > next ? next : group;
    /* What is measured in vain, and the barriers of the group before each operation. */
    double between = TRIALS_APART * pairs * (slow + 2 * group) / (fast > 1e-9 ? fast : 1e-9);

    if (pairs < MOST_PAIRS && slow < MUCH_FASTER * fast)
        return;
    between = between < FEWEST_BETWEEN ? FEWEST_BETWEEN : between;
    choice->until_trial = (uint64_t)(between > MOST_BETWEEN ? MOST_BETWEEN : between);
    choice->is_known = 1;
    choice->is_group = group <= next;
    explain(module, kind, bytes, choice);
    choice->measured = 0;
}

int end_turn(module_t *module, kind_t kind, size_t bytes, turn_t turn, int code)
{
    choice_t *choice = turn.measured;
    reduction_t slowest;
    int combined;

    if (choice == NULL)
        return code;
    choice->seconds[choice->measured++] = seconds() - turn.begun;
    if (choice->measured != 2 * FEW_PAIRS && choice->measured != 2 * MOST_PAIRS)
        return code;
    slowest =
        (reduction_t){MPI_IN_PLACE, choice->seconds, choice->measured, MPI_DOUBLE, MPI_MAX, -1};
    combined = run_own(module, make_reduction(module, &slowest));
    if (combined == MPI_SUCCESS)
        decide(module, kind, bytes, choice);
    return code == MPI_SUCCESS ? combined : code;
}
