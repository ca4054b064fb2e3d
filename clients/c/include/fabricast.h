/* Hardware multicast groups and collective operations for programs in C.
 *
 * A process attaches to the operating agent of its node, joins groups by name, sends messages to
 * their members and runs collective operations with them:
 *
 *     fabricast_client *client;
 *     fabricast_group *group;
 *     int64_t mine = 1, sum;
 *     if (fabricast_attach(NULL, NULL, NULL, &client) || fabricast_join(client, "rows/3", &group) ||
 *         fabricast_wait_for(group, 4, -1) ||
 *         fabricast_all_reduce(group, FABRICAST_SUM, FABRICAST_INT64, &mine, &sum, 1))
 *         fprintf(stderr, "%s\n", fabricast_error_text());
 *
 * `fabricast run -n 4 -- ./program` starts programs with the agent's socket in their environment.
 * Compile with `pkg-config --cflags --libs fabricast`. The guarantees are those of
 * docs/messages.md.
 *
 * Every function may be called from any thread, and several threads may use one handle at once. A
 * handle is freed once, when no thread uses it any more; NULL may be freed. Handles of one client
 * may be freed in any order: the process stays attached until the client and all its groups and
 * watches are freed. What a function reads or writes is documented with it; it is the caller's, and
 * need not be aligned.
 *
 * Functions block until they are done; those with a timeout take milliseconds: -1 for no end, 0 to
 * look only. A function that fails changes no result but those that are named with it, and makes
 * handles NULL.
 *
 * The library never ends the program and prints nothing, except a line on standard error before
 * FABRICAST_INTERNAL. Its threads block all signals. After fork(), only the parent may use it.
 */
#ifndef FABRICAST_H
#define FABRICAST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FABRICAST_VERSION "0.2.0"

/* The longest message, in bytes. Contributions to operations may have any length. */
#define FABRICAST_PAYLOAD_MAX 1048576

/* No rank: that of a group that is NULL. */
#define FABRICAST_NO_RANK UINT32_MAX

/* Results. */
typedef enum fabricast_code {
    FABRICAST_OK = 0,
    /* A pointer is NULL that must not be, or a value is none of those that are allowed. */
    FABRICAST_INVALID_ARGUMENT = 1,
    /* Neither the call nor the environment names the socket of the agent. */
    FABRICAST_NO_SOCKET = 2,
    /* No agent answers at the socket: no such file, no listener, or no permission. */
    FABRICAST_UNREACHABLE = 3,
    /* The agent is gone, or has declared the process dead: all memberships have ended. Free all
     * handles, attach and join again. */
    FABRICAST_DETACHED = 4,
    /* The process is not a member of the group, or no longer. */
    FABRICAST_NOT_A_MEMBER = 5,
    /* Members failed before they had contributed to an operation; all other participants get the
     * same code. fabricast_error_failed_ranks names them. */
    FABRICAST_MEMBERS_FAILED = 6,
    /* The agent, or a part behind it, refused the call. fabricast_error_reason has its reason. */
    FABRICAST_REFUSED = 7,
    /* It did not happen within the timeout. */
    FABRICAST_TIMEOUT = 8,
    /* Another member sent a payload of another length than this one expects. */
    FABRICAST_WRONG_LENGTH = 9,
    /* There are more results than the caller has room for. */
    FABRICAST_NO_ROOM = 10,
    /* 1024 requests of the group have not ended. */
    FABRICAST_BUSY = 11,
    /* The system refused memory or a thread. */
    FABRICAST_SYSTEM = 12,
    /* An error in the library. */
    FABRICAST_INTERNAL = 13
} fabricast_code;

