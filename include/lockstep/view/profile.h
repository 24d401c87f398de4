// SPDX-License-Identifier: Apache-2.0
// The record of a profile on one rank, and its tables as pure functions: by operator, by part of a step and by layer.
// observe::Profiler records; trace_file.h writes the same as a file for Perfetto.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::view {

/// The kind of a call.
enum class CallKind {
  kOperator,      ///< an operator of libtorch, or a fused layer of Lockstep
  kBackwardNode,  ///< a node of the autograd graph that computes gradients
  kEngine,        ///< the autograd engine around such a node: sums of gradients, hooks
  kSection,       ///< a part of Lockstep or of the program: "forward", "optimizer", "the data set"
  kCollective,    ///< a collective of Lockstep
};

/// An argument of an operator, if inputs are recorded.
struct CallInput {
  std::string type = {};  ///< type of a tensor's elements: "float32"; "numbers" for whole numbers, such as strides
  std::vector<std::int64_t> sizes = {};  ///< the tensor's sizes, or the numbers
  bool channels_last = false;            ///< the channels of images lie side by side
};

/// One call, from its begin to its end. Times are nanoseconds of the rank's monotonic clock.
struct ProfiledCall {
  std::string name;                     ///< "aten::mm", "forward", "all_reduce"
  CallKind kind = CallKind::kOperator;  ///< its kind
  int thread = 0;                       ///< its place in Profile::threads
  std::int64_t begin_ns = 0;            ///< when it began
  std::int64_t end_ns = 0;              ///< when it ended
  std::int64_t bytes = 0;      ///< a collective's, or the inputs of an operator that only moves memory; 0: unknown
  double flops = 0;            ///< floating-point operations of products and convolutions; 0 elsewhere
  std::string layer = {};      ///< the module whose weights it uses, or whose gradients it computes
  std::uint64_t sequence = 0;  ///< number of a collective in its group, from 1
  int group = 0;               ///< group of a collective
  int bucket = -1;             ///< number of a collective's gradient bucket, of `buckets`
  int buckets = 0;             ///< how many buckets there are
  std::vector<CallInput> inputs = {};  ///< inputs of an operator, if they are recorded: one for each argument
  std::int64_t made_ns = 0;  ///< for a backward node, if inputs are recorded: when the outermost operator that made it
                             ///< began; 0: unknown
};

/// A thread that made calls.
struct ProfiledThread {
  std::string name;         ///< its name
  std::int64_t id = 0;      ///< the kernel's
  bool runs_steps = false;  ///< the thread of the training loop, or a replica's
};

/// A block of memory that libtorch took for a tensor, or gave back.
struct MemoryEvent {
  std::uintptr_t address = 0;  ///< its begin
  std::int64_t bytes = 0;      ///< above 0: taken; below: given back
  std::int64_t at_ns = 0;      ///< its time, on the rank's monotonic clock
  int thread = 0;              ///< its place in Profile::threads
};

/// A kernel, a copy or a fill that a GPU ran. Times are nanoseconds of the GPU's clock, which is not the rank's.
struct DeviceCall {
  std::string name;  ///< the driver's name for it: "void at::native::vectorized_elementwise_kernel<4, ...>(...)"
  std::int64_t begin_ns = 0;  ///< when it began
  std::int64_t end_ns = 0;    ///< when it ended
};

/// A profile of whole steps.
struct Profile {
  int rank = 0;               ///< the rank that was recorded
  int world_size = 1;         ///< number of ranks
  std::string host;           ///< the rank's host
  std::int64_t begin_ns = 0;  ///< when the first step began
  std::int64_t end_ns = 0;    ///< when the last step ended
  std::int64_t steps = 0;     ///< number of steps
  /// This rank's clock less rank 0's.
  std::int64_t clock_offset_ns = 0;
  std::int64_t clock_error_ns = 0;       ///< the largest error of clock_offset_ns
  std::vector<ProfiledThread> threads;   ///< threads that made calls
  std::vector<ProfiledCall> calls;       ///< by their begin, in each thread
  std::vector<MemoryEvent> memory = {};  ///< blocks of the loop's thread, and of the backward that it starts
  std::vector<DeviceCall> device = {};   ///< calls of the rank's GPU, in any order; empty without one
};

