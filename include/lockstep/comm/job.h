// SPDX-License-Identifier: Apache-2.0
// Job: a program's handle to its job, returned by init().
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <c10/core/Device.h>
#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/base/rank.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/comm/wire.h"
#include "lockstep/store/store.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The backend that sends data between the ranks. kAuto picks `local` for one rank, `shm` on one host and `tcp` on
/// several hosts (with `shm` inside each host that has several ranks); GPU tensors go through `nccl` if every rank has
/// its own GPU, else through host memory. kNccl means the same, but it is an error if GPU tensors cannot go through
/// `nccl`.
enum class BackendKind { kAuto, kLocal, kShm, kTcp, kNccl };

/// The settings of init(); unset ones come from the command line, the environment or a default.
struct InitOptions {
  BackendKind backend = BackendKind::kAuto;          ///< unless kAuto, overrides --backend and LOCKSTEP_BACKEND
  std::optional<c10::Device> device;                 ///< unset: --device, LOCKSTEP_DEVICE, a GPU by local rank, else
                                                     ///< the CPU
  std::optional<std::chrono::milliseconds> timeout;  ///< limit of each collective; unset: LOCKSTEP_TIMEOUT, else 300 s
  Wire wire = Wire::kAuto;                           ///< unless kAuto, overrides --wire and LOCKSTEP_WIRE
  int replicas = 0;                                  ///< data-parallel width of the run; 0: the world size
  /// The address where the ranks meet, as in PyTorch: "env://", "tcp://host:port", "file:///path" (the last two with
  /// "?rank=0&world_size=4", or --rank and --world_size, or RANK and WORLD_SIZE). Empty means --dist_url, else env://.
  /// With file:// rank 0 serves at its host's address, or at "?host=ADDRESS".
  std::string dist_url = {};
  /// Values that must be equal on all ranks, such as a seed or a path. init() compares them once all ranks have met
  /// (agreement.h).
  std::map<std::string, std::string> settings = {};
};

/// A rank's handle to the job. It is cheap to copy. Destroying the last copy leaves the job: this does not wait for
/// other ranks, and waits only a bounded time for an operation that this rank has in progress. A default-constructed
/// Job does not belong to a job yet; any use of it throws UsageError.
/// Thread-safe: yes.
class Job {
 public:
  class State;
  Job() = default;
  explicit Job(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}

  /// Returns this rank's number, 0 .. world_size() - 1.
  [[nodiscard]] int rank() const;
  /// Returns this rank's number on its host, counted from 0.
  [[nodiscard]] int local_rank() const;
  /// Returns the number of ranks.
  [[nodiscard]] int world_size() const;
  /// Returns the data-parallel width: the number of parts that a step's data is divided into.
  [[nodiscard]] int replicas() const;
  /// Changes the result of replicas() on this rank. The Trainer calls it if it reads the number from a checkpoint after
  /// init().
  void set_replicas(int replicas) const;
  /// Returns true on rank 0, the rank that prints and saves.
  [[nodiscard]] bool is_main() const;
  /// Returns the rank, local rank and world size, and their source.
  [[nodiscard]] const RankInfo& rank_info() const;
  /// Returns the device on which this rank computes.
  [[nodiscard]] c10::Device device() const;
  /// Returns this rank's host name.
  [[nodiscard]] const std::string& host() const;

  /// Returns the backend: "local", "shm", "tcp", "shm+tcp", "ucx", "shm+ucx" or "nccl".
  [[nodiscard]] std::string backend() const;
  /// Returns the reason for this backend, in one sentence.
  [[nodiscard]] const std::string& backend_reason() const;

  /// Returns this rank's part of the data.
  /// Throws: UsageError if replicas() is not world_size(); several replicas on a rank require the Trainer.
  [[nodiscard]] ShardSpec shard() const;

  /// Returns the group of all ranks, which lives as long as the job. Throws: UsageError if default-constructed.
  [[nodiscard]] ProcessGroup& group() const;
  /// Returns the job's key-value store. Keys that start with "lockstep/" are Lockstep's own.
  [[nodiscard]] Store& store() const;
  /// Returns the time limit of a collective's wait for other ranks.
  [[nodiscard]] std::chrono::milliseconds timeout() const;

  /// Waits until every rank has called barrier().
  /// Collective: yes. Blocks: yes. Throws: anything Work::wait() throws.
  void barrier() const;

  /// Prints one line on stdout, on rank 0 only.
  void print(std::string_view line) const;
  /// Formats and prints one line on stdout, on rank 0 only.
  template <class First, class... Rest>
  void print(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) const {
    if (is_main()) print(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
  }

  /// Prints one line on the console, on every rank, after "[rank]: " (under `lockstep run` the launcher adds the
  /// prefix).
  void print_all(std::string_view line) const;
  /// Formats and prints one line on the console, on every rank.
  template <class First, class... Rest>
  void print_all(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) const {
    print_all(std::string_view(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...)));
  }

  /// Reports to the other ranks that this rank is ending with `error`, so that they stop at once and report it. Only
  /// the first failure of a job counts.
  void publish_failure(const std::exception& error) const noexcept;

 private:
  [[nodiscard]] State& state() const;
  std::shared_ptr<State> state_;
};

/// Joins the job that the environment or --dist_url describes; without either, a world of one. Reads --backend,
/// --wire, --device, --dist_url, --rank and --world_size (with - or _) from the arguments and leaves them there.
///
/// Collective: yes; every rank calls it once.
/// Blocks: until all ranks have joined, up to the timeout.
/// Throws: UsageError (a partially set environment, an unusable backend, a rank with a different version of Lockstep or
///         libtorch or with different settings), TimeoutError (names the missing ranks), ResourceError (shared memory).
/// Example: auto job = lockstep::init(argc, argv);
[[nodiscard]] Job init(int argc, const char* const* argv, const InitOptions& options = {});

/// Runs `body` on this rank. If it throws, run_body() sends the error to the other ranks and rethrows it.
[[nodiscard]] int run_body(Job& job, const std::function<int(Job&)>& body);

/// Runs a whole program: init(), `body`, a clean exit. An error is published, printed once and determines the exit
/// code.
/// Example: int main(int argc, char** argv) { return lockstep::run_program(argc, argv, train); }
[[nodiscard]] int run_program(int argc, const char* const* argv, const std::function<int(Job&)>& body,
                              const InitOptions& options = {}) noexcept;

}  // namespace lockstep

#pragma GCC visibility pop