/* Functions that combine numbers, element by element. */
typedef enum fabricast_reduction {
    FABRICAST_SUM = 0, /* integers wrap around, floats are added in the order of ranks */
    FABRICAST_MIN = 1,
    FABRICAST_MAX = 2,
    FABRICAST_AND = 3, /* bitwise; integers only */
    FABRICAST_OR = 4,  /* bitwise; integers only */
    FABRICAST_XOR = 5, /* bitwise; integers only */
    FABRICAST_PROD = 6, /* product; as FABRICAST_SUM */
    FABRICAST_LAND = 7, /* 1 if all are not 0, otherwise 0; integers only */
    FABRICAST_LOR = 8,  /* 1 if one is not 0, otherwise 0; integers only */
    FABRICAST_LXOR = 9, /* 1 if an odd count is not 0, otherwise 0; integers only */
    /* Of pairs of a value and its place, two numbers of one type, the one with the least or the
     * greatest value, of equal values that with the lowest place. The count is that of numbers, two
     * for each pair. */
    FABRICAST_MINLOC = 10,
    FABRICAST_MAXLOC = 11,
    /* The names of MPI for the bitwise ones. */
    FABRICAST_BAND = FABRICAST_AND,
    FABRICAST_BOR = FABRICAST_OR,
    FABRICAST_BXOR = FABRICAST_XOR
} fabricast_reduction;

/* Types of numbers. */
typedef enum fabricast_type {
    FABRICAST_INT32 = 0,
    FABRICAST_INT64 = 1,
    FABRICAST_UINT32 = 2,
    FABRICAST_UINT64 = 3,
    FABRICAST_FLOAT = 4,
    FABRICAST_DOUBLE = 5
} fabricast_type;

/* What becomes of an operation if a member fails before it has contributed. One that is gone before
 * an operation begins is no part of it, unless the policy is FABRICAST_FAIL_ALWAYS. */
typedef enum fabricast_failure_policy {
    FABRICAST_FAIL = 0,      /* it fails everywhere, with FABRICAST_MEMBERS_FAILED */
    FABRICAST_SURVIVORS = 1, /* it completes without that member */
    /* As FABRICAST_FAIL, and so do operations that begin later: all that this process knows to take
     * part when it sets this have to contribute. */
    FABRICAST_FAIL_ALWAYS = 2
} fabricast_failure_policy;

/* An attached process. */
typedef struct fabricast_client fabricast_client;
/* A membership of the process. It ends with the process or when it leaves, not with the handle. */
typedef struct fabricast_group fabricast_group;
/* An operation or message that was started. */
typedef struct fabricast_request fabricast_request;
/* The changes of the members of a group. */
typedef struct fabricast_watch fabricast_watch;

/* Name and node of a process. */
typedef struct fabricast_process {
    const char *process;
    const char *node;
} fabricast_process;

/* A message of another member. */
typedef struct fabricast_message {
    uint32_t sender; /* rank */
    size_t length; /* bytes */
    const void *payload;
} fabricast_message;

/* A member of a group. Ranks have gaps where members have left. */
typedef struct fabricast_member {
    uint32_t rank;
    const char *node;
    const char *process;
} fabricast_member;

/* Members of a group, by rank. */
typedef struct fabricast_member_list {
    size_t count;
    const fabricast_member *members;
} fabricast_member_list;

/* A payload of, or for, one member. */
typedef struct fabricast_payload {
    uint32_t rank;
    size_t length; /* bytes */
    const void *payload;
} fabricast_payload;

/* Payloads of members, by rank. */
typedef struct fabricast_payload_list {
    size_t count;
    const fabricast_payload *payloads;
} fabricast_payload_list;

/* ---- Errors and the version ---- */

/* Returns a sentence about the last failure of this thread: what failed, and why. It stays valid
 * until the next failure or the end of the thread. */
const char *fabricast_error_text(void);

/* Returns the stable name of the last refusal of this thread, such as "NAME_INVALID"; "" if the
 * last failure was none. It stays valid as long as the text. */
const char *fabricast_error_reason(void);

/* Writes the ranks of the members whose failure was the last failure of this thread. Its own failure
 * does not count as one.
 *
 * ranks: room for `capacity` ranks.
 * count: the number of ranks, also with FABRICAST_NO_ROOM. */
fabricast_code fabricast_error_failed_ranks(uint32_t *ranks, size_t capacity, size_t *count);

/* Returns the version of the library, such as FABRICAST_VERSION. */
const char *fabricast_version(void);

/* Returns the name of a code, such as "FABRICAST_DETACHED". */
const char *fabricast_code_name(fabricast_code code);

