// SPDX-License-Identifier: Apache-2.0
// How long the parts of training steps take on each rank, and advice. Pure functions: the train module does the
// measuring.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::view {

/// The parts of a rank's time.
enum class StepPart : std::uint8_t {
  kData,       ///< waiting for a batch
  kForward,    ///< the forward pass and the loss
  kBackward,   ///< the backward pass, excluding kExposed
  kExposed,    ///< communication that the backward pass does not hide, including waits for slower ranks
  kOptimizer,  ///< updating the weights
  kSave,       ///< copying the state for a checkpoint, and waiting for an earlier one
  kEvaluate,   ///< evaluations
  kOther       ///< everything else: learning rates, logs, sinks
};
/// The number of values of StepPart.
inline constexpr std::size_t kParts = 8;
/// Returns "data", "forward" and so on.
[[nodiscard]] const char* name_of(StepPart part);

/// Consecutive steps of one rank; stretches begin at the same steps on every rank. Units: seconds.
struct Stretch {
  std::int64_t first_step = 0;  ///< first step of the stretch
  std::int64_t steps = 0;       ///< number of steps
  double compute = 0;           ///< time of forward, backward and optimizer
  double compute_cpu = 0;       ///< the training thread's CPU time in forward, backward and optimizer
};

/// A rank's loader threads. Units: seconds, summed over the threads.
struct WorkerFigures {
  std::int64_t count = 0;  ///< number of threads; 0: the training thread loads
  double busy = 0;         ///< time that they spent in the data set
  double cpu = 0;          ///< their CPU time in the data set
  double delayed = 0;      ///< time during which they were runnable but had no core
};

/// The traffic of a network interface. Units: bytes.
struct Traffic {
  std::string name;           ///< name of the interface
  std::int64_t sent = 0;      ///< bytes that the host sent
  std::int64_t received = 0;  ///< bytes that the host received
};

/// One rank's measurements. Units: seconds, bytes.
struct RankFigures {
  int rank = 0;                        ///< the rank
  std::string host;                    ///< name of the rank's host
  std::int64_t steps = 0;              ///< number of steps in these measurements
  double seconds = 0;                  ///< time of the steps, including evaluations and saves
  std::array<double, kParts> parts{};  ///< time of each StepPart
  double compute_cpu = 0;              ///< the training thread's CPU time in forward, backward and optimizer
  double delayed = 0;                  ///< time during which the training thread was runnable but had no core
  double process_cpu = 0;              ///< CPU time of the whole process
  std::int64_t preempted = 0;          ///< number of times that the kernel preempted the training thread
  WorkerFigures workers;               ///< the rank's loader threads
  std::int64_t read_bytes = 0;         ///< bytes that it read from files, including reads from the kernel's cache
  double cores = 0;                    ///< number of cores that it may use
  std::string cpus = {};               ///< the numbers of these cores; ranks with the same numbers share the cores
  std::int64_t buckets = 0;            ///< number of gradient buckets
  std::int64_t bucket_bytes = 0;       ///< size of all buckets
  std::int64_t resident = 0;           ///< the largest resident set so far
  std::int64_t shared = 0;             ///< shared memory in the current resident set, which the ranks of a host share
  std::int64_t device = 0;             ///< the largest size of tensors on the GPU; 0: no GPU
  std::int64_t host_memory = 0;        ///< memory of the host, or of the control group; 0: unknown
  std::int64_t host_free = 0;          ///< the free part of host_memory
  std::string network;                 ///< identifies the network namespace of its interfaces: a host, or a container
  std::vector<Traffic> traffic;        ///< traffic of the interfaces that carried any, excluding loopback
  std::int64_t resent = 0;             ///< TCP segments that were retransmitted
  std::vector<Stretch> stretches;      ///< stretches of the rank, oldest first

