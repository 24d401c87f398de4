// SPDX-License-Identifier: Apache-2.0
// For each gradient M of n x m, and a Q of m x rank: P = M Q, summed over the replicas and orthogonalized; Q = M^T P,
// averaged; the gradient becomes P Q^T. Shapes in names: N rows of M, M columns of M, R rank.
#include "lockstep/parallel/power_sgd.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/comm/step_calls.h"
#include "lockstep/tensor/random.h"

namespace lockstep {
namespace {

constexpr const char* kIterations = "iterations";
constexpr std::string_view kQ = "q.";
constexpr std::string_view kError = "error.";

struct Shape {
  std::int64_t rows;
  std::int64_t columns;
};

/// Returns the matrix's shape. Its rows are the dimension that is slowest in memory, so that flat memory is the matrix.
Shape matrix_shape(const tensor::FlatSlot& slot) {
  if (slot.sizes.empty() || slot.numel == 0) return {1, slot.numel};
  std::size_t slowest = 0;
  for (std::size_t i = 1; i < slot.sizes.size(); ++i) {
    if (slot.strides[i] > slot.strides[slowest] && slot.sizes[i] > 1) slowest = i;
  }
  return {slot.sizes[slowest], slot.numel / slot.sizes[slowest]};
}

at::Tensor flat_part(const at::Tensor& flat, const tensor::FlatSlot& slot) {
  return flat.narrow(0, slot.offset, slot.numel);
}

at::ScalarType wide(at::ScalarType dtype) { return dtype == at::kDouble ? at::kDouble : at::kFloat; }

/// Checks the sum of magnitudes: finite only if every element, and any product with a column of length 1, is finite.
/// Returns: a boolean scalar on the device of `values`.
at::Tensor is_finite(const at::Tensor& values) { return at::isfinite(values.abs().sum()); }

/// Sets `kept` to `fresh` if `keeps` is true. On the CPU, the caller has checked that `keeps` is true. On a GPU, the
/// host does not read `keeps`: if it is false, the earlier value remains, or `otherwise` if there is none.
void keep(at::Tensor& kept, const at::Tensor& fresh, const at::Tensor& keeps, const at::Tensor& otherwise) {
  kept = keeps.is_cpu() ? fresh : at::where(keeps, fresh, kept.defined() ? kept : otherwise);
}

/// Divides a column by its length plus `epsilon`, if that sum is not 0. On a GPU the host does not wait for the result.
void to_unit_length(const at::Tensor& column, double epsilon) {
  if (column.is_cpu()) {
    const double norm = column.norm().item<double>() + epsilon;
    if (norm > 0) column.div_(norm);
    return;
  }
  const at::Tensor norm = column.norm().add_(epsilon);
  column.div_(at::where(norm.gt(0), norm, at::ones_like(norm)));
}

/// Returns an FNV-1a hash, which, unlike std::hash, is the same in every program.
std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 14695981039346656037ULL;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return value;
}

}  // namespace

/// The state of one bucket in one backward.
struct PowerSgd::Step {
  explicit Step(GradBucket& from) : bucket(&from) {}
  GradBucket* bucket;
  std::vector<std::size_t> compressed = {};  ///< indices of parameters()
  std::vector<std::size_t> plain = {};
  std::vector<std::vector<at::Tensor>> matrices_NM = {};  ///< indexed by local replica, then by compressed parameter
  std::vector<at::Tensor> ps_NR = {};                     ///< by compressed parameter; set once the Ps are summed
  std::vector<at::Tensor> qs_MR = {};
  double loss_scale = 1;
  ReplicaSum plain_sum = {};
  ReplicaSum p_sum = {};
  ReplicaSum q_sum = {};
  at::Tensor keeps = {};  ///< true if the new state is kept: all gradients were finite

  [[nodiscard]] int locals() const { return bucket->block().size(); }
  [[nodiscard]] const tensor::FlatSlot& slot(std::size_t parameter) const { return bucket->parameters()[parameter]; }
};

namespace {

/// Builds one flat tensor for each local replica, from the results of `make` for each compressed parameter.
template <class Make>
std::vector<at::Tensor> flatten(int locals, std::size_t parts, const Make& make) {
  std::vector<at::Tensor> values;
  for (int local = 0; local < locals; ++local) {
    std::vector<at::Tensor> flat;
    for (std::size_t i = 0; i < parts; ++i) flat.push_back(make(local, i).reshape({-1}));
    values.push_back(at::cat(flat));
  }
  return values;
}

}  // namespace