/* ---- Attached processes ---- */

/* Attaches the process to an agent. If a process of the same name has just died, waits until its
 * memberships have ended.
 *
 * socket: path of the agent's socket; NULL for FABRICAST_SOCKET in the environment.
 * process: name of the process, unique on its node; NULL for FABRICAST_PROCESS, or else
 *     "pid-NUMBER".
 * node: node of the process; NULL for FABRICAST_NODE, or else the only node of the agent.
 *
 * FABRICAST_PATH in the environment sets the path of messages and operations: "agent", "direct", or
 * "auto", which is the direct path where the agent offers one. */
fabricast_code fabricast_attach(const char *socket, const char *process, const char *node,
                                fabricast_client **client);

/* Frees a client. */
void fabricast_client_free(fabricast_client *client);

/* Returns the name of the process, valid as long as the client; NULL for NULL. */
const char *fabricast_client_process(const fabricast_client *client);

/* Returns the node of the process, valid as long as the client; NULL for NULL. */
const char *fabricast_client_node(const fabricast_client *client);

/* Waits until the process is detached, and returns FABRICAST_DETACHED then; FABRICAST_TIMEOUT if it
 * is still attached. */
fabricast_code fabricast_wait_detached(const fabricast_client *client, int timeout_ms);

/* ---- Groups ---- */

/* Joins a group, which is created if it does not exist. A member gets its existing membership; only
 * one of its handles may take part. */
fabricast_code fabricast_join(const fabricast_client *client, const char *name,
                              fabricast_group **group);

/* Forms a group of processes that will attach and join later, for use by a launcher. Those that
 * have not attached when this process detaches are taken out of the group. Until then only
 * processes of its user attach under these names, and only with the token in FABRICAST_TOKEN if it
 * has one. In a new group their order gives the ranks.
 *
 * ranks: room for `count` ranks, in the order of `processes`; NULL if they are not wanted. */
fabricast_code fabricast_form(const fabricast_client *client, const char *name,
                              const fabricast_process *processes, size_t count, uint32_t *ranks);

/* The same for processes that will run as another user, for use by a launcher of root.
 *
 * user: number of that user. Only root may give another than its own. */
fabricast_code fabricast_form_for(const fabricast_client *client, uint32_t user, const char *name,
                                  const fabricast_process *processes, size_t count,
                                  uint32_t *ranks);

/* Frees a group. The process stays a member, and takes part no more. Functions for messages and
 * changes may use the group until they have ended, which this waits for as fabricast_on_message
 * does. */
void fabricast_group_free(fabricast_group *group);

/* Returns the name of the group, valid as long as the handle; NULL for NULL. */
const char *fabricast_group_name(const fabricast_group *group);

/* Returns the rank of this process, which no other member has. */
uint32_t fabricast_group_rank(const fabricast_group *group);

/* Leaves the group; the process stays attached, and the handle is still to be freed. */
fabricast_code fabricast_leave(const fabricast_group *group);

/* Takes part in messages and operations from now on. Functions that need it do it implicitly; call
 * it early to miss no message. Others do not wait for members that do not take part. */
fabricast_code fabricast_take_part(const fabricast_group *group);

/* Waits until `count` members take part, with this process. Takes part first, which the timeout
 * does not bound. */
fabricast_code fabricast_wait_for(const fabricast_group *group, size_t count, int timeout_ms);

/* Writes the ranks of the participants that this process knows of.
 *
 * ranks: room for `capacity` ranks.
 * count: the number of ranks, also with FABRICAST_NO_ROOM. */
fabricast_code fabricast_participants(const fabricast_group *group, uint32_t *ranks,
                                      size_t capacity, size_t *count);

/* ---- Members and their changes ---- */

/* Lists the present members. */
fabricast_code fabricast_members(const fabricast_group *group, fabricast_member_list **members);

/* Frees a list that a function has returned. */
void fabricast_member_list_free(fabricast_member_list *members);

/* Watches the members. */
fabricast_code fabricast_watch_members(const fabricast_group *group, fabricast_watch **watch);

