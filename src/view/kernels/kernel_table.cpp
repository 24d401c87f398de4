// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "lockstep/view/kernel_report.h"
#include "view/kernels/kernel_names.h"
#include "view/profile/call_order.h"

namespace lockstep::view {
namespace {

/// A layer of one step.
struct Layer {
  LayerCalls calls = {};
  std::int64_t backward_ns = 0;
  double backward_flops = 0;
};

/// The layers, by the start of their forward pass. Only the outermost backward nodes count.
class Layers {
 public:
  /// Takes the calls thread by thread, in the order of their start.
  void add_forward(const ProfiledCall& call) {
    enter(call);
    const bool is_section = call.name == "forward" || call.name == "loss";
    if (call.kind == CallKind::kSection && is_section) section_end_ = std::max(section_end_, call.end_ns);
    if (call.kind != CallKind::kOperator) return;
    if (call.begin_ns < layer_end_) {
      layer_->calls.push_back(&call);
    } else if (call.begin_ns < section_end_) {
      layer_ = &layers_[call.begin_ns];
      layer_->calls.push_back(&call);
      layer_end_ = call.end_ns;
    }
  }

  void add_backward(const ProfiledCall& call) {
    enter(call);
    if (call.kind == CallKind::kBackwardNode && call.begin_ns >= node_end_) {
      const auto found = layers_.find(call.made_ns);
      layer_ = found == layers_.end() ? nullptr : &found->second;
      node_end_ = call.end_ns;
      if (layer_ != nullptr) layer_->backward_ns += call.end_ns - call.begin_ns;
    } else if (call.begin_ns < node_end_ && layer_ != nullptr) {
      layer_->backward_flops += call.flops;
    }
  }

  [[nodiscard]] const std::map<std::int64_t, Layer>& all() const { return layers_; }

 private:
  void enter(const ProfiledCall& call) {
    if (call.thread == thread_) return;
    thread_ = call.thread;
    section_end_ = layer_end_ = node_end_ = 0;
    layer_ = nullptr;
  }

  std::map<std::int64_t, Layer> layers_;
  Layer* layer_ = nullptr;
  int thread_ = -1;
  std::int64_t section_end_ = 0;
  std::int64_t layer_end_ = 0;
  std::int64_t node_end_ = 0;
};

Layers layers_of(const Profile& profile) {
  const auto wanted = [&](const ProfiledCall& call) { return runs_steps(profile, call); };
  const Calls calls = calls_in_order(profile, true, wanted);
  Layers layers;
  for (const ProfiledCall* call : calls) layers.add_forward(*call);
  for (const ProfiledCall* call : calls) layers.add_backward(*call);
  return layers;
}

double peak_of(const KernelRow& row, const KernelMachine& machine) {
  if (row.type != "bfloat16") return machine.float32_flops_per_s;
  return machine.bfloat16_is_slow ? std::max(machine.float32_flops_per_s, machine.bfloat16_flops_per_s)
                                  : machine.bfloat16_flops_per_s;
}

/// Returns the time that a pass takes with its products at the peak rate or its bytes at the memory rate, whichever is
/// longer.
double bound_ns(const KernelPass& pass, double flops_per_s, double copied_bytes_per_s) {
  if (pass.ns <= 0) return 0;
  const double products = flops_per_s > 0 ? pass.flops / flops_per_s : 0;
  // A copied byte is read and written.
  const double moves = copied_bytes_per_s > 0 ? pass.bytes / (2 * copied_bytes_per_s) : 0;
  return std::max(products, moves) * 1e9;
}

void add(KernelPass& sum, const KernelPass& pass, double steps) {
  sum.ns += pass.ns / steps;
  sum.flops += pass.flops / steps;
  sum.bytes += pass.bytes / steps;
}

void add_module(std::vector<std::string>& modules, const LayerCalls& calls) {
  for (const ProfiledCall* call : calls) {
    if (call->layer.empty()) continue;
    if (std::find(modules.begin(), modules.end(), call->layer) == modules.end()) modules.push_back(call->layer);
    return;
  }
}

}  // namespace

std::vector<KernelRow> kernel_table(const Profile& profile, const KernelMachine& machine) {
  const double steps = static_cast<double>(std::max<std::int64_t>(profile.steps, 1));
  std::map<std::tuple<std::string, std::string, std::string>, KernelRow> by_shape;
  const Layers layers = layers_of(profile);
  for (const auto& [begin, layer] : layers.all()) {
    KernelRow one = describe_layer(layer.calls, machine);
    one.forward.ns = static_cast<double>(layer.calls.front()->end_ns - begin);
    for (const ProfiledCall* call : layer.calls) one.forward.flops += call->flops;
    one.backward.ns = static_cast<double>(layer.backward_ns);
    one.backward.flops = layer.backward_flops;
    const double peak = peak_of(one, machine);
    const double bound = bound_ns(one.forward, peak, machine.copied_bytes_per_s) +
                         bound_ns(one.backward, peak, machine.copied_bytes_per_s);
    if (one.backward.ns == 0) one.backward.bytes = 0;
    const auto [place, is_new] = by_shape.try_emplace({one.layer, one.kernel, one.type}, one);
    KernelRow& row = place->second;
    if (is_new) row.forward = row.backward = KernelPass{};
    row.calls += 1;
    row.bound_ns += bound / steps;
    add(row.forward, one.forward, steps);
    add(row.backward, one.backward, steps);
    add_module(row.modules, layer.calls);
  }
  std::vector<KernelRow> rows;
  for (auto& [key, row] : by_shape) {
    row.calls /= steps;
    rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const KernelRow& a, const KernelRow& b) {
    return std::pair(a.lost_ns(), a.ns()) > std::pair(b.lost_ns(), b.ns());
  });
  return rows;
}

KernelReport kernel_report(const Profile& profile, KernelSettings settings, KernelMachine machine) {
  const double steps = static_cast<double>(std::max<std::int64_t>(profile.steps, 1));
  KernelReport report{.settings = std::move(settings),
                      .machine = std::move(machine),
                      .rows = {},
                      .step_ns = static_cast<double>(profile.end_ns - profile.begin_ns) / steps};
  report.rows = kernel_table(profile, report.machine);
  report.advice = kernel_advice(report);
  return report;
}

}  // namespace lockstep::view
