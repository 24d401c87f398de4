// SPDX-License-Identifier: Apache-2.0
// The profile of one rank, and its tables as pure functions: by operator, by part of a step and by layer.
// observe::Profiler records it; trace_file.h writes it as a file for Perfetto.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::view {

/// The kind of a call.
enum class CallKind {
  kOperator,      ///< a libtorch operator, or a fused Lockstep layer
  kBackwardNode,  ///< a node of the autograd graph that computes gradients
  kEngine,        ///< the autograd engine around a node: sums of gradients, hooks
  kSection,       ///< a part of Lockstep or of the program: "forward", "optimizer", "the data set"
  kCollective,    ///< a Lockstep collective
};

/// A recorded input of an operator.
struct CallInput {
  std::string type = {};  ///< dtype of a tensor: "float32"; "numbers" for a list of integers, such as strides
  std::vector<std::int64_t> sizes = {};  ///< the tensor's sizes, or the integers
  bool channels_last = false;            ///< the tensor has the channels-last memory format
};

/// One call. Times are in nanoseconds of the rank's monotonic clock.
struct ProfiledCall {
  std::string name;                     ///< "aten::mm", "forward", "all_reduce"
  CallKind kind = CallKind::kOperator;  ///< the kind of the call
  int thread = 0;                       ///< index of the thread in Profile::threads
  std::int64_t begin_ns = 0;            ///< the time of its start
  std::int64_t end_ns = 0;              ///< the time of its end
  std::int64_t bytes = 0;  ///< size of a collective, or of the inputs of an operator that only moves memory; 0: unknown
  double flops = 0;        ///< floating-point operations of matrix products and convolutions; 0 for other calls
  std::string layer = {};  ///< the module whose weights it uses, or whose gradients it computes
  std::uint64_t sequence = 0;          ///< sequence number of a collective in its group, from 1
  int group = 0;                       ///< group of a collective
  int bucket = -1;                     ///< gradient bucket of a collective, from 0; -1: none
  int buckets = 0;                     ///< number of buckets
  std::vector<CallInput> inputs = {};  ///< inputs of an operator, one for each argument, if they are recorded
  std::int64_t made_ns = 0;  ///< start of the outermost operator that made the node (with recorded inputs); 0: unknown
};

/// A thread that made calls.
struct ProfiledThread {
  std::string name;         ///< its name
  std::int64_t id = 0;      ///< the kernel's thread ID
  bool runs_steps = false;  ///< true for the thread of the training loop and for a replica's thread
};

/// An allocation or release of a tensor's memory by libtorch.
struct MemoryEvent {
  std::uintptr_t address = 0;  ///< start of the block
  std::int64_t bytes = 0;      ///< size of the block; below 0: it was released
  std::int64_t at_ns = 0;      ///< the time, on the rank's monotonic clock
  int thread = 0;              ///< index of the thread in Profile::threads
};

/// A kernel, a copy or a fill that a GPU ran. Times are in nanoseconds of the GPU's clock, not the rank's.
struct DeviceCall {
  std::string name;           ///< the driver's name: "void at::native::vectorized_elementwise_kernel<4, ...>(...)"
  std::int64_t begin_ns = 0;  ///< the time of its start
  std::int64_t end_ns = 0;    ///< the time of its end
};

/// A profile of whole steps.
struct Profile {
  int rank = 0;               ///< the rank that was recorded
  int world_size = 1;         ///< number of ranks
  std::string host;           ///< the rank's host
  std::int64_t begin_ns = 0;  ///< the start of the first step
  std::int64_t end_ns = 0;    ///< the end of the last step
  std::int64_t steps = 0;     ///< number of steps
  /// This rank's clock minus rank 0's.
  std::int64_t clock_offset_ns = 0;
  std::int64_t clock_error_ns = 0;       ///< the largest error of clock_offset_ns
  std::vector<ProfiledThread> threads;   ///< threads that made calls
  std::vector<ProfiledCall> calls;       ///< calls, in order of their start within each thread
  std::vector<MemoryEvent> memory = {};  ///< allocations by the loop's thread and by the backward passes that it starts
  std::vector<DeviceCall> device = {};   ///< calls on the rank's GPU, in any order; empty without a GPU
};

