/* Pairs of a value and an index, as MPI_MINLOC and MPI_MAXLOC take them.
 *
 * The group combines numbers of one type, so value and index are carried in turn in a type that
 * holds all of both. */
#include "coll_fabricast.h"

#include "ompi/op/op.h"

/* Calls X for each type of pairs: its name in Open MPI, the types of value and index in memory, and
 * the type of both on their way, in C and in Fabricast. */
#define PAIRS(X)                                                                                   \
    X(FLOAT_INT, float, int, double, FABRICAST_DOUBLE)                                             \
    X(DOUBLE_INT, double, int, double, FABRICAST_DOUBLE)                                           \
    X(LONG_INT, long, int, int64_t, FABRICAST_INT64)                                               \
    X(SHORT_INT, short, int, int32_t, FABRICAST_INT32)                                             \
    X(2INT, int, int, int32_t, FABRICAST_INT32)                                                    \
    X(2INTEGER, int, int, int32_t, FABRICAST_INT32)                                                \
    X(2REAL, float, float, float, FABRICAST_FLOAT)                                                 \
    X(2DOUBLE_PRECISION, double, double, double, FABRICAST_DOUBLE)

int find_pair(datatype_t *datatype, fabricast_type *type, size_t *number)
{
    if (!ompi_datatype_is_predefined(datatype))
        return 0;
    switch (ompi_op_ddt_map[datatype->id]) {
#define CASE(name, value_t, index_t, carried_t, carried_type)                                      \
    case OMPI_OP_BASE_TYPE_##name:                                                                 \
        *type = carried_type;                                                                      \
        *number = sizeof(carried_t);                                                               \
        return datatype->super.size == sizeof(value_t) + sizeof(index_t);
        PAIRS(CASE)
#undef CASE
    default:
        return 0;
    }
}

void numbers_of_pairs(datatype_t *datatype, const void *pairs, void *numbers, size_t count)
{
    switch (ompi_op_ddt_map[datatype->id]) {
#define CASE(name, value_t, index_t, carried_t, carried_type)                                      \
    case OMPI_OP_BASE_TYPE_##name: {                                                               \
        const struct {                                                                             \
            value_t value;                                                                         \
            index_t index;                                                                         \
        } *from = pairs;                                                                           \
        carried_t *to = numbers;                                                                   \
                                                                                                   \
        for (size_t at = 0; at < count; at++) {                                                    \
            to[2 * at] = (carried_t)from[at].value;                                                \
            to[2 * at + 1] = (carried_t)from[at].index;                                            \
        }                                                                                          \
        break;                                                                                     \
    }
        PAIRS(CASE)
#undef CASE
    default:
        break;
    }
}

void pairs_of_numbers(datatype_t *datatype, const void *numbers, void *pairs, size_t count)
{
    switch (ompi_op_ddt_map[datatype->id]) {
#define CASE(name, value_t, index_t, carried_t, carried_type)                                      \
    case OMPI_OP_BASE_TYPE_##name: {                                                               \
        const carried_t *from = numbers;                                                           \
        struct {                                                                                   \
            value_t value;                                                                         \
            index_t index;                                                                         \
        } *to = pairs;                                                                             \
                                                                                                   \
        for (size_t at = 0; at < count; at++) {                                                    \
            to[at].value = (value_t)from[2 * at];                                                  \
            to[at].index = (index_t)from[2 * at + 1];                                              \
        }                                                                                          \
        break;                                                                                     \
    }
        PAIRS(CASE)
#undef CASE
    default:
        break;
    }
}