PowerSgd::PowerSgd(const PowerSgdOptions& options) : options_(options) {
  if (options.rank < 1) throw UsageError(fmt::format("PowerSgdOptions::rank is {}, which is not > 0", options.rank));
  if (options.start_iter < 0) {
    throw UsageError(fmt::format("PowerSgdOptions::start_iter is {}, which is below 0", options.start_iter));
  }
  if (!(options.min_compression_rate > 0)) {
    throw UsageError(
        fmt::format("PowerSgdOptions::min_compression_rate is {}, which is not > 0", options.min_compression_rate));
  }
}

bool PowerSgd::is_compressed(const tensor::FlatSlot& slot) const {
  const auto [rows, columns] = matrix_shape(slot);
  const std::int64_t rank = std::min({rows, columns, options_.rank});
  return static_cast<double>((rows + columns) * rank) * options_.min_compression_rate <
         static_cast<double>(rows * columns);
}

/// Draws the first Q, with the same numbers on every rank.
at::Tensor PowerSgd::first_q(const std::string& name, std::int64_t rows, const at::Tensor& like) const {
  const std::uint64_t seed =
      stream_seed(stream_seed(options_.seed, hash(name)), static_cast<std::uint64_t>(iterations_));
  const std::int64_t rank = std::min({like.size(0), like.size(1), options_.rank});
  return at::randn({rows, rank}, make_generator(seed)).to(like.options(), /*non_blocking=*/true);
}

/// Returns a copy of the last step's Q. Returns a random Q if there is none, or if a loaded one has another rank.
at::Tensor PowerSgd::begin_q(const std::string& name, const at::Tensor& matrix) {
  const auto warm = q_.find(name);
  if (warm == q_.end() || !options_.warm_start) return first_q(name, matrix.size(1), matrix);
  at::Tensor& kept = warm->second;
  const std::int64_t rank = std::min({matrix.size(0), matrix.size(1), options_.rank});
  // The entry itself is replaced, because keep() needs an earlier value of the same shape on the same device.
  kept = kept.size(1) == rank ? kept.to(matrix.options()) : first_q(name, matrix.size(1), matrix);
  return kept.clone();
}

void PowerSgd::orthogonalize(const at::Tensor& matrix) const {
  for (std::int64_t i = 0; i < matrix.size(1); ++i) {
    const at::Tensor column = matrix.select(1, i);
    to_unit_length(column, options_.orthogonalization_epsilon);
    if (i + 1 == matrix.size(1)) continue;
    const at::Tensor rest = matrix.narrow(1, i + 1, matrix.size(1) - i - 1);
    const at::Tensor column_N1 = column.unsqueeze(1);
    rest.sub_(column_N1.mul(column_N1.mul(rest).sum(0, /*keepdim=*/true)));
  }
}

HookStage PowerSgd::run(GradBucket& bucket) {
  if (bucket.block() != block_) {
    block_ = bucket.block();
    std::erase_if(errors_,
                  [this](const auto& one) { return one.first.first < block_.begin || one.first.first >= block_.end; });
  }
  note_on_host(bucket.group(), "computing PowerSGD's state");
  const auto step = std::make_shared<Step>(bucket);
  if (options_.loss_scale) step->loss_scale = options_.loss_scale();
  for (std::size_t i = 0; i < bucket.parameters().size(); ++i) {
    const bool compress = iterations_ >= options_.start_iter && is_compressed(step->slot(i));
    (compress ? step->compressed : step->plain).push_back(i);
  }
  prepare(*step);
  HookStage stage = start_p(step);
  if (bucket.is_last()) ++iterations_;
  return stage;
}

/// Builds the matrices, with the compression error of the last step added, and the first Q of each.
void PowerSgd::prepare(Step& step) {
  for (int local = 0; local < step.locals(); ++local) {
    auto& matrices = step.matrices_NM.emplace_back();
    for (const std::size_t parameter : step.compressed) {
      const tensor::FlatSlot& slot = step.slot(parameter);
      const auto [rows, columns] = matrix_shape(slot);
      at::Tensor matrix = flat_part(step.bucket->gradient(local), slot).view({rows, columns});
      matrix = matrix.to(wide(matrix.scalar_type()));
      const auto lost = errors_.find({step.bucket->block().begin + local, slot.name});
      if (options_.use_error_feedback && lost != errors_.end()) {
        lost->second = lost->second.to(matrix.options()).view({rows, columns});  // a loaded one may be on the host
        matrix = matrix.add(lost->second, step.loss_scale);
      }
      matrices.push_back(std::move(matrix));
    }
  }
  for (std::size_t i = 0; i < step.compressed.size(); ++i) {
    const std::string& name = step.slot(step.compressed[i]).name;
    at::Tensor q = begin_q(name, step.matrices_NM.front()[i]);
    orthogonalize(q);
    step.qs_MR.push_back(std::move(q));
  }
}