  /// Returns the time of a part.
  [[nodiscard]] double time_in(StepPart part) const { return parts[static_cast<std::size_t>(part)]; }
  /// Returns the time of forward, backward and optimizer.
  [[nodiscard]] double compute() const {
    return time_in(StepPart::kForward) + time_in(StepPart::kBackward) + time_in(StepPart::kOptimizer);
  }
  /// Returns the time of the steps, excluding evaluations and saves.
  [[nodiscard]] double training() const { return seconds - time_in(StepPart::kEvaluate) - time_in(StepPart::kSave); }
  /// Returns the part's share of training(), from 0 to 1.
  [[nodiscard]] double share(StepPart part) const;
};

/// The subject of a finding.
enum class Cause : std::uint8_t {
  kSlowDisk,          ///< loader threads wait for the disk
  kFewWorkers,        ///< loader threads are always busy, and cores are idle
  kCostlyLoading,     ///< loader threads are always busy, and no core is free
  kUnbalancedLoader,  ///< one rank waits for data, and the other ranks do not
  kBusyCore,          ///< a rank's core is shared with another program
  kMoreWork,          ///< a rank computes more than the other ranks
  kTinyBuckets,       ///< gradients are reduced in many small buckets
  kMemory             ///< memory is near its limit
};
/// Returns "slow_disk" and so on, as in the files.
[[nodiscard]] const char* name_of(Cause cause);

/// A current or imminent cause of slow steps.
struct Finding {
  Cause cause = Cause::kSlowDisk;  ///< the cause
  int rank = -1;                   ///< the rank concerned; -1: all ranks
  std::string sentence;            ///< the observation, with its numbers
  std::string advice;              ///< the change to make
};

/// The settings that advice refers to.
struct ReportSettings {
  std::int64_t workers = 0;         ///< loader threads per replica
  std::int64_t batch_size = 0;      ///< samples in a replica's batch
  std::int64_t bucket_cap_mb = 25;  ///< size of a bucket in MiB
};

/// The time that the parts of steps take on each rank, and the causes of slow steps.
struct StepReport {
  std::int64_t first_step = 0;     ///< the first step that is included
  std::int64_t last_step = 0;      ///< the last step that is included
  std::vector<RankFigures> ranks;  ///< measurements by rank
  std::vector<Finding> findings;   ///< the causes of slow steps
};

/// Merges in later measurements of the same rank: adds times and counts, and replaces the memory figures.
void add(RankFigures& sum, const RankFigures& later);

/// The traffic of the hosts' interfaces, each host counted once. Units: bytes per second; segments.
struct NetworkSum {
  double sent = 0;          ///< bytes per second
  double received = 0;      ///< bytes per second
  std::int64_t resent = 0;  ///< segments that were retransmitted
};
/// Returns the sum over the networks of all ranks; none if all ranks share one network.
[[nodiscard]] std::optional<NetworkSum> network_of(const StepReport& report);

/// Returns the findings from the measurements; empty if the run is healthy or too short to judge.
[[nodiscard]] std::vector<Finding> find_causes(const std::vector<RankFigures>& ranks, const ReportSettings& settings);

/// Returns the findings of `found` whose cause and rank are not in `said`.
[[nodiscard]] std::vector<Finding> new_findings(const std::vector<Finding>& found, const std::vector<Finding>& said);

/// Returns the lines of findings, each at most `width` columns. The text ends with a newline.
[[nodiscard]] std::string findings_text(const std::vector<Finding>& findings, int width = 80);

/// Returns a table with a line for each rank (if there are many, for the slowest ranks), and the findings.
[[nodiscard]] std::string report_text(const StepReport& report, int width = 80);

/// Returns one line of JSON without a trailing newline.
[[nodiscard]] std::string to_json(const RankFigures& figures);
/// Reads the text of to_json(); none if it is not such an object.
[[nodiscard]] std::optional<RankFigures> parse_rank_figures(std::string_view json);
/// Returns one line of JSON without a trailing newline.
[[nodiscard]] std::string to_json(const StepReport& report);
/// Reads the text of to_json(); none if it is not such an object.
[[nodiscard]] std::optional<StepReport> parse_step_report(std::string_view json);

}  // namespace lockstep::view

#pragma GCC visibility pop
