// SPDX-License-Identifier: Apache-2.0
// The descriptors of simulated processes, and the objects behind them.
#pragma once

#include <poll.h>
#include <sys/epoll.h>
#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/kernel.h"

namespace lockstep::sim {

class Epoll;

/// The object behind a descriptor. Calls return -1 and set errno, like the system calls.
class File {
 public:
  virtual ~File() = default;
  /// Returns the current events: POLLIN, POLLOUT, POLLHUP and POLLERR.
  [[nodiscard]] virtual short ready() const = 0;
  /// Reads without blocking.
  virtual ssize_t read(void* to, std::size_t size);
  virtual ssize_t write(const void* from, std::size_t size);
  /// Called after its last descriptor has been closed.
  virtual void close() {}

  /// Wakes the waiting threads: ready() may have changed.
  void changed();
  /// Makes the running thread wait for a change.
  void wait(Nanos deadline);

  bool is_blocking = true;
  Process* owner = nullptr;
  std::vector<Fiber*> waiters;
  std::vector<Epoll*> watchers;
};

/// The descriptors, numbered across all processes of a world. Descriptors below kFirst belong to the real system.
class Files {
 public:
  static constexpr int kFirst = 100'000;
  int add(std::shared_ptr<File> file);
  [[nodiscard]] std::shared_ptr<File> find(int fd) const;
  int close(int fd);
  void close_all_of(const Process& process);
  [[nodiscard]] int count_of(const Process& process) const;
  /// Passes the descriptor to another process, as fork() does.
  void give(int fd, Process& to);

 private:
  std::vector<std::shared_ptr<File>> all_;
};

Files& files();

/// eventfd(2).
class EventFile final : public File {
 public:
  EventFile(std::uint64_t count, bool is_semaphore) : count_(count), is_semaphore_(is_semaphore) {}
  [[nodiscard]] short ready() const override { return static_cast<short>((count_ > 0 ? POLLIN : 0) | POLLOUT); }
  ssize_t read(void* to, std::size_t size) override;
  ssize_t write(const void* from, std::size_t size) override;

 private:
  std::uint64_t count_;
  bool is_semaphore_;
};

/// timerfd(2), in virtual time.
class TimerFile final : public File, public std::enable_shared_from_this<TimerFile> {
 public:
  [[nodiscard]] short ready() const override { return has_expired_ ? POLLIN : 0; }
  ssize_t read(void* to, std::size_t size) override;
  void arm(Nanos moment);

 private:
  std::uint64_t arms_ = 0;
  bool has_expired_ = false;
};

/// signalfd(2), delivering the signals that a fault sends to the process.
class SignalFile final : public File {
 public:
  [[nodiscard]] short ready() const override { return signals_.empty() ? 0 : POLLIN; }
  ssize_t read(void* to, std::size_t size) override;
  void send(int signal) {
    signals_.push_back(signal);
    changed();
  }

 private:
  std::deque<int> signals_;
};

/// epoll(7), edge-triggered for entries that ask for it.
class Epoll final : public File {
 public:
  [[nodiscard]] short ready() const override;
  void close() override;
  int control(int operation, int fd, const epoll_event* event);
  int collect(epoll_event* out, int most);
  void note_change(const File& file);
  void forget(const File& file);

 private:
  struct Entry {
    std::shared_ptr<File> file;
    epoll_event event{};
    bool is_pending = false;
  };
  [[nodiscard]] static std::uint32_t reportable(const Entry& entry);
  std::map<int, Entry> entries_;
};

}  // namespace lockstep::sim
