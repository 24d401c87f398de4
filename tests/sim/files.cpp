// SPDX-License-Identifier: Apache-2.0
#include "sim/files.h"

#include <sys/signalfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep::sim {

ssize_t File::read(void*, std::size_t) {
  errno = EINVAL;
  return -1;
}

ssize_t File::write(const void*, std::size_t) {
  errno = EINVAL;
  return -1;
}

void File::changed() {
  for (Fiber* fiber : std::exchange(waiters, {})) kernel()->wake(*fiber);
  for (Epoll* watcher : watchers) watcher->note_change(*this);
}

void File::wait(Nanos deadline) {
  Fiber* fiber = kernel()->current();
  waiters.push_back(fiber);
  kernel()->block(deadline);
  std::erase(waiters, fiber);
}

Files& files() {
  static Files all;
  return all;
}

int Files::add(std::shared_ptr<File> file) {
  const OfMachine not_of_process;
  if (file->owner == nullptr && kernel()->current() != nullptr) file->owner = kernel()->current()->process;
  if (file->owner != nullptr) ++file->owner->use.descriptors;
  const auto free = std::find(all_.begin(), all_.end(), nullptr);
  const auto index = static_cast<int>(free - all_.begin());
  if (free == all_.end()) {
    all_.push_back(std::move(file));
  } else {
    *free = std::move(file);
  }
  return kFirst + index;
}

void Files::give(int fd, Process& to) {
  const auto file = find(fd);
  --file->owner->use.descriptors;
  ++to.use.descriptors;
  file->owner = &to;
}

std::shared_ptr<File> Files::find(int fd) const {
  const auto index = static_cast<std::size_t>(fd - kFirst);
  return fd >= kFirst && index < all_.size() ? all_[index] : nullptr;
}

int Files::close(int fd) {
  const auto file = find(fd);
  if (!file) {
    errno = EBADF;
    return -1;
  }
  all_[static_cast<std::size_t>(fd - kFirst)] = nullptr;
  if (file->owner != nullptr) --file->owner->use.descriptors;
  for (Epoll* watcher : std::vector<Epoll*>(file->watchers)) watcher->forget(*file);
  file->close();
  file->changed();
  return 0;
}

void Files::close_all_of(const Process& process) {
  for (std::size_t i = 0; i < all_.size(); ++i) {
    if (all_[i] && all_[i]->owner == &process) close(kFirst + static_cast<int>(i));
  }
}

int Files::count_of(const Process& process) const {
  return static_cast<int>(
      std::count_if(all_.begin(), all_.end(), [&](const auto& file) { return file && file->owner == &process; }));
}

ssize_t EventFile::read(void* to, std::size_t size) {
  if (size < sizeof count_) return File::read(to, size);
  if (count_ == 0) {
    errno = EAGAIN;
    return -1;
  }
  const std::uint64_t taken = is_semaphore_ ? 1 : count_;
  std::memcpy(to, &taken, sizeof taken);
  count_ -= taken;
  return sizeof taken;
}

ssize_t EventFile::write(const void* from, std::size_t size) {
  std::uint64_t added = 0;
  if (size < sizeof added) return File::write(from, size);
  std::memcpy(&added, from, sizeof added);
  count_ += added;
  changed();
  return sizeof added;
}

ssize_t TimerFile::read(void* to, std::size_t size) {
  if (!has_expired_ || size < sizeof(std::uint64_t)) {
    errno = EAGAIN;
    return -1;
  }
  const std::uint64_t one = 1;
  std::memcpy(to, &one, sizeof one);
  has_expired_ = false;
  return sizeof one;
}

void TimerFile::arm(Nanos moment) {
  has_expired_ = false;
  const std::uint64_t arm = ++arms_;
  if (moment == kNever) return;
  kernel()->at(moment, [self = weak_from_this(), arm] {
    const auto timer = self.lock();
    if (!timer || timer->arms_ != arm) return;
    timer->has_expired_ = true;
    timer->changed();
  });
}

ssize_t SignalFile::read(void* to, std::size_t size) {
  if (signals_.empty() || size < sizeof(signalfd_siginfo)) {
    errno = EAGAIN;
    return -1;
  }
  signalfd_siginfo info{};
  info.ssi_signo = static_cast<std::uint32_t>(signals_.front());
  signals_.pop_front();
  std::memcpy(to, &info, sizeof info);
  return sizeof info;
}

std::uint32_t Epoll::reportable(const Entry& entry) {
  const auto now = static_cast<std::uint32_t>(static_cast<unsigned short>(entry.file->ready()));
  const std::uint32_t wanted = entry.event.events | EPOLLERR | EPOLLHUP;
  const bool is_edge = (entry.event.events & EPOLLET) != 0;
  return is_edge && !entry.is_pending ? 0 : now & wanted;
}

short Epoll::ready() const {
  const bool any =
      std::any_of(entries_.begin(), entries_.end(), [](const auto& e) { return reportable(e.second) != 0; });
  return any ? POLLIN : 0;
}

void Epoll::close() {
  for (auto& [fd, entry] : entries_) std::erase(entry.file->watchers, this);
  entries_.clear();
}

int Epoll::control(int operation, int fd, const epoll_event* event) {
  const auto file = files().find(fd);
  const auto found = entries_.find(fd);
  if (!file || (operation != EPOLL_CTL_ADD && found == entries_.end())) {
    errno = file ? ENOENT : EBADF;
    return -1;
  }
  if (operation == EPOLL_CTL_DEL) {
    forget(*file);
    return 0;
  }
  if (operation == EPOLL_CTL_ADD) file->watchers.push_back(this);
  entries_[fd] = {file, *event, true};
  changed();
  return 0;
}

int Epoll::collect(epoll_event* out, int most) {
  int count = 0;
  for (auto& [fd, entry] : entries_) {
    const std::uint32_t events = reportable(entry);
    if (events == 0 || count == most) continue;
    entry.is_pending = false;
    out[count] = entry.event;
    out[count++].events = events;
  }
  return count;
}

void Epoll::note_change(const File& file) {
  for (auto& [fd, entry] : entries_) {
    if (entry.file.get() == &file) entry.is_pending = true;
  }
  changed();
}

void Epoll::forget(const File& file) {
  std::erase_if(entries_, [&](const auto& entry) { return entry.second.file.get() == &file; });
  std::erase(const_cast<File&>(file).watchers, this);
}

}  // namespace lockstep::sim
