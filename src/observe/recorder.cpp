// SPDX-License-Identifier: Apache-2.0
#include "observe/recorder.h"

#include <ATen/core/grad_mode.h>
#include <ATen/SequenceNumber.h>
#include <unistd.h>

#include <map>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/observe/clock_offset.h"
#include "observe/operator_cost.h"

namespace lockstep::observe {
namespace {

/// An open operator.
struct OpenOperator final : at::ObserverContext {
  RecordedCall recorded;
  int run = 0;
  bool is_counted = false;
  ThreadCalls* thread = nullptr;
};

std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& function) {
  return Recorder::instance().begin_operator(function);
}

void on_end(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  Recorder::instance().end_operator(context);
}

view::CallKind kind_of(const at::RecordFunction& function) {
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) return view::CallKind::kBackwardNode;
  if (function.scope() == at::RecordScope::USER_SCOPE) return view::CallKind::kSection;
  return is_engine(function.name()) ? view::CallKind::kEngine : view::CallKind::kOperator;
}

/// The layer of each forward call, by thread and by autograd's sequence number.
using LayersOfNodes = std::map<std::pair<std::uint64_t, std::uint64_t>, std::string>;

LayersOfNodes layers_of_nodes(const std::vector<RecordedCall>& calls) {
  LayersOfNodes layers;
  for (const RecordedCall& each : calls) {
    if (each.call.layer.empty()) continue;
    for (std::uint64_t at = each.first_sequence; at < each.last_sequence; ++at) {
      layers.try_emplace({each.thread, at}, each.call.layer);  // inner calls end first, and so come first
    }
  }
  return layers;
}

/// The start of the outermost operator during which autograd assigned a sequence number, by thread and number.
using BeginsOfNodes = std::map<std::pair<std::uint64_t, std::uint64_t>, std::int64_t>;

BeginsOfNodes begins_of_nodes(const std::vector<RecordedCall>& calls) {
  BeginsOfNodes begins;
  for (const RecordedCall& each : calls) {
    if (each.call.kind != view::CallKind::kOperator) continue;
    for (std::uint64_t at = each.first_sequence; at < each.last_sequence; ++at) {
      begins[{each.thread, at}] = each.call.begin_ns;  // outer calls end last, and so come last
    }
  }
  return begins;
}

}  // namespace

Recorder& Recorder::instance() {
  static auto* const recorder = new Recorder;
  return *recorder;
}

void Recorder::start(const NamedTensors& parameters, const Recorded& recorded) {
  if (on_.exchange(true)) throw UsageError("another profiler is already running", "stop it before starting this one");
  layers_ = LayersOfMemory(parameters);
  with_inputs_ = recorded.inputs;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& thread : threads_) thread->clear();
  }
  ++run_;
  if (!trace::add_sink(*this)) {
    on_ = false;
    throw UsageError("there is no free slot for the profiler's trace sink", "remove one of the trace sinks");
  }
  // A record of a backward node's inputs would hold them while the node runs. The node would then have to copy inputs
  // that it could otherwise reuse.
  callbacks_ = {
      at::addGlobalCallback(at::RecordFunctionCallback(on_begin, on_end)
                                .needsInputs(true)
                                .scopes({at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE})),
      at::addGlobalCallback(at::RecordFunctionCallback(on_begin, on_end).scopes({at::RecordScope::BACKWARD_FUNCTION}))};
  if (recorded.memory) {
    memory_.emplace([](const void* address, std::int64_t bytes) { Recorder::instance().add_memory(address, bytes); });
  }
}

void Recorder::stop() noexcept {
  if (!on_) return;
  ++run_;  // calls that end from now on are skipped
  for (const at::CallbackHandle callback : std::exchange(callbacks_, {})) at::removeCallback(callback);
  trace::remove_sink(*this);
  if (memory_) memory_->stop();
  memory_.reset();
  on_ = false;
}

