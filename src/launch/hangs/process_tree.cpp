// SPDX-License-Identifier: Apache-2.0
#include "launch/hangs/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "lockstep/base/process_stat.h"

namespace lockstep::launch {
namespace {

// The capacity of the table. Its pages are allocated on use, so that a few processes take little memory.
constexpr std::size_t kCapacity = 1U << 17U;

// The kernel's directory entry; libc's readdir() would allocate memory.
struct LinuxDirent {
  std::uint64_t inode;
  std::int64_t offset;
  std::uint16_t length;
  std::uint8_t type;
  char name[1];
};

pid_t parse_pid(const char* text) noexcept {
  pid_t value = 0;
  for (; *text >= '0' && *text <= '9'; ++text) value = value * 10 + (*text - '0');
  return *text == '\0' || *text == ' ' ? value : 0;
}

// "/proc/NUMBER" followed by `end`.
struct ProcPath {
  ProcPath(pid_t number, const char* end) noexcept {
    char digits[16];
    std::size_t count = 0;
    for (pid_t rest = number; rest > 0; rest /= 10) digits[count++] = static_cast<char>('0' + rest % 10);
    while (count > 0) text[size++] = digits[--count];
    for (; *end != '\0'; ++end) text[size++] = *end;
    text[size] = '\0';
  }
  char text[48] = "/proc/";
  std::size_t size = 6;
};

// Returns the sum of utime, stime, cutime and cstime, fields 14 to 17 of /proc/PID/stat. `fields` begins at field 4.
std::uint64_t ticks_of(const char* fields) noexcept {
  std::uint64_t sum = 0;
  std::uint64_t value = 0;
  int field = 4;
  for (; *fields != '\0' && field <= 17; ++fields) {
    if (*fields == ' ') {
      if (field >= 14) sum += value;
      value = 0;
      ++field;
    } else if (*fields >= '0' && *fields <= '9') {
      value = value * 10 + static_cast<std::uint64_t>(*fields - '0');
    }
  }
  return sum;
}

// Fills `text` with the start of a file and a terminating zero. Returns the number of bytes; 0 if it cannot be read.
template <std::size_t N>
std::size_t read_start(const char* path, char (&text)[N]) noexcept {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;  // the process has ended
  const ssize_t count = ::read(file, text, N - 1);
  ::close(file);
  text[std::max<ssize_t>(count, 0)] = '\0';
  return static_cast<std::size_t>(std::max<ssize_t>(count, 0));
}

// Returns the last number of "NSpid:\t4711\t12\n", the process's id in its own namespace; 0 if there is none.
pid_t innermost_number(const char* status) noexcept {
  const char* at = std::strstr(status, "\nNSpid:");
  if (at == nullptr) return 0;
  pid_t value = 0;
  for (at += 7; *at != '\n' && *at != '\0'; ++at) {
    value = *at < '0' || *at > '9' ? 0 : value * 10 + (*at - '0');
  }
  return value;
}

}  // namespace

pid_t number_in_proc() noexcept {
  char name[32];
  const ssize_t count = ::readlink("/proc/self", name, sizeof name - 1);
  name[std::max<ssize_t>(count, 0)] = '\0';
  return parse_pid(name);
}

ProcessTree::ProcessTree() noexcept {
  void* memory = ::mmap(nullptr, kCapacity * sizeof(ProcessEntry), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory != MAP_FAILED) entries_ = static_cast<ProcessEntry*>(memory);
}

ProcessTree::~ProcessTree() {
  if (entries_ != nullptr) ::munmap(entries_, kCapacity * sizeof(ProcessEntry));
}

bool ProcessTree::read(pid_t root) noexcept {
  size_ = 0;
  const pid_t own = number_in_proc();
  is_foreign_ = own != ::getpid();
  const int folder = ::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return false;
  if (own == 0 || entries_ == nullptr) return ::close(folder), false;
  alignas(LinuxDirent) char records[8192];
  for (;;) {
    const long count = ::syscall(SYS_getdents64, folder, records, sizeof records);
    if (count <= 0) break;
    for (long at = 0; at < count;) {
      const auto* record = reinterpret_cast<const LinuxDirent*>(records + at);
      if (parse_pid(record->name) > 0) add(record->name);
      at += record->length;
    }
  }
  ::close(folder);
  mark(root == 0 ? own : root);
  return size_ > 0;
}

void ProcessTree::add(const char* name) noexcept {
  if (size_ == kCapacity) return;
  char text[512];
  const std::size_t count = read_start(ProcPath(parse_pid(name), "/stat").text, text);
  const std::string_view fields = fields_of_stat({text, count});
  if (fields.size() < 3) return;
  const char* const parent = fields.data() + 2;
  entries_[size_++] = {parse_pid(name), parse_pid(parent), fields.front(), false, ticks_of(parent)};
}

bool ProcessTree::is(std::size_t index, pid_t pid) const noexcept {
  if (!is_foreign_) return entries_[index].pid == pid;
  char status[2048];
  return read_start(ProcPath(entries_[index].pid, "/status").text, status) > 0 && innermost_number(status) == pid;
}

// A process's folder in /proc can be used as a pidfd.
void ProcessTree::signal(std::size_t index, int number) const noexcept {
  if (!is_foreign_) {
    ::kill(entries_[index].pid, number);
    return;
  }
  const int process = ::open(ProcPath(entries_[index].pid, "").text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (process < 0) return;
  ::syscall(SYS_pidfd_send_signal, process, number, nullptr, 0);
  ::close(process);
}

void ProcessTree::mark(pid_t root) noexcept {
  for (bool is_grown = true; is_grown;) {
    is_grown = false;
    for (std::size_t i = 0; i < size_; ++i) {
      if (entries_[i].is_descendant) continue;
      // /proc lists processes in order of PID.
      const auto* parent = std::lower_bound(entries_, entries_ + size_, entries_[i].parent,
                                            [](const ProcessEntry& entry, pid_t pid) { return entry.pid < pid; });
      const bool is_child = entries_[i].parent == root ||
                            (parent != entries_ + size_ && parent->pid == entries_[i].parent && parent->is_descendant);
      entries_[i].is_descendant = is_child;
      is_grown |= is_child;
    }
  }
}

}  // namespace lockstep::launch
