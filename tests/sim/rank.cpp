// SPDX-License-Identifier: Apache-2.0
// A rank of a world: it meets the other ranks through the store and computes steps with them. Rank 0 sums the values
// they send, commits the state and replies. The store client, the connections between ranks, the failure records and
// the exit codes are production code.
#include <arpa/inet.h>
#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "lockstep/base/awake_clock.h"
#include "lockstep/base/env.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/whole_number.h"
#include "lockstep/launch/agent.h"
#include "lockstep/wire/circle.h"
#include "sim/clocks.h"
#include "sim/ranks.h"
#include "sim/world.h"

namespace lockstep::sim {
namespace {

constexpr const char* kStepKey = "sim/step";

struct Message {
  std::int32_t round = 0;
  std::int32_t rank = 0;
  std::int64_t step = 0;
  std::uint64_t value = 0;
  std::int32_t is_last = 0;  ///< this rank was asked to leave; from rank 0: all ranks leave after this step
  std::int32_t unused = 0;
};

StoreAddress store_address(const Process& process) {
  const std::string& text = process.environment.at("LOCKSTEP_STORE");
  const auto colon = text.rfind(':');
  return {.host = text.substr(0, colon),
          .port = static_cast<std::uint16_t>(std::atoi(text.c_str() + colon + 1)),
          .token = process.environment.at("LOCKSTEP_STORE_TOKEN")};
}

/// The connections to the other ranks of the round: production code's hub and circle, without encryption.
class Wires {
 public:
  Wires(const Rank& self, const std::shared_ptr<Store>& store)
      : circle_(wire::open_hub({.store = store,
                                .prefix = "sim/wire/",
                                .rank = self.rank,
                                .size = self.world_size,
                                .address = address_of(*self.process->host),
                                .token = self.process->environment.at("LOCKSTEP_STORE_TOKEN"),
                                .is_encrypted = false,
                                .timeout = env::collective_timeout()}),
                1) {}

  /// Sends `out` to the ranks `to`, and receives a message from each rank in `from`, within the job's limit.
  std::vector<Message> exchange(const std::vector<int>& to, Message out, const std::vector<int>& from) {
    std::vector<Message> in(from.size());
    if (to.empty() && from.empty()) return in;
    std::vector<wire::Message> sends;
    std::vector<wire::Message> receives;
    for (const int rank : to) sends.push_back({rank, reinterpret_cast<std::byte*>(&out), sizeof out});
    for (std::size_t i = 0; i < from.size(); ++i) {
      receives.push_back({from[i], reinterpret_cast<std::byte*>(&in[i]), sizeof in[i]});
    }
    try {
      const auto end = AwakeClock::instance().now() + env::collective_timeout();
      circle_.exchange({.sends = sends, .receives = receives, .end = end});
    } catch (const wire::ConnectionLost& lost) {
      throw PeerError(fmt::format("the connection with rank {} was lost: {}", circle_.suspect(), lost.what()));
    } catch (const wire::Interrupted&) {
      throw TimeoutError(fmt::format("a step timed out: rank {} is late", circle_.suspect()));
    }
    return in;
  }

 private:
  static std::string address_of(const Host& host) {
    const in_addr address{htonl(host.address)};
    char text[INET_ADDRSTRLEN] = {};
    return ::inet_ntop(AF_INET, &address, text, sizeof text);
  }

  wire::Circle circle_;
};

/// A rank, from start to end.
class Training {
 public:
  explicit Training(Rank& self)
      : self_(self),
        store_(with_prefix(connect_store(store_address(*self.process), env::collective_timeout()),
                           self.process->environment.at("LOCKSTEP_STORE_PREFIX"))),
        wires_(self, store_) {}

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
      if (is_first) world().claimed(self_, record.type == "DataError");
    } catch (const Error&) {
      // As in comm/core/failure.cpp, the record is simply not published.
    }
  }

  /// Waits a moment for the record of a lost rank, or for its agent to publish one.
  void await_first_failure() {
    try {
      for (int i = 0; i < 100; ++i) {
        if (store_->try_get(kFirstFailureKey)) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    } catch (const Error&) {
      return;  // the store is also gone
    }
    world().require(self_.is_told_to_leave || world().has_touched_node(), "a rank does not learn why it lost another");
  }

 private:
  void serve() {
    store_->set(kSavesKey, "0");
    if (world().plan().replicas > 0) store_->set(kReplicasKey, std::to_string(world().plan().replicas));
    for (int rank = 1; rank < self_.world_size; ++rank) others_.push_back(rank);
    hear(wires_.exchange({}, {}, others_));
    std::tie(step_, state_) = world().load(self_);
    wires_.exchange(others_, message(state_), {});
  }

  void join() {
    others_ = {0};
    const Message start = hear(wires_.exchange(others_, message(0), others_)).front();
    step_ = start.step;
    state_ = start.value;
  }

  void compute() {
    const Plan& plan = world().plan();
    const Nanos time = plan.step_time + kernel()->dice().between(0, plan.step_time / 4);
    std::this_thread::sleep_for(std::chrono::nanoseconds(time));
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::exchange(self_.hangs_for, 0)));
    if (self_.fails_with == static_cast<int>(ExitCode::kData)) throw DataError("an image is broken");
    if (self_.fails_with == static_cast<int>(ExitCode::kIo)) throw IoError("the disk failed");
  }

  // Sends the sum over all samples to all ranks. Returns true if the ranks leave after this step.
  bool exchange() {
    ++step_;
    std::uint64_t sum = 0;
    for (std::int64_t i = kSamples * self_.rank / self_.world_size; i < kSamples * (self_.rank + 1) / self_.world_size;
         ++i) {
      sum += sample_value(step_, i);
    }
    bool is_last = self_.is_told_to_leave;
    if (self_.rank == 0) {
      for (const Message& part : hear(wires_.exchange({}, {}, others_))) {
        world().require(part.step == step_, "a rank is in another step");
        sum += part.value;
        is_last = is_last || part.is_last != 0;
      }
      wires_.exchange(others_, message(sum, is_last), {});
    } else {
      const Message answer = hear(wires_.exchange(others_, message(sum, is_last), others_)).front();
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

  // Checks that the store's reply belongs to the request, even after an earlier reply that came too late.
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

  std::vector<Message> hear(std::vector<Message> messages) const {
    for (const Message& message : messages) {
      world().require(message.round == self_.round, "a rank of another round is heard");
    }
    return messages;
  }

  Rank& self_;
  std::shared_ptr<Store> store_;
  Wires wires_;
  std::vector<int> others_;  ///< all other ranks on rank 0; rank 0 on the others
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

// Writes the error file for the agent, like guarded_main().
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
