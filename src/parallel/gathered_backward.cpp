// SPDX-License-Identifier: Apache-2.0
#include "parallel/gathered_backward.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/replicas.h"
#include "parallel/reducer/graph_node.h"

namespace lockstep::parallel {
namespace {

using torch::autograd::variable_list;

bool is_narrow(const at::Tensor& value) {
  return value.scalar_type() == at::kBFloat16 || value.scalar_type() == at::kHalf;
}

/// Adds parts in tree order. Undefined parts count as zero; the result is undefined if all are.
at::Tensor tree(const std::vector<at::Tensor>& parts, int lo, int hi) {
  if (hi - lo == 1) {
    const at::Tensor& part = parts[static_cast<std::size_t>(lo)];
    return part.defined() && is_narrow(part) ? part.to(at::kFloat) : part;
  }
  const int middle = tree_split(lo, hi);
  const at::Tensor left = tree(parts, lo, middle);
  const at::Tensor right = tree(parts, middle, hi);
  if (!left.defined() || !right.defined()) return left.defined() ? left : right;
  return at::add(left, right);
}

/// Checks that a parameter has not changed since its copies were made or shared. Throws: UsageError if it has.
void require_unchanged(const std::string& name, const at::Tensor& parameter, std::int64_t version) {
  if (parameter._version() == version) return;
  throw UsageError(fmt::format("parameter '{}' was changed between DataParallel's forward and backward", name),
                   "call the optimizer's step() after backward");
}

std::vector<at::Tensor> leaves_with_gradient(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> found;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.requires_grad()) found.push_back(tensor);
  }
  return found;
}

/// The backward of copying a parameter to the replicas.
class SumOfCopies final : public torch::autograd::Node {
 public:
  SumOfCopies(std::string name, const at::Tensor& parameter)
      : name_(std::move(name)), like_(parameter.detach()), version_(like_._version()) {}
  variable_list apply(variable_list&& grads) override {
    require_unchanged(name_, like_, version_);
    for (at::Tensor& grad : grads) {
      if (grad.defined()) grad = grad.to(like_.device());
    }
    return {sum_parts(grads, like_)};
  }
  std::string name() const override { return "lockstep::SumOfCopies"; }

 private:
  std::string name_;
  at::Tensor like_;  ///< shares the parameter's version
  std::int64_t version_;
};

/// Returns for each tensor one of `count` threads, so that all threads get about the same number of elements.
std::vector<int> shares_of(const variable_list& tensors, int count) {
  std::int64_t all = 1;
  for (const at::Tensor& tensor : tensors) all += tensor.numel();
  std::vector<int> shares;
  std::int64_t before = 0;
  for (const at::Tensor& tensor : tensors) {
    shares.push_back(static_cast<int>((before + tensor.numel() / 2) * count / all));
    before += tensor.numel();
  }
  return shares;
}

class GatheredBackward final : public torch::autograd::Node {
 public:
  GatheredBackward(std::vector<ReplicaGraph> graphs, GatherInputs inputs, std::shared_ptr<ReplicaThreads> threads)
      : graphs_(std::move(graphs)), inputs_(std::move(inputs)), threads_(std::move(threads)) {
    for (const auto& item : inputs_.parameters) versions_.push_back(item.second._version());
  }

  /// Returns the tensors whose gradients this node returns, in order.
  [[nodiscard]] variable_list trained() const {
    variable_list found = leaves_with_gradient(inputs_.arguments);
    for (const auto& item : inputs_.parameters) {
      if (item.second.requires_grad()) found.push_back(item.second);
    }
    return found;
  }

  variable_list apply(variable_list&& grads) override {
    require_possible();
    std::vector<variable_list> found(graphs_.size());
    threads_->run(static_cast<int>(graphs_.size()),
                  [&](int replica) { found[static_cast<std::size_t>(replica)] = differentiate(grads, replica); });
    return combine(found);
  }

  void release_variables() override { graphs_.clear(); }
  std::string name() const override { return "lockstep::DataParallelBackward"; }

 private:
  void require_possible() const {
    if (at::GradMode::is_enabled()) {
      throw UsageError("second derivatives through DataParallel are not supported",
                       "call backward() without create_graph");
    }
    if (graphs_.empty()) {
      throw UsageError("cannot call backward() a second time through the same outputs of DataParallel",
                       "call backward() with retain_graph for all but the last");
    }
    for (std::size_t i = 0; i < versions_.size(); ++i) {
      require_unchanged(inputs_.parameters[i].first, inputs_.parameters[i].second, versions_[i]);
    }
  }

