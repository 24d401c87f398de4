// SPDX-License-Identifier: Apache-2.0
// Replaces the C library's calls on descriptors and processes for production code inside a world: the dynamic linker
// prefers this program's symbols to the library's. Descriptors below Files::kFirst belong to the real system.
#include "sim/calls.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstring>
#include <string_view>

#include "sim/clocks.h"
#include "sim/disk.h"
#include "sim/disk_calls.h"

using namespace lockstep::sim;  // NOLINT(google-build-using-namespace): the file is the C library's calls

namespace {

bool is_simulated(int fd) { return fd >= Files::kFirst && kernel() != nullptr; }

// Returns true for paths that describe the real machine on which the simulation runs. A world must not read them.
bool is_of_machine(const char* path) {
  const std::string_view name(path);
  return name.starts_with("/proc") || name.starts_with("/sys") || name.starts_with("/dev/kmsg");
}

int nothing_there() {
  errno = ENOENT;
  return -1;
}

Nanos end_of(int timeout_ms) {
  return timeout_ms < 0 ? kNever : kernel()->now() + static_cast<Nanos>(timeout_ms) * kMilli;
}

// Returns a descriptor's pending events. A real descriptor, such as the console, is always writable.
short ready_of(int fd) {
  const auto file = files().find(fd);
  return file ? file->ready() : static_cast<short>(fd < Files::kFirst ? POLLOUT : POLLNVAL);
}

int look(pollfd* entries, nfds_t count) {
  int ready = 0;
  for (nfds_t i = 0; i < count; ++i) {
    pollfd& entry = entries[i];
    entry.revents = entry.fd < 0
                        ? short{0}
                        : static_cast<short>(ready_of(entry.fd) & (entry.events | POLLERR | POLLHUP | POLLNVAL));
    ready += entry.revents != 0 ? 1 : 0;
  }
  return ready;
}

int await_any(pollfd* entries, nfds_t count, Nanos end) {
  Kernel& machine = *kernel();
  machine.maybe_yield();
  for (;;) {
    const int ready = look(entries, count);
    if (ready > 0 || machine.now() >= end) return ready;
    Fiber* fiber = machine.current();
    std::vector<std::shared_ptr<File>> watched;
    for (nfds_t i = 0; i < count; ++i) {
      if (auto file = entries[i].fd >= 0 ? files().find(entries[i].fd) : nullptr) watched.push_back(std::move(file));
    }
    for (const auto& file : watched) file->waiters.push_back(fiber);
    machine.block(end);
    for (const auto& file : watched) std::erase(file->waiters, fiber);
  }
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

ssize_t read(int fd, void* to, size_t size) {
  if (!is_simulated(fd)) return real<decltype(read)>("read")(fd, to, size);
  const auto file = files().find(fd);
  if (!file) return errno = EBADF, -1;
  return patiently(file, file->is_blocking, [&] { return file->read(to, size); });
}

ssize_t write(int fd, const void* from, size_t size) {
  if (is_inside() && (fd == STDOUT_FILENO || fd == STDERR_FILENO)) {
    kernel()->print(*kernel()->current()->process, {static_cast<const char*>(from), size});
    return static_cast<ssize_t>(size);
  }
  if (!is_simulated(fd)) return real<decltype(write)>("write")(fd, from, size);
  const auto file = files().find(fd);
  if (!file) return errno = EBADF, -1;
  return patiently(file, file->is_blocking, [&] { return file->write(from, size); });
}

int close(int fd) {
  if (!is_simulated(fd)) return real<decltype(close)>("close")(fd);
  return files().close(fd);
}

int fcntl(int fd, int command, ...) {
  va_list list;
  va_start(list, command);
  void* argument = va_arg(list, void*);
  va_end(list);
  if (!is_simulated(fd)) return real<int(int, int, ...)>("fcntl")(fd, command, argument);
  const auto file = files().find(fd);
  if (!file) return errno = EBADF, -1;
  if (command == F_SETFL) file->is_blocking = (reinterpret_cast<std::intptr_t>(argument) & O_NONBLOCK) == 0;
  if (command == F_GETFL) return O_RDWR | (file->is_blocking ? 0 : O_NONBLOCK);
  return 0;
}

int ioctl(int fd, unsigned long request, ...) {
  va_list list;
  va_start(list, request);
  void* argument = va_arg(list, void*);
  va_end(list);
  if (!is_simulated(fd))
    return is_inside() ? (errno = ENOTTY, -1) : real<int(int, unsigned long, ...)>("ioctl")(fd, request, argument);
  const auto file = files().find(fd);
  if (!file) return errno = EBADF, -1;
  if (request == FIONBIO) file->is_blocking = *static_cast<int*>(argument) == 0;
  return 0;
}

int isatty(int fd) {
  if (is_inside()) return 0;
  return real<decltype(isatty)>("isatty")(fd);
}

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = va_arg(list, mode_t);
  va_end(list);
  if (is_inside() && is_of_machine(path)) return nothing_there();
  if (is_inside() && Disk::has(path)) return disk_open(path, flags);
  return real<int(const char*, int, ...)>("open")(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = va_arg(list, mode_t);
  va_end(list);
  return open(path, flags, mode);
}

FILE* fopen(const char* path, const char* mode) {
  if (is_inside() && is_of_machine(path)) return nothing_there(), nullptr;
  return real<decltype(fopen)>("fopen")(path, mode);
}

FILE* fopen64(const char* path, const char* mode) { return fopen(path, mode); }

DIR* opendir(const char* path) {
  if (is_inside() && is_of_machine(path)) return nothing_there(), nullptr;
  if (is_inside() && Disk::has(path)) {
    const int fd = disk_open(path, O_RDONLY | O_DIRECTORY);
    return fd < 0 ? nullptr : disk_opendir(fd);
  }
  return real<DIR*(const char*)>("opendir")(path);
}

ssize_t readlink(const char* path, char* to, size_t size) noexcept {
  if (is_inside() && is_of_machine(path)) return nothing_there();
  return real<ssize_t(const char*, char*, size_t)>("readlink")(path, to, size);
}

int stat(const char* path, struct stat* about) noexcept {
  if (is_inside() && is_of_machine(path)) return nothing_there();
  if (is_inside() && Disk::has(path)) return disk_stat(path, about);
  return real<int(const char*, struct stat*)>("stat")(path, about);
}

int poll(pollfd* entries, nfds_t count, int timeout_ms) {
  if (!is_inside()) return real<decltype(poll)>("poll")(entries, count, timeout_ms);
  return await_any(entries, count, timeout_ms == 0 ? 0 : end_of(timeout_ms));
}

int ppoll(pollfd* entries, nfds_t count, const timespec* limit, const sigset_t* signals) {
  if (!is_inside()) return real<decltype(ppoll)>("ppoll")(entries, count, limit, signals);
  return await_any(entries, count, limit == nullptr ? kNever : kernel()->now() + nanos_of(*limit));
}

int epoll_create1(int) { return files().add(std::make_shared<Epoll>()); }
int epoll_create(int) { return epoll_create1(0); }

int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) {
  const auto file = std::dynamic_pointer_cast<Epoll>(files().find(epoll));
  if (!file) return errno = EBADF, -1;
  return file->control(operation, fd, event);
}

int epoll_wait(int epoll, epoll_event* out, int most, int timeout_ms) {
  const auto file = std::dynamic_pointer_cast<Epoll>(files().find(epoll));
  if (!file) return errno = EBADF, -1;
  kernel()->maybe_yield();
  const Nanos end = end_of(timeout_ms);
  for (;;) {
    const int count = file->collect(out, most);
    if (count > 0 || timeout_ms == 0 || kernel()->now() >= end) return count;
    file->wait(end);
  }
}

int eventfd(unsigned count, int flags) {
  auto file = std::make_shared<EventFile>(count, (flags & EFD_SEMAPHORE) != 0);
  file->is_blocking = (flags & EFD_NONBLOCK) == 0;
  return files().add(std::move(file));
}

int timerfd_create(int, int) {
  auto file = std::make_shared<TimerFile>();
  file->is_blocking = false;
  return files().add(std::move(file));
}

int timerfd_settime(int fd, int flags, const itimerspec* wanted, itimerspec*) {
  const auto file = std::dynamic_pointer_cast<TimerFile>(files().find(fd));
  if (!file) return errno = EBADF, -1;
  const Nanos value = nanos_of(wanted->it_value);
  const Nanos moment =
      (flags & TFD_TIMER_ABSTIME) != 0 ? moment_of(CLOCK_MONOTONIC, wanted->it_value) : kernel()->now() + value;
  file->arm(value == 0 ? kNever : moment);
  return 0;
}

int signalfd(int, const sigset_t*, int) {
  auto file = std::make_shared<SignalFile>();
  file->is_blocking = false;
  kernel()->current()->process->on_signal = [signals = std::weak_ptr<SignalFile>(file)](int number) {
    if (const auto there = signals.lock()) there->send(number);
  };
  return files().add(std::move(file));
}

ssize_t getrandom(void* to, size_t size, unsigned flags) {
  if (!is_inside()) return real<decltype(getrandom)>("getrandom")(to, size, flags);
  for (size_t i = 0; i < size; ++i)
    static_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(kernel()->dice().bits());
  kernel()->note_random({static_cast<const char*>(to), size});
  return static_cast<ssize_t>(size);
}

// std::random_device::operator().
unsigned _ZNSt13random_device9_M_getvalEv(void*) {
  return is_inside() ? static_cast<unsigned>(kernel()->dice().bits()) : 4U;
}

int gethostname(char* name, size_t size) noexcept {
  if (!is_inside()) return real<int(char*, size_t)>("gethostname")(name, size);
  const std::string& own = kernel()->current()->process->host->name;
  if (own.size() >= size) return errno = ENAMETOOLONG, -1;
  std::memcpy(name, own.c_str(), own.size() + 1);
  return 0;
}

pid_t getpid() noexcept {
  if (!is_inside()) return real<pid_t()>("getpid")();
  return kernel()->current()->process->number;
}

// Called by production code when an invariant does not hold.
void _exit(int code) {
  if (is_inside()) kernel()->on_wrong("a process ends itself with exit code " + std::to_string(code));
  real<void(int)>("_exit")(code);
  __builtin_unreachable();
}

char* getenv(const char* name) noexcept {
  if (is_inside()) {
    auto& own = kernel()->current()->process->environment;
    const auto found = own.find(name);
    return found == own.end() ? nullptr : found->second.data();
  }
  static const auto library = real<char*(const char*)>("getenv");
  return library(name);
}

}  // extern "C"
#pragma GCC visibility pop