HookStage PowerSgd::start_p(const std::shared_ptr<Step>& step) {
  HookStage stage;
  if (!step->plain.empty()) {
    step->plain_sum = step->bucket->all_reduce(flatten(step->locals(), step->plain.size(), [&](int local, auto i) {
      return flat_part(step->bucket->gradient(local), step->slot(step->plain[i]));
    }));
    stage.works.push_back(step->plain_sum.work);
  }
  if (!step->compressed.empty()) {
    step->p_sum = step->bucket->all_reduce(flatten(step->locals(), step->compressed.size(), [&](int local, auto i) {
      return at::mm(step->matrices_NM[static_cast<std::size_t>(local)][i], step->qs_MR[i]);
    }));
    stage.works.push_back(step->p_sum.work);
  }
  stage.then = [this, step] { return start_q(step); };
  return stage;
}

HookStage PowerSgd::start_q(const std::shared_ptr<Step>& step) {
  if (!step->plain.empty()) {
    const at::Tensor mean = step->plain_sum.value().div_(step->bucket->divisor());
    std::int64_t at = 0;
    for (const std::size_t parameter : step->plain) {
      const tensor::FlatSlot& slot = step->slot(parameter);
      flat_part(step->bucket->result(), slot).copy_(mean.narrow(0, at, slot.numel));
      at += slot.numel;
    }
  }
  if (step->compressed.empty()) return {};
  std::int64_t at = 0;
  for (std::size_t i = 0; i < step->compressed.size(); ++i) {
    const std::int64_t rows = step->matrices_NM.front()[i].size(0);
    const std::int64_t rank = step->qs_MR[i].size(1);
    step->ps_NR.push_back(step->p_sum.sum.narrow(0, at, rows * rank).view({rows, rank}));
    orthogonalize(step->ps_NR.back());
    at += rows * rank;
  }
  step->q_sum = step->bucket->all_reduce(flatten(step->locals(), step->compressed.size(), [&](int local, auto i) {
    return at::mm(step->matrices_NM[static_cast<std::size_t>(local)][i].t(), step->ps_NR[i]);
  }));
  return {.works = {step->q_sum.work}, .then = [this, step] {
            finish(*step);
            return HookStage{};
          }};
}

/// Ends the step. The sums are the same on every rank, so all ranks decide the same way. A non-finite gradient makes
/// its P and thereby its Q non-finite.
void PowerSgd::finish(Step& step) {
  const at::Tensor mean = step.q_sum.sum.div_(step.bucket->divisor());
  step.keeps = is_finite(mean);
  if (!step.plain.empty()) step.keeps = step.keeps.logical_and(is_finite(step.plain_sum.sum));
  const bool keeps_state = !step.keeps.is_cpu() || step.keeps.item<bool>();
  std::int64_t at = 0;
  for (std::size_t i = 0; i < step.compressed.size(); ++i) {
    const tensor::FlatSlot& slot = step.slot(step.compressed[i]);
    const auto sizes = step.qs_MR[i].sizes();
    const at::Tensor q = mean.narrow(0, at, step.qs_MR[i].numel()).view(sizes).clone();
    at += q.numel();
    const at::Tensor approximation = at::mm(step.ps_NR[i], q.t());
    if (keeps_state) keep_state(step, i, q, approximation);
    flat_part(step.bucket->result(), slot).copy_(approximation.view({-1}));
  }
}

/// Keeps the Q of the `i`-th compressed parameter, and the error of its approximation for each replica's gradient.
void PowerSgd::keep_state(const Step& step, std::size_t i, const at::Tensor& q, const at::Tensor& approximation) {
  const std::string& name = step.slot(step.compressed[i]).name;
  for (int local = 0; options_.use_error_feedback && local < step.locals(); ++local) {
    at::Tensor lost = step.matrices_NM[static_cast<std::size_t>(local)][i].sub(approximation);
    if (options_.loss_scale) lost.div_(step.loss_scale);
    keep(errors_[{step.bucket->block().begin + local, name}], lost, step.keeps, at::zeros_like(lost));
  }
  if (options_.warm_start) keep(q_[name], q, step.keeps, step.qs_MR[i]);
}

