// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/presence.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "lockstep/base/awake_clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/resources.h"
#include "store/door.h"
#include "store/wire.h"

namespace lockstep {
namespace {

using store::FrameWriter;
using store::Outcome;
using store::Socket;
using store::Status;
using store::Verb;

constexpr int kBeatsPerSilence = 6;

Socket connect_to(const StoreAddress& address, std::chrono::milliseconds timeout) {
  auto opened = store::open_among_strangers(address, AwakeClock::instance().now() + timeout);
  if (opened.socket) return std::move(*opened.socket);
  throw PeerError(fmt::format("the store at {}:{} is gone ({})", address.host, address.port, opened.socket.error()));
}

}  // namespace

class Presence::Impl {
 public:
  Impl(const StoreAddress& address, const PresenceOptions& options, std::chrono::milliseconds timeout)
      : silence_(options.silence),
        beat_(FrameWriter(Verb::kAttend).number(silence_.count()).strings(options.keys).string(options.will).take()),
        socket_(connect_to(address, timeout)),
        event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!event_.valid()) throw_cannot("watch the store", errno);
    if (exchange(beat_) != Outcome::kDone) throw PeerError("the store closed the connection");
    thread_ = start_thread("for the heartbeat to the store", [this] { run(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      is_leaving_ = true;
    }
    wake_.notify_all();
    thread_.join();
    if (lost().empty() && !is_abandoned_) (void)exchange(FrameWriter(Verb::kLeave).take());
  }

  [[nodiscard]] int fd() const noexcept { return event_.get(); }
  void abandon() noexcept { is_abandoned_ = true; }

  [[nodiscard]] std::string lost() const {
    const std::lock_guard lock(mutex_);
    return lost_;
  }

 private:
  Outcome exchange(const std::string& frame) {
    const TimePoint deadline = AwakeClock::instance().now() + silence_;
    Outcome outcome = socket_.send(frame, deadline);
    std::string reply;
    if (outcome == Outcome::kDone) outcome = socket_.receive(reply, deadline);
    if (outcome == Outcome::kDone && static_cast<Status>(reply[0]) != Status::kOk) outcome = Outcome::kGone;
    return outcome;
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, silence_ / kBeatsPerSilence, [this] { return is_leaving_; })) {
      lock.unlock();
      const Outcome outcome = exchange(beat_);
      lock.lock();
      if (outcome == Outcome::kDone) continue;
      lost_ = outcome == Outcome::kLate ? "silent" : "closed";
      const std::uint64_t one = 1;
      (void)!::write(event_.get(), &one, sizeof one);
      return;
    }
  }

  const std::chrono::milliseconds silence_;
  const std::string beat_;
  Socket socket_;  // used by the constructor, then by the thread, then by the destructor
  UniqueFd event_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool is_leaving_ = false;
  std::atomic<bool> is_abandoned_{false};
  std::string lost_;
  std::thread thread_;
};

Presence::Presence(const StoreAddress& address, const PresenceOptions& options, std::chrono::milliseconds timeout)
    : impl_(std::make_unique<Impl>(address, options, timeout)) {}
Presence::~Presence() = default;
int Presence::fd() const noexcept { return impl_->fd(); }
std::string Presence::lost() const { return impl_->lost(); }
void Presence::abandon() noexcept { impl_->abandon(); }

}  // namespace lockstep
