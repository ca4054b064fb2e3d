/* What the programs of the tests have in common: a condition that does not hold ends them. */
#ifndef CHECK_H
#define CHECK_H

#include <fabricast.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Checks that a call returns a code. */
#define IS(wanted, call) is(wanted, call, #call, __FILE__, __LINE__)
#define OK(call) IS(FABRICAST_OK, call)

static inline void is(fabricast_code wanted, fabricast_code found, const char *call,
                      const char *file, int line)
{
    if (found == wanted)
        return;
    fprintf(stderr, "%s:%d: %s is %s: %s\n", file, line, call, fabricast_code_name(found),
            fabricast_error_text());
    exit(1);
}

/* Checks that the text of the last failure has a word in it. */
#define SAYS(word) says(word, __FILE__, __LINE__)

static inline void says(const char *word, const char *file, int line)
{
    if (strstr(fabricast_error_text(), word) != NULL)
        return;
    fprintf(stderr, "%s:%d: '%s' is not in '%s'\n", file, line, word, fabricast_error_text());
    exit(1);
}

/* Tells the test something, at once. */
static inline void tell(const char *line)
{
    puts(line);
    fflush(stdout);
}

#endif