/// An operator, summed over all its calls.
struct OperatorRow {
  std::string name;           ///< its name
  std::int64_t calls = 0;     ///< number of calls
  std::int64_t self_ns = 0;   ///< self time, excluding the operators that it called
  std::int64_t total_ns = 0;  ///< total time; only the outermost of recursive calls counts
  std::int64_t bytes = 0;     ///< bytes that its calls moved; 0: unknown
  double flops = 0;           ///< floating-point operations of its calls
};

/// Returns the operators, backward nodes and the autograd engine of the threads that run steps, sorted by self time.
/// Their self times add up to the time that these threads spent in operators.
[[nodiscard]] std::vector<OperatorRow> operator_table(const Profile& profile);

/// A part of the steps.
struct PartRow {
  std::string_view name;  ///< "data", "forward", ...
  std::int64_t ns = 0;    ///< time of this part
};

/// Returns data, copy, forward, backward, exposed communication, optimizer and other, then evaluation and saving if
/// they took time. They add up to the profile's time, because each moment counts only for the innermost part.
[[nodiscard]] std::vector<PartRow> part_table(const Profile& profile);

/// A layer, summed over all its calls.
struct LayerRow {
  std::string name;              ///< the module's name
  std::int64_t forward_ns = 0;   ///< time of its forward pass
  std::int64_t backward_ns = 0;  ///< time of its backward pass
  double flops = 0;              ///< floating-point operations of both
};

/// Returns the modules with weights in the order of their first call. A layer without weights, such as a pooling layer,
/// is only in the operator table.
[[nodiscard]] std::vector<LayerRow> layer_table(const Profile& profile);

/// Tensors from one origin.
struct MemoryRow {
  std::string made_by;       ///< the outermost operator or backward node that allocated them; empty: none
  std::string layer;         ///< the module with weights in which it ran; empty: none
  std::int64_t tensors = 0;  ///< number of tensors
  std::int64_t bytes = 0;    ///< their total size
};

/// The live tensors at the moment when the steps used the most memory.
struct MemoryPeak {
  std::int64_t bytes = 0;       ///< size of all live tensors
  std::string section;          ///< the part of the step at that moment; empty: between the parts
  std::vector<MemoryRow> rows;  ///< the tensors by origin, the largest first
};

/// Returns the peak of the memory that was allocated during the profile. Weights and the optimizer's state were
/// allocated earlier and do not count.
[[nodiscard]] MemoryPeak memory_peak(const Profile& profile);

/// Kernels with the same name, or of the same kind.
struct DeviceRow {
  std::string name;        ///< the name, without namespaces and arguments
  std::int64_t calls = 0;  ///< number of calls
  std::int64_t ns = 0;     ///< total time of all calls
};

/// GPU utilization during the steps.
struct DeviceUse {
  std::int64_t busy_ns = 0;      ///< the time during which at least one call ran
  std::int64_t gaps = 0;         ///< pauses between calls
  std::vector<DeviceRow> kinds;  ///< kinds (products and convolutions, normalization, ...), the longest first
  std::vector<DeviceRow> rows;   ///< kernels, the longest first
};

/// Returns the GPU utilization during the steps; all values are 0 without a GPU.
[[nodiscard]] DeviceUse device_use(const Profile& profile);

/// Reference rates, measured on this machine by all ranks at once; 0: not measured.
struct MachineRates {
  double copied_bytes_per_s = 0;       ///< rate of this rank's memcpy, or of its GPU's copies
  double flops_per_s = 0;              ///< rate of this rank's matrix products, on its device
  std::string flops_type = "float32";  ///< the dtype of those products
};

/// Returns the tables for the console. `most_rows` limits the number of operators and layers; the rest are summed up.
[[nodiscard]] std::string profile_text(const Profile& profile, const MachineRates& rates, std::size_t most_rows = 20);

/// Returns the floating-point operations of the steps, excluding the evaluations and saves between them.
[[nodiscard]] double flops_of(const Profile& profile);
/// Returns the duration of the steps in seconds, excluding the evaluations and saves between them.
[[nodiscard]] double seconds_of(const Profile& profile);

}  // namespace lockstep::view

#pragma GCC visibility pop