/// An operator, over all its calls.
struct OperatorRow {
  std::string name;           ///< its name
  std::int64_t calls = 0;     ///< how often it was called
  std::int64_t self_ns = 0;   ///< without the operators that it called
  std::int64_t total_ns = 0;  ///< only the outermost of recursive calls counts
  std::int64_t bytes = 0;     ///< bytes that its calls moved, if that is known
  double flops = 0;           ///< floating-point operations of its calls
};

/// Returns the operators, backward nodes and the autograd engine of the threads that run steps, by self time. The sum
/// of their self times is the time in which such a thread was inside an operator.
[[nodiscard]] std::vector<OperatorRow> operator_table(const Profile& profile);

/// A part of the steps.
struct PartRow {
  std::string_view name;  ///< "data", "forward", ...
  std::int64_t ns = 0;    ///< its time
};

/// Returns data, copy, forward, backward, exposed communication, optimizer and other, then evaluation and saving if
/// they took time. They add up to the profile's time: each moment belongs to the innermost part that it is in.
[[nodiscard]] std::vector<PartRow> part_table(const Profile& profile);

/// A layer, over all its calls.
struct LayerRow {
  std::string name;              ///< the module's name
  std::int64_t forward_ns = 0;   ///< time of its forward
  std::int64_t backward_ns = 0;  ///< time of its backward
  double flops = 0;              ///< floating-point operations of both
};

/// Returns the modules with weights in the order of their first call. The calls of a layer without weights, such as a
/// pooling, are in the table of operators only.
[[nodiscard]] std::vector<LayerRow> layer_table(const Profile& profile);

/// Tensors of one origin.
struct MemoryRow {
  std::string made_by;       ///< the outermost operator or backward node; empty: none
  std::string layer;         ///< the module in which it ran; empty: none with weights
  std::int64_t tensors = 0;  ///< their number
  std::int64_t bytes = 0;    ///< size of all of them
};

/// The tensors that lived when the steps held the most memory.
struct MemoryPeak {
  std::int64_t bytes = 0;       ///< size of all that lived
  std::string section;          ///< the part of the step at that time; empty: between the parts
  std::vector<MemoryRow> rows;  ///< the largest first
};

/// Returns the largest tensors first. Only memory that was taken during the profile counts: weights and the optimizer's
/// state are older.
[[nodiscard]] MemoryPeak memory_peak(const Profile& profile);

/// Kernels of one name, or of one kind.
struct DeviceRow {
  std::string name;        ///< without namespaces and arguments
  std::int64_t calls = 0;  ///< how often it ran
  std::int64_t ns = 0;     ///< the time of all of them together
};

/// The use of a GPU in the steps.
struct DeviceUse {
  std::int64_t busy_ns = 0;      ///< the time in which at least one call ran
  std::int64_t gaps = 0;         ///< pauses between calls
  std::vector<DeviceRow> kinds;  ///< products and convolutions, normalization, ...: the longest first
  std::vector<DeviceRow> rows;   ///< kernels: the longest first
};

/// Returns how the GPU spent the steps, all 0 without one.
[[nodiscard]] DeviceUse device_use(const Profile& profile);

/// Rates for comparison, measured on this machine by all ranks at once; 0: not measured.
struct MachineRates {
  double copied_bytes_per_s = 0;       ///< this rank's memcpy, or its GPU's copies
  double flops_per_s = 0;              ///< this rank's products of matrices, on its device
  std::string flops_type = "float32";  ///< the type of the numbers in those products
};

/// Returns the tables for the console. `most_rows` bounds the operators and layers that are shown; the rest are summed.
[[nodiscard]] std::string profile_text(const Profile& profile, const MachineRates& rates, std::size_t most_rows = 20);

/// Returns the floating-point operations of the steps, without the evaluations and saves between them.
[[nodiscard]] double flops_of(const Profile& profile);
/// Returns the seconds of the steps, without the evaluations and saves between them.
[[nodiscard]] double seconds_of(const Profile& profile);

}  // namespace lockstep::view

#pragma GCC visibility pop
