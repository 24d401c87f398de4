// SPDX-License-Identifier: Apache-2.0
// A slow disk for the process that preloads it: below $SLOW_DISK_FOLDER each fsync and rename, and one write in 32 (a
// checkpoint has more than a thousand), first sleeps for a random time: up to $SLOW_DISK_MOST_US microseconds, and up
// to eight times as long in one pause out of 16. With $SLOW_DISK_READ_US every read of a file there sleeps that long.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static const char* folder;
static uint64_t most_us;
static uint64_t read_us;

__attribute__((constructor)) static void read_settings(void) {
  const char* most = getenv("SLOW_DISK_MOST_US");
  const char* reads = getenv("SLOW_DISK_READ_US");
  folder = getenv("SLOW_DISK_FOLDER");
  most_us = most != NULL ? strtoull(most, NULL, 10) : 0;
  read_us = reads != NULL ? strtoull(reads, NULL, 10) : 0;
}

// xorshift; the program's own random numbers must stay as they are.
static uint64_t draw(void) {
  static __thread uint64_t state;
  if (state == 0) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    state = ((uint64_t)now.tv_nsec << 20U) ^ (uint64_t)now.tv_sec ^ ((uint64_t)gettid() << 40U) ^ 1U;
  }
  state ^= state << 13U;
  state ^= state >> 7U;
  state ^= state << 17U;
  return state >> 16U;
}

static void sleep_for(const char* path) {
  if (folder == NULL || most_us == 0 || strncmp(path, folder, strlen(folder)) != 0) return;
  const uint64_t longest = draw() % 16 == 0 ? 8 * most_us : most_us;
  const uint64_t us = draw() % longest;
  const struct timespec pause = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};
  nanosleep(&pause, NULL);
}

static void sleep_to_read(const char* path) {
  if (folder == NULL || strncmp(path, folder, strlen(folder)) != 0) return;
  const struct timespec pause = {.tv_sec = (time_t)(read_us / 1000000), .tv_nsec = (long)(read_us % 1000000) * 1000};
  nanosleep(&pause, NULL);
}

static void pause_for_fd(int fd, void (*pause_for)(const char*)) {
  char link[64];
  char path[PATH_MAX];
  const int before = errno;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  if (size > 0) {
    path[size] = '\0';
    pause_for(path);
  }
  errno = before;
}

static void sleep_for_fd(int fd) { pause_for_fd(fd, sleep_for); }

static void sleep_for_some(int fd) {
  if (draw() % 32 == 0) sleep_for_fd(fd);
}

ssize_t read(int fd, void* bytes, size_t size) {
  if (read_us > 0) pause_for_fd(fd, sleep_to_read);
  return syscall(SYS_read, fd, bytes, size);
}

ssize_t write(int fd, const void* bytes, size_t size) {
  sleep_for_some(fd);
  return syscall(SYS_write, fd, bytes, size);
}

ssize_t writev(int fd, const struct iovec* pieces, int count) {
  sleep_for_some(fd);
  return syscall(SYS_writev, fd, pieces, count);
}

ssize_t pwrite64(int fd, const void* bytes, size_t size, off64_t offset) {
  sleep_for_some(fd);
  return syscall(SYS_pwrite64, fd, bytes, size, offset);
}

ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) { return pwrite64(fd, bytes, size, offset); }

int fsync(int fd) {
  sleep_for_fd(fd);
  return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd) {
  sleep_for_fd(fd);
  return (int)syscall(SYS_fdatasync, fd);
}

int rename(const char* from, const char* to) {
  sleep_for(to);
  return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}
