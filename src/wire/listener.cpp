// SPDX-License-Identifier: Apache-2.0
#include "wire/listener.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/awake_clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/resources.h"
#include "lockstep/store/strangers.h"
#include "lockstep/store/trusted_network.h"
#include "wire/stream.h"

namespace lockstep::wire {
namespace {

constexpr auto kHelloLimit = std::chrono::seconds(20);
constexpr auto kShortOfFiles = std::chrono::milliseconds(50);
constexpr std::uint64_t kUnlimitedFiles = 4096;

using Key = std::pair<std::uint64_t, int>;

/// A caller that has not identified itself yet.
struct Stranger {
  store::Strangers::Id id = 0;
  UniqueFd fd;
  std::string address;
  std::string words;
  TimePoint end;
};

}  // namespace

class Listener::Impl {
 public:
  explicit Impl(const Options& options)
      : options_(options),
        fd_(listen_at(options.address)),
        bookkeeping_(store::door_limits(resource_limits().files.value_or(kUnlimitedFiles)).strangers),
        thread_(start_thread("that answers the other ranks' calls", [this] { loop(); })) {}

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    wakeup_.wake();
    thread_.join();
  }

  [[nodiscard]] Endpoint endpoint() const { return own_end(fd_.get()); }

  std::optional<Caller> take(const Wanted& wanted) {
    const std::lock_guard lock(mutex_);
    const auto found = callers_.find({wanted.circle, wanted.from});
    if (found == callers_.end()) return std::nullopt;
    Caller caller = std::move(found->second);
    callers_.erase(found);
    return caller;
  }

  void watch(std::uint64_t circle, std::shared_ptr<Wakeup> wakeup) {
    const std::lock_guard lock(mutex_);
    if (wakeup) {
      watchers_[circle] = std::move(wakeup);
    } else {
      watchers_.erase(circle);
    }
  }

 private:
  [[nodiscard]] bool is_closed() {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

  void loop() {
    while (!is_closed()) {
      std::vector<pollfd> all{{wakeup_.fd(), POLLIN, 0}, {fd_.get(), POLLIN, 0}};
      for (const Stranger& stranger : strangers_) all.push_back({stranger.fd.get(), POLLIN, 0});
      (void)::poll(all.data(), all.size(), strangers_.empty() ? -1 : static_cast<int>(kAwakeLook.count()));
      hear_all(all);
      if (all[1].revents != 0) accept_all();
    }
  }

  void hear_all(const std::vector<pollfd>& all) {
    const TimePoint now = AwakeClock::instance().now();
    std::size_t at = 2;
    for (auto stranger = strangers_.begin(); stranger != strangers_.end(); ++at) {
      const bool stays = all[at].revents == 0 ? now < stranger->end : hear(*stranger);
      if (!stays && stranger->fd.valid()) turn_away(*stranger);
      if (stays) {
        ++stranger;
      } else {
        bookkeeping_.remove(stranger->id);
        stranger = strangers_.erase(stranger);
      }
    }
  }

  /// Reads the stranger's bytes. Returns true if more must arrive. If the stranger is a rank, takes its connection.
  bool hear(Stranger& stranger) {
    char words[kHelloBytes];
    try {
      const std::size_t missing = kHelloBytes - stranger.words.size();
      const std::size_t got = receive_some(stranger.fd.get(), {}, {reinterpret_cast<std::byte*>(words), missing});
      stranger.words.append(words, got);
    } catch (const ConnectionLost&) {
      return false;
    }
    if (stranger.words.size() < kHelloBytes) return true;
    const auto hello = read_hello(stranger.words, options_.key, options_.nonce);
    if (hello && is_for_us(*hello)) keep({std::move(stranger.fd), *hello, stranger.words});
    return false;
  }

  /// Returns true if the hello is for this rank. Each hello is accepted once, so a copy of it is useless.
  bool is_for_us(const Hello& hello) {
    return hello.is_encrypted == options_.is_encrypted && hello.to == static_cast<std::uint32_t>(options_.rank) &&
           hello.from < static_cast<std::uint32_t>(options_.size) && nonces_.insert(hello.nonce).second;
  }

  void keep(Caller caller) {
    const std::lock_guard lock(mutex_);
    const Key key{caller.hello.circle, static_cast<int>(caller.hello.from)};
    callers_.insert_or_assign(key, std::move(caller));
    const auto watcher = watchers_.find(key.first);
    if (watcher != watchers_.end()) watcher->second->wake();
  }

  void turn_away(const Stranger& stranger) {
    const auto words = fmt::format(
        "a connection from {} to this rank's port {} was closed: it did not prove that it belongs to this job",
        stranger.address, own_end(fd_.get()).port);
    log::write(std::exchange(has_warned_, true) ? log::Level::kDebug : log::Level::kWarn, words);
  }

  void accept_all() {
    while (true) {
      UniqueFd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (fd.valid()) {
        welcome(std::move(fd));
        continue;
      }
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      if (!is_shortage(errno)) return;
      if (const auto id = bookkeeping_.give_up_one()) {
        drop(*id);
      } else {
        std::this_thread::sleep_for(kShortOfFiles);
        return;
      }
    }
  }

  void welcome(UniqueFd fd) {
    const auto id = next_id_++;
    const std::string address = other_end(fd.get()).address;
    if (trusted_ && !trusted_->contains(address)) return;
    strangers_.push_back({id, std::move(fd), address, "", AwakeClock::instance().now() + kHelloLimit});
    if (const auto leaves = bookkeeping_.add(id, store::stranger_address(address))) drop(*leaves);
  }

  void drop(store::Strangers::Id id) {
    strangers_.remove_if([&](const Stranger& stranger) {
      if (stranger.id != id) return false;
      turn_away(stranger);
      return true;
    });
  }

  const Options options_;
  const UniqueFd fd_;
  const std::optional<store::TrustedNetwork> trusted_ = store::trusted_network();
  Wakeup wakeup_;

  std::mutex mutex_;
  bool closed_ = false;
  std::map<Key, Caller> callers_;
  std::map<std::uint64_t, std::shared_ptr<Wakeup>> watchers_;

  // Only the listener's thread uses these members.
  std::list<Stranger> strangers_;
  store::Strangers bookkeeping_;
  store::Strangers::Id next_id_ = 0;
  std::set<std::string> nonces_;
  bool has_warned_ = false;

  std::thread thread_;  // the last member, because it uses the other members
};

Listener::Listener(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
Listener::~Listener() = default;
Endpoint Listener::endpoint() const { return impl_->endpoint(); }
std::optional<Caller> Listener::take(const Wanted& wanted) { return impl_->take(wanted); }
void Listener::watch(std::uint64_t circle, std::shared_ptr<Wakeup> wakeup) { impl_->watch(circle, std::move(wakeup)); }

}  // namespace lockstep::wire