/* Waits for the next change and returns all members; the first call returns at once. Changes in
 * quick succession may come as one. FABRICAST_NOT_A_MEMBER when the membership has ended. */
fabricast_code fabricast_watch_next(const fabricast_watch *watch, int timeout_ms,
                                    fabricast_member_list **members);

/* Frees a watch. */
void fabricast_watch_free(fabricast_watch *watch);

/* A function of the program for changes of members.
 *
 * members: all members, valid until it returns; NULL if `code` is a failure, after which it is not
 *     called any more. fabricast_error_text has the text. */
typedef void (*fabricast_on_members_function)(const fabricast_member_list *members,
                                              fabricast_code code, void *context);

/* Registers a function for changes of members, or NULL for none, in place of the former. It is
 * called at once with the present members, then after every change, on a thread of its own, and
 * may call any function of the library. It must not throw, nor end by longjmp. When this returns,
 * the former one does not run any more, unless this was called in a function that the library
 * called; so hold no lock here that it takes. */
fabricast_code fabricast_on_members(const fabricast_group *group,
                                    fabricast_on_members_function function, void *context);

/* ---- Messages ---- */

/* Sends a message to all other participants and waits until all have it. Messages that one handle
 * sends arrive everywhere in the order in which the calls began.
 *
 * payload: `length` bytes, at most FABRICAST_PAYLOAD_MAX; they may be reused when it returns.
 * uncertain: number of members that stopped taking part meanwhile, which may have it or not; NULL
 *     if it is not wanted. */
fabricast_code fabricast_multicast(const fabricast_group *group, const void *payload,
                                   size_t length, size_t *uncertain);

/* Starts what fabricast_multicast does, which writes `uncertain` when its end is seen. */
fabricast_code fabricast_start_multicast(const fabricast_group *group, const void *payload,
                                         size_t length, size_t *uncertain,
                                         fabricast_request **request);

/* Does what fabricast_multicast does, and names the members.
 *
 * uncertain: their ranks, with payloads of length 0; freed with fabricast_payload_list_free. */
fabricast_code fabricast_multicast_list(const fabricast_group *group, const void *payload,
                                        size_t length, fabricast_payload_list **uncertain);

/* Starts what fabricast_multicast_list does. */
fabricast_code fabricast_start_multicast_list(const fabricast_group *group, const void *payload,
                                              size_t length, fabricast_payload_list **uncertain,
                                              fabricast_request **request);

/* Sends a message once, without acknowledgement or retry. */
fabricast_code fabricast_multicast_best_effort(const fabricast_group *group, const void *payload,
                                               size_t length);

/* Waits for the next message of another member. Takes part first, which the timeout does not bound.
 * A process that does not receive blocks the senders once its queues are full. */
fabricast_code fabricast_receive(const fabricast_group *group, int timeout_ms,
                                 fabricast_message **message);

/* Frees a message that a function has returned. */
void fabricast_message_free(fabricast_message *message);

/* A function of the program for messages.
 *
 * message: valid until it returns; NULL if `code` is a failure, after which it is not called any
 *     more. fabricast_error_text has the text. */
typedef void (*fabricast_on_message_function)(const fabricast_message *message,
                                              fabricast_code code, void *context);

/* Registers a function for messages, or NULL for none, in place of the former; takes part. It is
 * called for one message after the other, on a thread of its own, and may call any function of the
 * library. It must not throw, nor end by longjmp. When this returns, the former one does not run
 * any more, unless this was called in a function that the library called; so hold no lock here that
 * it takes. A message goes to the function or to fabricast_receive, if both are used. */
fabricast_code fabricast_on_message(const fabricast_group *group,
                                    fabricast_on_message_function function, void *context);

/* ---- Collective operations ----
 *
 * All participants call the same operations in the same order, and each waits for all others.
 * Operations of one handle run one after another in the order in which their calls began, whichever
 * thread made them. What is sent may be reused when the call returns, also that of a start; the
 * result is written when the end is seen, and may be the place of what was sent. Contributions may
 * have any length; those above 1 MiB run in several steps. A member that joins, or calls something
 * else, between two steps makes the operation fail everywhere with "OPERATIONS_DIFFER". */

