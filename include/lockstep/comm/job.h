// SPDX-License-Identifier: Apache-2.0
// Job: what a program knows of its place among the ranks, from init() on.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise
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
#include "lockstep/store/store.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Who carries the bytes between the ranks. kAuto: `local` alone, `shm` on one host, else `gloo`; for tensors of GPUs
/// `nccl` where every rank has one of its own, else through host memory. kNccl: the same, and anything else is an
/// error.
enum class BackendKind { kAuto, kLocal, kShm, kGloo, kNccl };

struct InitOptions {
  BackendKind backend = BackendKind::kAuto;          ///< not kAuto: wins over --backend and LOCKSTEP_BACKEND
  std::optional<c10::Device> device;                 ///< else --device, LOCKSTEP_DEVICE, a GPU by local rank, the CPU
  std::optional<std::chrono::milliseconds> timeout;  ///< of every collective; else LOCKSTEP_TIMEOUT, else 300 s
  int replicas = 0;                                  ///< data-parallel width of the run; 0: the world size
  /// Where the ranks meet, as in PyTorch: "env://", "tcp://host:port", "file:///path" (the latter two with
  /// "?rank=0&world_size=4", or --rank and --world_size, or RANK and WORLD_SIZE). Empty: --dist_url, else env://. With
  /// file:// rank 0 serves at its host's address, or at "?host=ADDRESS".
  std::string dist_url = {};
  /// What must be equal on all ranks: a seed, a path. Compared when all have met (agreement.h).
  std::map<std::string, std::string> settings = {};
};

/// A rank's handle on the job. Cheap to copy; the last copy leaves the job, without waiting for anybody.
/// A default-constructed Job is none yet: every use is a UsageError.
/// Thread-safe: yes.
class Job {
 public:
  class State;
  Job() = default;
  explicit Job(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}

  [[nodiscard]] int rank() const;
  [[nodiscard]] int local_rank() const;
  [[nodiscard]] int world_size() const;
  [[nodiscard]] int replicas() const;
  /// What replicas() says from here on, on this rank: the Trainer learns it from a checkpoint after init().
  void set_replicas(int replicas) const;
  /// Rank 0: the one that prints and saves.
  [[nodiscard]] bool is_main() const;
  [[nodiscard]] const RankInfo& rank_info() const;
  [[nodiscard]] c10::Device device() const;
  /// This rank's host name.
  [[nodiscard]] const std::string& host() const;

  /// "local", "shm" or "gloo"; and why, in one sentence.
  [[nodiscard]] std::string backend() const;
  [[nodiscard]] const std::string& backend_reason() const;

  /// This rank's part of the data. Throws: UsageError where replicas() is not world_size(): that needs the Trainer.
  [[nodiscard]] ShardSpec shard() const;

  [[nodiscard]] ProcessGroup& group() const;
  /// Keys of the job; those starting with "lockstep/" are Lockstep's own.
  [[nodiscard]] Store& store() const;
  [[nodiscard]] std::chrono::milliseconds timeout() const;

  /// Returns when every rank has come here. Collective: yes. Blocks: yes. Throws: as Work::wait.
  void barrier() const;

  /// One line on stdout, on rank 0 only.
  void print(std::string_view line) const;
  template <class First, class... Rest>
  void print(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) const {
    if (is_main()) print(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
  }

  /// One line of every rank on the console, with "[rank]: " before it (under `lockstep run` the launcher writes that).
  void print_all(std::string_view line) const;
  template <class First, class... Rest>
  void print_all(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) const {
    print_all(std::string_view(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...)));
  }

  /// Tells the others that this rank ends with `error`, so that they stop at once and point to it. The first one
  /// counts.
  void publish_failure(const std::exception& error) const noexcept;

 private:
  [[nodiscard]] State& state() const;
  std::shared_ptr<State> state_;
};

/// Joins the job that the environment or --dist_url describes; alone, a world of one. Reads --backend, --device,
/// --dist_url, --rank and --world_size (with - or _) from the arguments and leaves them there.
///
/// Collective: yes - every rank, once.
/// Blocks: until all ranks have come, up to the timeout.
/// Throws: UsageError (half-set environment, impossible backend, another version of Lockstep or libtorch or other
/// settings on another rank), TimeoutError (names the
///         missing ranks), ResourceError (shared memory).
/// Example: auto job = lockstep::init(argc, argv);
[[nodiscard]] Job init(int argc, const char* const* argv, const InitOptions& options = {});

/// Runs `body`; an error is told to the other ranks and goes on its way.
[[nodiscard]] int run_body(Job& job, const std::function<int(Job&)>& body);

/// A program's main: init, `body`, orderly leave. An error is published to the other ranks, printed once and becomes
/// the exit code. Example: int main(int argc, char** argv) { return lockstep::run_program(argc, argv, train); }
[[nodiscard]] int run_program(int argc, const char* const* argv, const std::function<int(Job&)>& body,
                              const InitOptions& options = {}) noexcept;

}  // namespace lockstep

#pragma GCC visibility pop