namespace {

std::string error_name(int replica, const std::string& parameter) {
  return fmt::format("{}{}.{}", kError, replica, parameter);
}

/// Parses "<replica>.<parameter>".
std::pair<int, std::string> parse_error_key(std::string_view entry, std::string_view rest) {
  int replica = -1;
  const auto [end, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), replica);
  if (failure != std::errc() || end == rest.data() + rest.size() || *end != '.') {
    throw DataError(fmt::format("PowerSgd: the state's entry '{}' is not 'error.<replica>.<parameter>'", entry));
  }
  return {replica, std::string(end + 1, rest.data() + rest.size())};
}

/// Returns false, with a warning, for a non-finite entry, which earlier versions kept after an overflow.
bool is_usable(const std::string& name, const at::Tensor& value) {
  if (is_finite(value).item<bool>()) return true;
  log::warn("PowerSgd: the state's entry '{}' is not finite: it is dropped and starts over", name);
  return false;
}

const at::Tensor& tensor_of(const std::string& name, const StateValue& value) {
  if (const auto* tensor = std::get_if<at::Tensor>(&value)) return *tensor;
  throw DataError(fmt::format("PowerSgd: the state's entry '{}' is not a tensor", name));
}

}  // namespace

StateDict PowerSgd::state_dict() const {
  StateDict state{{kIterations, iterations_}};
  for (const auto& [name, q] : q_) state.emplace(std::string(kQ) + name, q);
  for (const auto& [key, error] : errors_) state.emplace(error_name(key.first, key.second), error);
  return state;
}

StateDict PowerSgd::gather_state_dict(ProcessGroup& group) const {
  StateDict state = state_dict();
  if (block_.size() == 0 || errors_.empty()) return state;  // a loaded state holds the entries of all replicas
  std::vector<at::Tensor> blocks;
  group.all_gather(at::tensor({std::int64_t{block_.begin}, std::int64_t{block_.end}}, at::kLong), blocks).wait();
  for (int rank = 0; rank < group.world_size(); ++rank) {
    const auto* block = blocks[static_cast<std::size_t>(rank)].data_ptr<std::int64_t>();
    for (auto replica = static_cast<int>(block[0]); replica < block[1]; ++replica) {
      for (const auto& [key, own] : errors_) {
        if (key.first != block_.begin) continue;  // so that each parameter occurs once
        const at::Tensor error = rank == group.rank() ? errors_.at({replica, key.second}) : at::empty_like(own);
        group.broadcast(error, rank).wait();
        state[error_name(replica, key.second)] = error;
      }
    }
  }
  return state;
}

void PowerSgd::load_state_dict(const StateDict& state) {
  const auto iterations = state.find(kIterations);
  if (iterations == state.end() || !std::holds_alternative<std::int64_t>(iterations->second)) {
    throw DataError("PowerSgd: the state has no whole number 'iterations'");
  }
  std::map<std::string, at::Tensor> q;
  std::map<ErrorKey, at::Tensor> errors;
  for (const auto& [name, value] : state) {
    if (name == kIterations) continue;
    const std::string_view view = name;
    if (view.starts_with(kQ)) {
      const at::Tensor& found = tensor_of(name, value);
      if (is_usable(name, found)) q[std::string(view.substr(kQ.size()))] = found.clone();
    } else if (view.starts_with(kError)) {
      const ErrorKey key = parse_error_key(name, view.substr(kError.size()));
      const at::Tensor& found = tensor_of(name, value);
      if (is_usable(name, found)) errors[key] = found.clone();
    } else {
      throw DataError(fmt::format("PowerSgd: the state has an unknown entry '{}'", name));
    }
  }
  iterations_ = std::get<std::int64_t>(iterations->second);
  q_ = std::move(q);
  errors_ = std::move(errors);
}

namespace hooks {

CommunicationHook power_sgd(std::shared_ptr<PowerSgd> state) {
  return [state = std::move(state)](GradBucket& bucket) { return state->run(bucket); };
}

CommunicationHook power_sgd(const PowerSgdOptions& options) { return power_sgd(std::make_shared<PowerSgd>(options)); }

}  // namespace hooks
}  // namespace lockstep
