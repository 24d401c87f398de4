// SPDX-License-Identifier: Apache-2.0
#include "launch/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace lockstep::launch {
namespace {

// Mapped lazily by the kernel: a machine with few processes pays for few.
constexpr std::size_t kCapacity = 1U << 17U;

// The kernel's own record; libc's readdir would allocate.
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

}  // namespace

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
  const int folder = ::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0 || entries_ == nullptr) return false;
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
  mark(root);
  return size_ > 0;
}

void ProcessTree::add(const char* name) noexcept {
  if (size_ == kCapacity) return;
  char path[64] = "/proc/";
  std::size_t end = 6;
  for (const char* at = name; *at != '\0' && end < 40; ++at) path[end++] = *at;
  for (const char* at = "/stat"; *at != '\0'; ++at) path[end++] = *at;
  path[end] = '\0';
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;  // it ended meanwhile
  char text[512];
  const ssize_t count = ::read(file, text, sizeof text - 1);
  ::close(file);
  if (count <= 0) return;
  text[count] = '\0';
  // "pid (name) state parent ...": the name may hold anything, so the last bracket counts.
  ssize_t at = count - 1;
  while (at > 0 && text[at] != ')') --at;
  if (at == 0 || at + 4 >= count) return;
  entries_[size_++] = {parse_pid(name), parse_pid(text + at + 4), text[at + 2], false};
}

void ProcessTree::mark(pid_t root) noexcept {
  for (bool is_grown = true; is_grown;) {
    is_grown = false;
    for (std::size_t i = 0; i < size_; ++i) {
      if (entries_[i].is_descendant) continue;
      // /proc lists processes by number.
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
