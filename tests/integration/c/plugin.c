/* A program that loads the library as a plugin would: it is not linked with it, and unloads it while
 * its threads run. These leave all signals to the program. */
#include <dirent.h>
#include <dlfcn.h>
#include <fabricast.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

/* Counts the threads of the library, and those of them that would take a SIGPIPE. */
static int threads(int *would_take)
{
    DIR *tasks = opendir("/proc/self/task");
    int found = 0;

    *would_take = 0;
    for (struct dirent *task; tasks != NULL && (task = readdir(tasks)) != NULL;) {
        char path[300], line[200], name[100] = "";
        unsigned long long blocked = 0;

        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *status = fopen(path, "r");
        while (status != NULL && fgets(line, sizeof line, status) != NULL) {
            sscanf(line, "Name: %99s", name);
            sscanf(line, "SigBlk: %llx", &blocked);
        }
        if (status != NULL)
            fclose(status);
        if (strncmp(name, "fabricast", 9) == 0) {
            found++;
            *would_take += (blocked >> (13 - 1) & 1) == 0; /* SIGPIPE is 13 */
        }
    }
    if (tasks != NULL)
        closedir(tasks);
    return found;
}

int main(int count, char **arguments)
{
    __typeof__(fabricast_attach) *attach;
    __typeof__(fabricast_wait_detached) *wait_detached;
    __typeof__(fabricast_client_free) *client_free;
    const char *names[] = {"one", "two", "three"};
    fabricast_client *client;
    int would_take;

    CHECK(count == 2);
    for (int round = 0; round < 3; round++) {
        void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
        CHECK(library != NULL);
        CHECK((*(void **)&attach = dlsym(library, "fabricast_attach")) != NULL);
        CHECK((*(void **)&wait_detached = dlsym(library, "fabricast_wait_detached")) != NULL);
        CHECK((*(void **)&client_free = dlsym(library, "fabricast_client_free")) != NULL);
        CHECK(attach(NULL, names[round], NULL, &client) == FABRICAST_OK);
        CHECK(threads(&would_take) > 0 && would_take == 0);
        CHECK(dlclose(library) == 0);
        /* The library is still there. */
        CHECK(wait_detached(client, 1) == FABRICAST_TIMEOUT);
        client_free(client);
        CHECK(threads(&would_take) == 0);
    }
    puts("ok");
    return 0;
}