/* Waits until all participants have called it. */
fabricast_code fabricast_barrier(const fabricast_group *group);

/* Copies `length` bytes of the member `source` to all. A member that expects another length gets
 * FABRICAST_WRONG_LENGTH; all get FABRICAST_MEMBERS_FAILED if the source does not take part.
 *
 * buffer: read at the source, written at the others. */
fabricast_code fabricast_broadcast(const fabricast_group *group, uint32_t source, void *buffer,
                                   size_t length);

/* Combines the numbers of all members at the member `root`.
 *
 * numbers: `count` numbers.
 * result: room for as many; not used at the other members. */
fabricast_code fabricast_reduce(const fabricast_group *group, uint32_t root,
                                fabricast_reduction reduction, fabricast_type type,
                                const void *numbers, void *result, size_t count);

/* Combines the numbers of all members; all get the result.
 *
 * numbers: `count` numbers.
 * result: room for as many. */
fabricast_code fabricast_all_reduce(const fabricast_group *group, fabricast_reduction reduction,
                                    fabricast_type type, const void *numbers, void *result,
                                    size_t count);

/* Combines, at each member, the numbers of the members up to its rank.
 *
 * numbers: `count` numbers.
 * result: room for as many. */
fabricast_code fabricast_scan(const fabricast_group *group, fabricast_reduction reduction,
                              fabricast_type type, const void *numbers, void *result,
                              size_t count);

/* Collects payloads of the same length from all members, at every member, by rank. If they differ,
 * FABRICAST_WRONG_LENGTH.
 *
 * payload: `length` bytes.
 * payloads: room for `capacity` times `length` bytes.
 * ranks: room for `capacity` ranks, of whom the payloads are; NULL if they are not wanted.
 * count: number of payloads, also with FABRICAST_NO_ROOM; NULL if it is not wanted. */
fabricast_code fabricast_all_gather(const fabricast_group *group, const void *payload,
                                    size_t length, void *payloads, uint32_t *ranks,
                                    size_t capacity, size_t *count);

/* ---- Collective operations with lists ----
 *
 * They give each payload with its rank and length, which need not be known before. A list is freed
 * with fabricast_payload_list_free; it stays NULL at members that get nothing. */

/* Waits until all participants have called it, or fabricast_barrier.
 *
 * participants: their ranks, with payloads of length 0. */
fabricast_code fabricast_barrier_list(const fabricast_group *group,
                                      fabricast_payload_list **participants);

/* Copies a payload of the member `source` to all.
 *
 * payload: `length` bytes; not read at the other members.
 * payloads: the one payload of the source. */
fabricast_code fabricast_broadcast_list(const fabricast_group *group, uint32_t source,
                                        const void *payload, size_t length,
                                        fabricast_payload_list **payloads);

/* Collects payloads of all members at the member `root`.
 *
 * payload: `length` bytes, at each member as many as it likes.
 * payloads: those of all members; NULL at the other members. */
fabricast_code fabricast_gather(const fabricast_group *group, uint32_t root, const void *payload,
                                size_t length, fabricast_payload_list **payloads);

/* Collects payloads of all members at every member.
 *
 * payload: `length` bytes, at each member as many as it likes. */
fabricast_code fabricast_all_gather_list(const fabricast_group *group, const void *payload,
                                         size_t length, fabricast_payload_list **payloads);

/* Gives each member the part that the member `source` has for it.
 *
 * parts: `count` parts with the ranks that they are for; not read at the other members.
 * mine: the part of this member with its rank; an empty list if there is none. */
fabricast_code fabricast_scatter(const fabricast_group *group, uint32_t source,
                                 const fabricast_payload *parts, size_t count,
                                 fabricast_payload_list **mine);

/* Frees a list that a function has returned. */
void fabricast_payload_list_free(fabricast_payload_list *payloads);

/* ---- Policy and path of operations ---- */

/* Sets what becomes of operations that begin later if a member fails; all members have to choose
 * the same. FABRICAST_FAIL unless set. Takes part first for FABRICAST_FAIL_ALWAYS. */
fabricast_code fabricast_set_failure_policy(const fabricast_group *group,
                                            fabricast_failure_policy policy);

