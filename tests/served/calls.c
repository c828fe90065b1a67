/* What tests/serve/host.rs runs under libnandle_preload.so: a program that knows nothing of it.
 *   calls FOLDER ELSEWHERE    expects all calls to do as they always do */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1 << 20)
#define CHECK(what) do { if (!(what)) { printf("line %d: %s: %s\n", __LINE__, #what, strerror(errno)); exit(1); } } while (0)

static const char *folder;

static int make(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    CHECK(fd >= 0);
    return fd;
}

static void *thread(void *argument) {
    for (int n = 0; n < 4; n++) {
        char name[64];
        snprintf(name, sizeof name, "thread-%ld-%d.sst", (long)argument, n);
        int fd = make(name);
        CHECK(posix_fallocate(fd, 0, MIB) == 0);
        CHECK(close(fd) == 0);
    }
    return NULL;
}

int main(int argc, char **argv) {
    struct stat stat;
    CHECK(argc == 3);
    folder = argv[1];
    /* One object: by a copy of the descriptor, of a file that has another name by then. */
    int fd = make("before.tmp");
    char old[4096], new[4096];
    snprintf(old, sizeof old, "%s/before.tmp", folder);
    snprintf(new, sizeof new, "%s/after.sst", folder);
    CHECK(rename(old, new) == 0);
    int copy = dup(fd);
    CHECK(close(fd) == 0);
    errno = 77;
    CHECK(fallocate(copy, FALLOC_FL_KEEP_SIZE, 0, 2 * MIB) == 0);
    CHECK(errno == 77);
    CHECK(fstat(copy, &stat) == 0 && stat.st_size == 0 && stat.st_blocks * 512 >= 2 * MIB);
    /* None: allocated already, or by another name, or too small, or not an allocation. */
    CHECK(posix_fallocate(copy, 0, 2 * MIB) == 0);
    CHECK(fstat(copy, &stat) == 0 && stat.st_size == 2 * MIB);
    fd = make("other.log");
    CHECK(posix_fallocate(fd, 0, MIB) == 0);
    fd = make("small.sst");
    CHECK(posix_fallocate(fd, 0, 4096) == 0);
    CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0);
    /* None: what fails, fails as it always did. */
    errno = 0;
    CHECK(fallocate(-1, 0, 0, MIB) == -1 && errno == EBADF);
    CHECK(posix_fallocate(copy, -1, MIB) == EINVAL);
    CHECK(fallocate(copy, 0, 0, 1LL << 50) == -1 && (errno == ENOSPC || errno == EFBIG));
    int ends[2];
    CHECK(pipe(ends) == 0 && posix_fallocate(ends[1], 0, MIB) == ESPIPE);
    /* None: another file system. */
    snprintf(old, sizeof old, "%s/elsewhere.sst", argv[2]);
    fd = open(old, O_CREAT | O_RDWR, 0600);
    CHECK(fd >= 0 && posix_fallocate(fd, 0, MIB) == 0);
    CHECK(unlink(old) == 0);
    /* One: far out in a file. */
    fd = make("large.sst");
    CHECK(fallocate64(fd, FALLOC_FL_KEEP_SIZE, 6LL << 30, MIB) == 0);
    CHECK(ftruncate(fd, 12345) == 0 && fstat(fd, &stat) == 0 && stat.st_size == 12345);
    CHECK(fallocate64(fd, FALLOC_FL_KEEP_SIZE, 7LL << 30, MIB) == 0);
    /* Sixteen: four threads. */
    pthread_t threads[4];
    for (long n = 0; n < 4; n++) CHECK(pthread_create(&threads[n], NULL, thread, (void *)n) == 0);
    /* One: a child, forked while they are at it. */
    pid_t child = fork();
    if (child == 0) {
        CHECK(posix_fallocate(make("child.sst"), 0, MIB) == 0);
        exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    for (int n = 0; n < 4; n++) CHECK(pthread_join(threads[n], NULL) == 0);
    /* Bytes are what was written. */
    char bytes[8192], back[8192];
    memset(bytes, 0x5a, sizeof bytes);
    CHECK(pwrite(copy, bytes, sizeof bytes, 4096) == sizeof bytes && fsync(copy) == 0);
    CHECK(pread(copy, back, sizeof back, 4096) == sizeof back && memcmp(bytes, back, sizeof back) == 0);
    /* Two deleted, one of them in use until later. */
    snprintf(old, sizeof old, "%s/thread-0-0.sst", folder);
    snprintf(new, sizeof new, "%s/after.sst", folder);
    CHECK(unlink(old) == 0 && unlink(new) == 0);
    CHECK(pread(copy, back, sizeof back, 4096) == sizeof back && memcmp(bytes, back, sizeof back) == 0);
    CHECK(unlink(old) == -1 && errno == ENOENT);
    CHECK(unlinkat(AT_FDCWD, folder, AT_REMOVEDIR) == -1 && errno != 0);
    /* A journal that is written from its beginning again and again: two objects in six turns. */
    fd = make("journal");
    CHECK(posix_fallocate(fd, 0, 4 * MIB) == 0);
    static char turn[MIB / 4], last[MIB / 4];
    for (int n = 0; n < 6; n++) {
        memset(turn, 'a' + n, sizeof turn);
        CHECK(pwrite(fd, turn, sizeof turn, MIB) == sizeof turn && fsync(fd) == 0);
    }
    CHECK(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
    CHECK(pread(fd, last, sizeof last, MIB) == sizeof last && memcmp(turn, last, sizeof last) == 0);
    printf("all as expected\n");
    return 0;
}
