// SPDX-License-Identifier: Apache-2.0
// What a rank does in a world: it meets the others through the store, and computes steps with them. Rank 0 sums what
// they send, commits the state, and answers. The store's client, the failure records and exit codes are production's.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "lockstep/base/awake_clock.h"
#include "lockstep/base/env.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/whole_number.h"
#include "lockstep/launch/agent.h"
#include "sim/clocks.h"
#include "sim/ranks.h"
#include "sim/world.h"

namespace lockstep::sim {
namespace {

constexpr const char* kRootKey = "sim/root";
constexpr const char* kStepKey = "sim/step";

struct Message {
  std::int32_t round = 0;
  std::int32_t rank = 0;
  std::int64_t step = 0;
  std::uint64_t value = 0;
  std::int32_t is_last = 0;  ///< this rank was told to leave; from rank 0: all leave after this step
  std::int32_t unused = 0;
};

StoreAddress store_address(const Process& process) {
  const std::string& text = process.environment.at("LOCKSTEP_STORE");
  const auto colon = text.rfind(':');
  return {.host = text.substr(0, colon),
          .port = static_cast<std::uint16_t>(std::atoi(text.c_str() + colon + 1)),
          .token = process.environment.at("LOCKSTEP_STORE_TOKEN")};
}

/// Messages between the ranks, each with a limit of time.
class Link {
 public:
  explicit Link(int fd) : fd_(fd) {}

  void send(const Message& message) {
    const auto* from = reinterpret_cast<const char*>(&message);
    for (std::size_t sent = 0; sent < sizeof message;) {
      const ssize_t count = ::send(fd_.get(), from + sent, sizeof message - sent, MSG_NOSIGNAL);
      if (count > 0) sent += static_cast<std::size_t>(count);
      if (count < 0 && errno == EAGAIN) await(POLLOUT);
      if (count < 0 && errno != EAGAIN) throw PeerError("the connection with another rank was lost");
    }
  }

  Message receive() {
    Message message;
    auto* to = reinterpret_cast<char*>(&message);
    for (std::size_t have = 0; have < sizeof message;) {
      const ssize_t count = ::recv(fd_.get(), to + have, sizeof message - have, 0);
      if (count > 0) have += static_cast<std::size_t>(count);
      if (count < 0 && errno == EAGAIN) await(POLLIN);
      if (count == 0 || (count < 0 && errno != EAGAIN)) throw PeerError("the connection with another rank was lost");
    }
    return message;
  }

 private:
  void await(short events) const {
    const auto end = AwakeClock::instance().now() + env::collective_timeout();
    for (;;) {
      pollfd entry{fd_.get(), events, 0};
      if (::poll(&entry, 1, 100) > 0) return;
      if (AwakeClock::instance().now() >= end) throw TimeoutError("a step timed out: another rank is late");
    }
  }

