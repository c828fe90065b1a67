// A disk that goes wrong: stands between a program and the C library's pwrite64.
//
// NANDLE_DISK="KIND AFTER DETAIL": after so many writes KIND happens once (full: from then on); the file named by
// NANDLE_DISK_HIT is made when it does. KIND: error, full, short, lost, torn, misdirected.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECTOR = 512, PAGE = 4096, HEADER = 65536 };

typedef ssize_t (*writer)(int, const void *, size_t, off64_t);

static atomic_long writes;

static void hit(void) {
    const char *path = getenv("NANDLE_DISK_HIT");
    int fd = path ? open(path, O_CREAT | O_WRONLY, 0600) : -1;
    if (fd >= 0)
        close(fd);
}

ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at) {
    static writer real;
    if (!real)
        real = (writer)dlsym(RTLD_NEXT, "pwrite64");
    const char *plan = getenv("NANDLE_DISK");
    char kind[16];
    long after;
    unsigned long detail;
    struct stat64 file;
    int known = plan && sscanf(plan, "%15s %ld %lu", kind, &after, &detail) == 3;
    // The header has a checksum of its own and is written once.
    if (!known || at < HEADER || fstat64(fd, &file) != 0 || !S_ISREG(file.st_mode))
        return real(fd, bytes, n, at);
    long number = atomic_fetch_add(&writes, 1);
    int full = strcmp(kind, "full") == 0;
    if (number < after || (number > after && !full))
        return real(fd, bytes, n, at);
    if (number == after)
        hit();
    // A part that ends at a border of sectors: not all of it.
    size_t sectors = (n - 1) / SECTOR;
    size_t part = sectors ? detail % (sectors + 1) * SECTOR : 0;
    if (strcmp(kind, "error") == 0) {
        errno = EIO;
        return -1;
    }
    if (full) {
        errno = ENOSPC;
        return part && number == after ? real(fd, bytes, part, at) : -1;
    }
    if (strcmp(kind, "short") == 0)
        return real(fd, bytes, 1 + detail % n, at);
    if (strcmp(kind, "torn") == 0 && part && real(fd, bytes, part, at) < 0)
        return -1;
    if (strcmp(kind, "misdirected") == 0) {
        off64_t places = (file.st_size - HEADER - (off64_t)n) / PAGE;
        off64_t elsewhere = HEADER + (off64_t)(detail % (unsigned long)places) * PAGE + at % PAGE;
        if (elsewhere + (off64_t)n <= file.st_size && real(fd, bytes, n, elsewhere) < 0)
            return -1;
    }
    return (ssize_t)n;
}
