/* What tests/serve/host.rs does with libnandle: library ADDRESS FILE */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "nandle.h"

#define CHECK(what) do { if (!(what)) { printf("line %d: %s: %s\n", __LINE__, #what, strerror(errno)); return 1; } } while (0)

int main(int argc, char **argv) {
    nandle_range ranges[64];
    CHECK(argc == 3);
    CHECK(nandle_open("nobody") == NULL);
    CHECK(nandle_open(NULL) == NULL);
    nandle_close(NULL);
    nandle_drive *drive = nandle_open(argv[1]);
    CHECK(drive != NULL);
    CHECK(nandle_block_bytes(drive) == 4096);
    CHECK(nandle_objects(drive) == 0);
    int fd = open(argv[2], O_CREAT | O_RDWR, 0600);
    CHECK(fd >= 0);
    CHECK(nandle_flashalloc_fd(drive, fd, 0, 1 << 20) == NANDLE_ENOTHING);
    CHECK(posix_fallocate(fd, 0, 3 << 20) == 0);
    int64_t count = nandle_extents(fd, 4096, 2 << 20, ranges, 64);
    CHECK(count >= 1 && count <= 64);
    uint64_t sum = 0;
    for (int64_t n = 0; n < count; n++) sum += ranges[n].length;
    CHECK(sum == 2 << 20);
    CHECK(nandle_flashalloc_fd(drive, fd, 4096, 2 << 20) == count);
    CHECK(nandle_objects(drive) == 1);
    CHECK(nandle_flashalloc(drive, ranges, (size_t)count) == NANDLE_EOVERLAP);
    CHECK(strstr(nandle_error(NANDLE_EOVERLAP), "already") != NULL);
    CHECK(nandle_trim(drive, ranges, (size_t)count) == 0);
    CHECK(nandle_objects(drive) == 0);
    CHECK(nandle_flashalloc(drive, ranges, 0) == NANDLE_ENOTHING);
    CHECK(nandle_flashalloc(drive, NULL, 1) == NANDLE_EINVAL);
    CHECK(nandle_flashalloc(NULL, ranges, 1) == NANDLE_EINVAL);
    nandle_range beyond = {1ULL << 50, 1 << 20};
    CHECK(nandle_flashalloc(drive, &beyond, 1) == NANDLE_ERANGE);
    CHECK(nandle_extents(-1, 0, 1, ranges, 64) == NANDLE_EINVAL);
    CHECK(nandle_extents(1000, 0, 1, ranges, 64) == NANDLE_EIO);
    nandle_close(drive);
    printf("all as expected\n");
    return 0;
}