  /// Returns the part for `replica` of `grad`, the gradient of a joined output.
  [[nodiscard]] at::Tensor own_part(const at::Tensor& grad, std::size_t output, std::size_t replica) const {
    const at::Tensor& own = graphs_[replica].outputs[output];
    if (own.dim() == 0) return grad.select(0, static_cast<std::int64_t>(replica));
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < replica; ++i) begin += graphs_[i].outputs[output].size(0);
    return grad.narrow(0, begin, own.size(0));
  }

  variable_list differentiate(const variable_list& grads, int replica) const {
    const auto index = static_cast<std::size_t>(replica);
    const ReplicaGraph& graph = graphs_[index];
    variable_list outputs;
    variable_list given;
    std::size_t next = 0;  // `grads` has entries only for outputs with a graph
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
      if (!graphs_.front().outputs[i].requires_grad()) continue;
      const at::Tensor& grad = grads[next++];
      if (!grad.defined() || !graph.outputs[i].requires_grad()) continue;
      outputs.push_back(graph.outputs[i]);
      given.push_back(own_part(grad, i, index).to(graph.outputs[i].scalar_type()));
    }
    variable_list wanted = leaves_with_gradient(graph.arguments);
    const variable_list parameters = leaves_with_gradient(graph.parameters);
    wanted.insert(wanted.end(), parameters.begin(), parameters.end());
    if (outputs.empty() || wanted.empty()) return variable_list(wanted.size());
    // The graph is retained here, because it is not known yet whether the caller retains its graph; if not,
    // release_variables() is called later.
    return torch::autograd::grad(outputs, wanted, given, /*retain_graph=*/true, /*create_graph=*/false,
                                 /*allow_unused=*/true);
  }

  /// The replicas' threads sum the gradients; each thread takes a share of the elements.
  variable_list combine(const std::vector<variable_list>& found) const {
    const variable_list wanted = trained();
    const auto count = static_cast<int>(graphs_.size());
    const std::vector<int> adders = shares_of(wanted, count);
    variable_list results(wanted.size());
    threads_->run(count, [&](int replica) {
      for (std::size_t i = 0; i < results.size(); ++i) {
        if (adders[i] == replica) results[i] = combined(found, i, wanted[i]);
      }
    });
    return results;
  }

  /// Returns the gradient of trained()[at], which is `tensor`. The arguments come before the parameters.
  [[nodiscard]] at::Tensor combined(const std::vector<variable_list>& found, std::size_t at,
                                    const at::Tensor& tensor) const {
    std::vector<at::Tensor> parts;
    for (const variable_list& each : found) parts.push_back(each[at]);
    std::size_t next = 0;
    for (std::size_t i = 0; i < inputs_.arguments.size(); ++i) {
      if (!inputs_.arguments[i].requires_grad() || next++ != at) continue;
      return inputs_.is_split[i] ? joined(parts, i) : sum_parts(parts, tensor);
    }
    return sum_parts(parts, tensor);
  }

  [[nodiscard]] at::Tensor joined(std::vector<at::Tensor>& parts, std::size_t argument) const {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (!parts[i].defined()) parts[i] = at::zeros_like(graphs_[i].arguments[argument]);
    }
    return at::cat(parts);
  }

  std::vector<ReplicaGraph> graphs_;
  GatherInputs inputs_;
  std::shared_ptr<ReplicaThreads> threads_;
  std::vector<std::int64_t> versions_;
};

}  // namespace

at::Tensor sum_parts(const std::vector<at::Tensor>& parts, const at::Tensor& like) {
  const at::Tensor sum = tree(parts, 0, static_cast<int>(parts.size()));
  return sum.defined() ? sum.to(like.scalar_type()) : sum;
}

void lead_back(const std::string& name, const at::Tensor& parameter, const std::vector<at::Tensor>& copies) {
  if (!parameter.requires_grad()) {
    for (const at::Tensor& copy : copies) torch::autograd::impl::set_gradient_edge(copy, {});
    return;
  }
  const auto node = make_node<SumOfCopies>(name, parameter);
  node->set_next_edges(torch::autograd::collect_next_edges(parameter));
  for (at::Tensor copy : copies) torch::autograd::set_history(copy, node);
}

at::Tensor join_parts(const std::vector<at::Tensor>& parts) {
  if (parts.front().dim() == 0) return at::stack(parts);
  return parts.size() == 1 ? parts.front() : at::cat(parts);
}

std::vector<at::Tensor> gather(std::vector<ReplicaGraph> graphs, GatherInputs inputs,
                               std::shared_ptr<ReplicaThreads> threads) {
  std::vector<at::Tensor> joined;
  std::vector<bool> has_graph;
  {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < graphs.front().outputs.size(); ++i) {
      std::vector<at::Tensor> parts;
      for (const ReplicaGraph& graph : graphs) parts.push_back(graph.outputs[i].detach());
      // A single part is copied too: an in-place change of the output must not affect the replica's graph.
      joined.push_back(parts.size() == 1 && parts.front().dim() > 0 ? parts.front().clone() : join_parts(parts));
      has_graph.push_back(graphs.front().outputs[i].requires_grad());
    }
  }
  if (std::find(has_graph.begin(), has_graph.end(), true) == has_graph.end()) return joined;
  const auto node = make_node<GatheredBackward>(std::move(graphs), std::move(inputs), std::move(threads));
  node->set_next_edges(torch::autograd::collect_next_edges(node->trained()));
  for (std::size_t i = 0; i < joined.size(); ++i) {
    if (has_graph[i]) torch::autograd::set_history(joined[i], node);
  }
  return joined;
}

}  // namespace lockstep::parallel
