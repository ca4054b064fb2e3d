/* Groups of the ranks of a PMIx job: of `srun --mpi=pmix`, of `mpirun` of Open MPI, or of any other
 * launcher with a PMIx server. docs/slurm.md tells users of it.
 *
 *     cc program.c $(pkg-config --cflags --libs fabricast_pmix) -o program
 *     srun --mpi=pmix --fabricast -N4 -n8 ./program
 */
#ifndef FABRICAST_PMIX_H
#define FABRICAST_PMIX_H

#include <fabricast.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the number of ranks of the job; 0 if there is no PMIx server, or it does not know the
 * number: fabricast_pmix_error_text() tells which. */
uint32_t fabricast_pmix_size(void);

/* Attaches the process under a name of its own, which has the number of its job and its rank.
 * FABRICAST_PROCESS is not read: ranks that `mpirun` starts have that of their launcher. Socket and
 * node as for fabricast_attach. */
fabricast_code fabricast_pmix_attach(const char *socket, const char *node,
                                     fabricast_client **client);

/* Puts all ranks of the job that the launcher has started into one group, and tells each which
 * member every rank is. All ranks have to call it, in the same order where they call it several
 * times. If one of them cannot join, the call fails on every rank, with that rank and its reason,
 * and none is a member. Only a rank without a PMIx server cannot tell the others.
 *
 * client: the attached process; NULL if it could not attach, which fails all ranks.
 * name: name of the group, as rank 0 gives it; NULL for one of this call's own, which begins with
 *     "job/" and FABRICAST_JOB where that is set, else with "pmix/".
 * group: NULL after a failure.
 * members: room for fabricast_pmix_size() numbers; the rank in the group of each rank of the job.
 *     NULL if they are not wanted. */
fabricast_code fabricast_pmix_join(const fabricast_client *client, const char *name,
                                   fabricast_group **group, uint32_t *members);

/* Waits until all ranks have called it, then leaves the group and frees it: nobody goes while
 * another still needs it. */
fabricast_code fabricast_pmix_leave(fabricast_group *group);

/* Returns a sentence about the last failure of a function here in this thread. It stays valid
 * until the next failure or the end of the thread. */
const char *fabricast_pmix_error_text(void);

#ifdef __cplusplus
}
#endif

#endif
