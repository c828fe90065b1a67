// Counts what a program copies in memory: stands between it and the C library's memcpy and memmove.
//
// At SIGUSR2 it writes the bytes so far, of copies of at least a flash sector, to the file that NANDLE_COPIES names.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEAST = 4096 };

static atomic_ulong bytes;

// A loop that the compiler may not turn into a call of what is defined here.
__attribute__((optimize("no-tree-loop-distribute-patterns"))) static void move(char *to, const char *from, size_t n) {
    if (to <= from || to >= from + n)
        for (size_t i = 0; i < n; i++)
            to[i] = from[i];
    else
        while (n-- > 0)
            to[n] = from[n];
}

static void *counted(void *to, const void *from, size_t n) {
    if (n >= LEAST)
        atomic_fetch_add_explicit(&bytes, n, memory_order_relaxed);
    move(to, from, n);
    return to;
}

void *memmove(void *to, const void *from, size_t n) {
    return counted(to, from, n);
}

void *memcpy(void *restrict to, const void *restrict from, size_t n) {
    return counted(to, from, n);
}

static void tell(int signal) {
    (void)signal;
    char text[32];
    int length = snprintf(text, sizeof text, "%lu\n", atomic_load(&bytes));
    const char *path = getenv("NANDLE_COPIES");
    int fd = path ? open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600) : -1;
    if (fd < 0)
        return;
    if (write(fd, text, (size_t)length) != length)
        abort();
    close(fd);
}

__attribute__((constructor)) static void begin(void) {
    signal(SIGUSR2, tell);
}
