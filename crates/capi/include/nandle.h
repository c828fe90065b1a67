/* libnandle: what a program can say to a drive under `nandle serve --nvme-tcp` beside reads and writes.
 *
 * FlashAlloc (Park et al., PVLDB 16(11), 2023): ranges that are named together are one object, and the drive
 * keeps the object's pages in flash blocks of its own. Offsets and lengths are in bytes. Functions return 0 or
 * what they say, and a negative NANDLE_E... on failure; nandle_error tells it in words. A connection must not be
 * used by two threads at a time, nor by a forked child.
 *
 *     nandle_drive *drive = nandle_open("127.0.0.1:4420");
 *     int fd = open("/mnt/table.sst", O_CREAT | O_RDWR, 0600);
 *     posix_fallocate(fd, 0, 64 << 20);
 *     if (nandle_flashalloc_fd(drive, fd, 0, 64 << 20) < 0) ...
 *
 * Link with -lnandle; with the static library also -lpthread -ldl -lm.
 */
#ifndef NANDLE_H
#define NANDLE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A connection to a drive. */
typedef struct nandle_drive nandle_drive;

/* A range, in bytes. */
typedef struct nandle_range {
    uint64_t offset;
    uint64_t length;
} nandle_range;

enum {
    NANDLE_EOVERLAP = -1, /* an object has some of the blocks already */
    NANDLE_ENOBLOCKS = -2, /* the drive has no clean blocks for it */
    NANDLE_ENOOBJECTS = -3, /* the drive's stream policy is not flashalloc */
    NANDLE_ERANGE = -4, /* a range reaches beyond the end of the drive */
    NANDLE_EMANY = -5, /* more ranges than the drive takes */
    NANDLE_ENOTHING = -6, /* no whole logical block was named */
    NANDLE_ESTATUS = -7, /* the drive answered with another status */
    NANDLE_EIO = -8, /* connection, file or file system: see errno where it is not 0 */
    NANDLE_EINVAL = -9 /* a null pointer, or text that makes no sense */
};

/* Connects to a drive at HOST:PORT, PORT or HOST (loopback and port 4420 where not given); NULL on failure. */
nandle_drive *nandle_open(const char *address);
/* Ends the connection. NULL is fine. */
void nandle_close(nandle_drive *drive);
/* Bytes of a logical block of the drive. */
uint32_t nandle_block_bytes(const nandle_drive *drive);

/* These ranges of the drive are one object (several if there are more than 256). What is no whole block is
 * left out. */
int nandle_flashalloc(nandle_drive *drive, const nandle_range *ranges, size_t count);
/* Forgets these ranges of the drive: their contents are lost. What is no whole block stays. */
int nandle_trim(nandle_drive *drive, const nandle_range *ranges, size_t count);
/* How many objects live. */
int64_t nandle_objects(nandle_drive *drive);

/* Where on the drive a part of an open file lies (FIEMAP, and the start of its partition or loop device; ext2 to
 * ext4, xfs, f2fs). Stores up to `most` ranges in the file's order and returns how many there are, also if that
 * is more. */
int64_t nandle_extents(int fd, uint64_t offset, uint64_t length, nandle_range *ranges, size_t most);
/* The same, and all of them are one object. The file has to have its room already: fallocate comes first. */
int64_t nandle_flashalloc_fd(nandle_drive *drive, int fd, uint64_t offset, uint64_t length);

/* An error in words; never NULL. */
const char *nandle_error(int64_t error);

#ifdef __cplusplus
}
#endif
#endif