  UniqueFd fd_;
};

UniqueFd make_socket() { return UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

sockaddr_in address_of(std::uint32_t host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(host);
  address.sin_port = htons(port);
  return address;
}

/// A rank between its start and its end.
class Training {
 public:
  explicit Training(Rank& self)
      : self_(self),
        store_(with_prefix(connect_store(store_address(*self.process), env::collective_timeout()),
                           self.process->environment.at("LOCKSTEP_STORE_PREFIX"))) {}

  int run() {
    if (self_.rank == 0) serve();
    if (self_.rank != 0) join();
    const Plan& plan = world().plan();
    while (step_ < plan.steps) {
      compute();
      const bool is_last = exchange();
      const bool saves = step_ % plan.save_every == 0 || step_ == plan.steps || is_last;
      if (saves && self_.rank == 0) commit();
      if (is_last) return static_cast<int>(ExitCode::kTerminated);
    }
    return 0;
  }

  void publish(const FailureRecord& record) {
    try {
      const std::string own = to_json(record);
      const bool is_first = store_->compare_set(kFirstFailureKey, "", own) == own;
      if (is_first && record.type == "DataError") world().claimed(self_);
    } catch (const Error&) {
      // As comm/core/failure.cpp: it stays unsaid.
    }
  }

  /// Another rank is gone: its own record, or its agent's, comes within this time.
  void await_first_failure() {
    try {
      for (int i = 0; i < 100 && !store_->try_get(kFirstFailureKey); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    } catch (const Error&) {
      // The store is gone, too.
    }
  }

 private:
  void serve() {
    store_->set(kSavesKey, "0");
    if (world().plan().replicas > 0) store_->set(kReplicasKey, std::to_string(world().plan().replicas));
    const UniqueFd door = make_socket();
    sockaddr_in address = address_of(self_.process->host->address, 0);
    if (::bind(door.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(door.get(), 64) != 0) {
      throw IoError("a rank cannot listen");
    }
    socklen_t size = sizeof address;
    ::getsockname(door.get(), reinterpret_cast<sockaddr*>(&address), &size);
    store_->set(kRootKey, fmt::format("{} {}", self_.process->host->address, ntohs(address.sin_port)));
    std::map<int, std::unique_ptr<Link>> joined;
    const auto end = AwakeClock::instance().now() + env::collective_timeout();
    while (static_cast<int>(joined.size()) < self_.world_size - 1) {
      pollfd entry{door.get(), POLLIN, 0};
      ::poll(&entry, 1, 100);
      if (AwakeClock::instance().now() >= end) throw TimeoutError("ranks did not come");
      const int fd = ::accept(door.get(), nullptr, nullptr);
      if (fd < 0) continue;
      ::fcntl(fd, F_SETFL, O_NONBLOCK);
      auto link = std::make_unique<Link>(fd);
      const Message hello = heard(link->receive());
      joined[hello.rank] = std::move(link);
    }
    for (auto& [rank, link] : joined) others_.push_back(std::move(link));
    std::tie(step_, state_) = world().load(self_);
    for (auto& other : others_) other->send(message(state_));
  }

  void join() {
    const std::string root = store_->get(kRootKey, env::collective_timeout());
    char* rest = nullptr;
    const auto host = static_cast<std::uint32_t>(std::strtoul(root.c_str(), &rest, 10));
    sockaddr_in address = address_of(host, static_cast<std::uint16_t>(std::atoi(rest)));
    UniqueFd fd = make_socket();
    if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 && errno != EINPROGRESS) {
      throw PeerError("rank 0 cannot be reached");
    }
    pollfd entry{fd.get(), POLLOUT, 0};
    if (::poll(&entry, 1, static_cast<int>(env::collective_timeout().count())) <= 0) {
      throw TimeoutError("rank 0 did not answer");
    }
    others_.push_back(std::make_unique<Link>(fd.release()));
    others_[0]->send(message(0));
    const Message start = heard(others_[0]->receive());
    step_ = start.step;
    state_ = start.value;
  }

  void compute() {
    const Plan& plan = world().plan();
    const Nanos time = plan.step_time + kernel()->dice().between(0, plan.step_time / 4);
    std::this_thread::sleep_for(std::chrono::nanoseconds(time));
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::exchange(self_.hangs_for, 0)));
    if (self_.fails_with == static_cast<int>(ExitCode::kData)) throw DataError("a make-believe image is broken");
    if (self_.fails_with == static_cast<int>(ExitCode::kIo)) throw IoError("a make-believe disk failed");
  }

  // All ranks learn the sum over all samples, and whether they leave after this step.
  bool exchange() {
    ++step_;
    std::uint64_t sum = 0;
    for (std::int64_t i = kSamples * self_.rank / self_.world_size; i < kSamples * (self_.rank + 1) / self_.world_size;
         ++i) {
      sum += sample_value(step_, i);
    }
    bool is_last = self_.is_told_to_leave;
    if (self_.rank == 0) {
      for (auto& other : others_) {
        const Message part = heard(other->receive());
        world().require(part.step == step_, "a rank is in another step");
        sum += part.value;
        is_last = is_last || part.is_last != 0;
      }
      for (auto& other : others_) other->send(message(sum, is_last));
    } else {
      others_[0]->send(message(sum, is_last));
      const Message answer = heard(others_[0]->receive());
      sum = answer.value;
      is_last = answer.is_last != 0;
    }
    state_ = next_state(state_, sum);
    return is_last;
  }

  void commit() {
    world().commit(self_, step_, state_);
    say_step();
    store_->add(kSavesKey, 1);
  }

  // An answer belongs to its question, also after one that came too late.
  void say_step() {
    for (bool is_second : {false, true}) {
      try {
        store_->set(kStepKey, std::to_string(step_));
        const auto said = store_->try_get(kStepKey);
        return world().require(said == std::to_string(step_), "the store answers another question");
      } catch (const TimeoutError&) {
        if (is_second) throw;
      }
    }
  }

  [[nodiscard]] Message message(std::uint64_t value, bool is_last = false) const {
    return {.round = self_.round, .rank = self_.rank, .step = step_, .value = value, .is_last = is_last ? 1 : 0};
  }

  Message heard(const Message& message) const {
    world().require(message.round == self_.round, "a rank of another round is heard");
    return message;
  }

  Rank& self_;
  std::shared_ptr<Store> store_;
  std::vector<std::unique_ptr<Link>> others_;
  std::int64_t step_ = 0;
  std::uint64_t state_ = 1;
};

}  // namespace

std::uint64_t sample_value(std::int64_t step, std::int64_t sample) {
  auto value = static_cast<std::uint64_t>(step * 1000 + sample) * 0x9e3779b97f4a7c15ULL;
  value ^= value >> 29U;
  return value * 0xbf58476d1ce4e5b9ULL;
}

std::uint64_t next_state(std::uint64_t state, std::uint64_t sum) { return (state ^ sum) * 0x100000001b3ULL + 7; }

namespace {

// As guarded_main(): for the agent.
void write_error_file(const Process& process, const FailureRecord& record) {
  std::ofstream(process.environment.at("LOCKSTEP_ERROR_FILE")) << fmt::format(
      R"({{"message": {{"message": "{}", "extraInfo": {{"type": "{}"}}}}}})", record.message, record.type);
}

}  // namespace

int run_rank(Rank& self) {
  std::unique_ptr<Training> training;
  try {
    training = std::make_unique<Training>(self);
    return training->run();
  } catch (const PeerError& error) {
    if (training) training->await_first_failure();
    write_error_file(*self.process, record_of(error));
    return static_cast<int>(ExitCode::kPeer);
  } catch (const Error& error) {
    write_error_file(*self.process, record_of(error));
    if (training) training->publish(record_of(error, self.rank, self.process->host->name));
    return static_cast<int>(error.code());
  }
}

}  // namespace lockstep::sim