/* Asks that switches combine the barriers, broadcasts and all-reduces of integers of the members
 * that the group has now. Ask once all have joined; any of them may, and all that ask get the same
 * tree of switches. Operations use it some seconds later. It ends when a member joins or leaves:
 * ask again then. FABRICAST_REFUSED with "NO_SWITCH_TREE" if no switch has an entry left, or with
 * another reason; operations only take longer without.
 *
 * max_bytes: bytes of the longest contribution that switches combine, at eight for each number;
 *     NULL if it is not wanted. */
fabricast_code fabricast_ask_for_switch_tree(const fabricast_group *group, uint32_t *max_bytes);

/* Returns the number of operations of this process that switches have combined since it takes part.
 * The others were combined along the tree of the members, with the same result. */
uint64_t fabricast_combined_by_switches(const fabricast_group *group);

/* Returns the path of messages and operations of this membership now: "agent", "direct", or "direct
 * with multicast" if the fabric carries to this process at once what is for all; NULL for NULL. */
const char *fabricast_path(const fabricast_group *group);

/* ---- Operations that are started ----
 *
 * Each starts an operation and returns a request for its end. The place for the result has to stay
 * valid until a function has said that the request has ended, or until it is freed. Up to 1024
 * requests of a group may run; more are refused with FABRICAST_BUSY. */

fabricast_code fabricast_start_barrier(const fabricast_group *group, fabricast_request **request);

fabricast_code fabricast_start_broadcast(const fabricast_group *group, uint32_t source,
                                         void *buffer, size_t length, fabricast_request **request);

fabricast_code fabricast_start_reduce(const fabricast_group *group, uint32_t root,
                                      fabricast_reduction reduction, fabricast_type type,
                                      const void *numbers, void *result, size_t count,
                                      fabricast_request **request);

fabricast_code fabricast_start_all_reduce(const fabricast_group *group,
                                          fabricast_reduction reduction, fabricast_type type,
                                          const void *numbers, void *result, size_t count,
                                          fabricast_request **request);

fabricast_code fabricast_start_scan(const fabricast_group *group, fabricast_reduction reduction,
                                    fabricast_type type, const void *numbers, void *result,
                                    size_t count, fabricast_request **request);

fabricast_code fabricast_start_all_gather(const fabricast_group *group, const void *payload,
                                          size_t length, void *payloads, uint32_t *ranks,
                                          size_t capacity, size_t *count,
                                          fabricast_request **request);

fabricast_code fabricast_start_barrier_list(const fabricast_group *group,
                                            fabricast_payload_list **participants,
                                            fabricast_request **request);

fabricast_code fabricast_start_broadcast_list(const fabricast_group *group, uint32_t source,
                                              const void *payload, size_t length,
                                              fabricast_payload_list **payloads,
                                              fabricast_request **request);

fabricast_code fabricast_start_gather(const fabricast_group *group, uint32_t root,
                                      const void *payload, size_t length,
                                      fabricast_payload_list **payloads,
                                      fabricast_request **request);

fabricast_code fabricast_start_all_gather_list(const fabricast_group *group, const void *payload,
                                               size_t length, fabricast_payload_list **payloads,
                                               fabricast_request **request);

fabricast_code fabricast_start_scatter(const fabricast_group *group, uint32_t source,
                                       const fabricast_payload *parts, size_t count,
                                       fabricast_payload_list **mine,
                                       fabricast_request **request);

/* Waits until the request has ended. Returns FABRICAST_TIMEOUT if it has not; otherwise what the
 * function that does not start it would have returned, every time. */
fabricast_code fabricast_request_wait(const fabricast_request *request, int timeout_ms);

/* Looks if the request has ended.
 *
 * ended: 1 if so, and the function returns what fabricast_request_wait does; 0 if not. */
fabricast_code fabricast_request_test(const fabricast_request *request, int *ended);

/* Frees a request. What was started goes on to its end while the process is attached, because the
 * other members count on it; its result is dropped. */
void fabricast_request_free(fabricast_request *request);

#ifdef __cplusplus
}
#endif

#endif
