// SPDX-License-Identifier: Apache-2.0
// The descriptors of simulated processes: what they wait for, and what lies behind them.
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

/// What a descriptor refers to. Calls return -1 and set errno, as the system's do.
class File {
 public:
  virtual ~File() = default;
  /// Which of POLLIN, POLLOUT, POLLHUP and POLLERR hold.
  [[nodiscard]] virtual short ready() const = 0;
  /// Without waiting.
  virtual ssize_t read(void* to, std::size_t size);
  virtual ssize_t write(const void* from, std::size_t size);
  /// Its last descriptor was closed.
  virtual void close() {}

  /// Something about ready() may have changed.
  void changed();
  /// The running thread waits for a change.
  void wait(Nanos deadline);

  bool is_blocking = true;
  Process* owner = nullptr;
  std::vector<Fiber*> waiters;
  std::vector<Epoll*> watchers;
};

/// Descriptors, numbered for all processes of a world. Those below kFirst are the real system's.
class Files {
 public:
  static constexpr int kFirst = 100'000;
  int add(std::shared_ptr<File> file);
  [[nodiscard]] std::shared_ptr<File> find(int fd) const;
  int close(int fd);
  void close_all_of(const Process& process);
  [[nodiscard]] int count_of(const Process& process) const;
  /// The descriptor goes to another process, as by a fork.
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

/// timerfd(2), armed by a moment of virtual time.
class TimerFile final : public File, public std::enable_shared_from_this<TimerFile> {
 public:
  [[nodiscard]] short ready() const override { return has_expired_ ? POLLIN : 0; }
  ssize_t read(void* to, std::size_t size) override;
  void arm(Nanos moment);

 private:
  std::uint64_t arms_ = 0;
  bool has_expired_ = false;
};

/// signalfd(2): what a test sends to the process.
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

/// epoll(7), edge-triggered where asked for.
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