void Recorder::take(view::Profile& profile) {
  std::vector<RecordedCall> calls;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& thread : threads_) {
      std::vector<RecordedCall> taken = thread->take();
      const std::vector<view::MemoryEvent> memory = thread->take_memory();
      if (taken.empty() && memory.empty()) continue;
      const int place = static_cast<int>(profile.threads.size());
      profile.threads.push_back(thread->about());
      for (view::MemoryEvent each : memory) {
        each.thread = place;
        profile.memory.push_back(each);
      }
      for (RecordedCall& each : taken) {
        each.call.thread = place;
        calls.push_back(std::move(each));
      }
    }
  }
  const LayersOfNodes layers = layers_of_nodes(calls);
  const BeginsOfNodes begins = with_inputs_ ? begins_of_nodes(calls) : BeginsOfNodes();
  for (RecordedCall& each : calls) {
    if (each.call.kind == view::CallKind::kBackwardNode) {
      const auto found = layers.find({each.thread, each.first_sequence});
      if (found != layers.end()) each.call.layer = found->second;
      const auto begin = begins.find({each.thread, each.first_sequence});
      if (begin != begins.end()) each.call.made_ns = begin->second;
    }
    profile.calls.push_back(std::move(each.call));
  }
}

ThreadCalls& Recorder::calls_of_this_thread() {
  thread_local ThreadCalls* calls = nullptr;
  if (calls == nullptr) {
    auto made = std::make_unique<ThreadCalls>();
    calls = made.get();
    const std::lock_guard lock(mutex_);
    threads_.push_back(std::move(made));
  }
  return *calls;
}

void Recorder::begin(const trace::Event& /*event*/) noexcept {
  calls_of_this_thread().spans.push_back({monotonic_ns(), run_.load(std::memory_order_relaxed)});
}

void Recorder::end(const trace::Event& event) noexcept {
  ThreadCalls& thread = calls_of_this_thread();
  if (thread.spans.empty()) return;
  const ThreadCalls::OpenSpan open = thread.spans.back();
  thread.spans.pop_back();
  if (open.run != run_.load(std::memory_order_relaxed)) return;
  const bool is_collective = event.sequence != 0;
  thread.add({.call = {.name = std::string(event.name),
                       .kind = is_collective ? view::CallKind::kCollective : view::CallKind::kSection,
                       .begin_ns = open.begin_ns,
                       .end_ns = monotonic_ns(),
                       .bytes = static_cast<std::int64_t>(event.bytes),
                       .sequence = event.sequence,
                       .group = event.group,
                       .bucket = event.bucket,
                       .buckets = event.buckets}});
}

void Recorder::add_memory(const void* address, std::int64_t bytes) {
  calls_of_this_thread().add(view::MemoryEvent{reinterpret_cast<std::uintptr_t>(address), bytes, monotonic_ns()});
}

std::unique_ptr<at::ObserverContext> Recorder::begin_operator(const at::RecordFunction& function) {
  // Asynchronous calls may end at any time, out of order with the thread's other calls.
  if (function.isAsync()) return nullptr;
  auto open = std::make_unique<OpenOperator>();
  open->thread = &calls_of_this_thread();
  open->run = run_.load(std::memory_order_relaxed);
  view::ProfiledCall& call = open->recorded.call;
  call.kind = kind_of(function);
  call.name = short_name(function.name(), call.kind);
  if (call.kind == view::CallKind::kBackwardNode) {
    open->recorded.thread = function.forwardThreadId();
    open->recorded.first_sequence = static_cast<std::uint64_t>(function.seqNr());
  } else {
    const OperatorCost cost = operator_cost(call.name, function.inputs());
    call.bytes = cost.bytes;
    open->is_counted = cost.flops > 0;
    if (open->is_counted && open->thread->counted_depth++ == 0) call.flops = cost.flops;
    // Gradients are disabled in an optimizer, which also uses weights.
    const std::string* layer = at::GradMode::is_enabled() ? layers_.layer_of(function.inputs()) : nullptr;
    if (layer != nullptr) call.layer = *layer;
    if (with_inputs_) call.inputs = inputs_of(function.inputs());
    open->recorded.thread = at::RecordFunction::currentThreadId();
    open->recorded.first_sequence = at::sequence_number::peek();
  }
  call.begin_ns = monotonic_ns();
  return open;
}

void Recorder::end_operator(at::ObserverContext* context) {
  auto* open = static_cast<OpenOperator*>(context);
  if (open == nullptr) return;
  open->recorded.call.end_ns = monotonic_ns();
  if (open->is_counted) --open->thread->counted_depth;
  // A call that ends on a different thread does not fit this thread's order.
  if (open->thread != &calls_of_this_thread()) return;
  if (open->run != run_.load(std::memory_order_relaxed)) return;
  if (open->recorded.call.kind != view::CallKind::kBackwardNode) {
    open->recorded.last_sequence = at::sequence_number::peek();
  }
  open->thread->add(std::move(open->recorded));
}

}  // namespace lockstep::observe
