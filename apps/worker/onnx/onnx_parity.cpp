// SPDX-License-Identifier: Apache-2.0
#include "worker/onnx/onnx_parity.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cdist.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::worker {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBatches[] = {1, 3, 5};
constexpr double kTolerance = 1e-4;  // largest permitted difference, relative to the largest value
constexpr double kSmallest = 1e-3;   // the largest value counts as at least this

struct Difference {
  double largest = 0;  ///< largest absolute difference
  double value = 0;    ///< largest absolute value of the network's results
};

Difference difference(const at::Tensor& wanted, const at::Tensor& found) {
  if (wanted.sizes() != found.sizes()) {
    throw DataError(fmt::format("its shape is [{}], but the network's is [{}]", fmt::join(found.sizes(), ", "),
                                fmt::join(wanted.sizes(), ", ")));
  }
  if (wanted.numel() == 0) return {};
  const at::Tensor one = wanted.to(at::kDouble);
  return {(one - found.to(at::kDouble)).abs().max().item<double>(), one.abs().max().item<double>()};
}

/// The scores, [batch, rows]; without scores all are 0.
at::Tensor scores_of(const std::vector<std::string>& names, const std::vector<at::Tensor>& results) {
  const auto scores = std::find(names.begin(), names.end(), "scores");
  if (scores == names.end()) return at::zeros({results.at(0).size(0), results.at(0).size(1)}, at::kDouble);
  return results.at(scores - names.begin()).squeeze(2);
}

/// Divides each result by the largest value of the network's, as [batch, rows, values].
std::vector<at::Tensor> scaled(const std::vector<at::Tensor>& results, const std::vector<at::Tensor>& wanted) {
  std::vector<at::Tensor> all;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double largest = std::max(wanted[i].to(at::kDouble).abs().max().item<double>(), kSmallest);
    all.push_back((results.at(i).to(at::kDouble) / largest).reshape({wanted[i].size(0), wanted[i].size(1), -1}));
  }
  return all;
}

/// The difference of each result by name; a set of results counts as one result.
std::map<std::string, Difference> differences(const nn::NetworkFunction& function,
                                              const std::vector<at::Tensor>& wanted,
                                              const std::vector<at::Tensor>& found) {
  if (function.is_set) return {{text::join(function.outputs), {difference_of_rows(function, wanted, found), 1}}};
  std::map<std::string, Difference> all;
  for (std::size_t i = 0; i < wanted.size(); ++i) all[function.outputs[i]] = difference(wanted[i], found.at(i));
  return all;
}

/// A line for each result. Throws: DataError.
std::string judged(const std::map<std::string, Difference>& worst, const std::string& runtime) {
  std::string text;
  for (const auto& [name, difference] : worst) {
    const std::string line = fmt::format("{}: differs by at most {:.1e}, for values up to {:.3g}", name,
                                         difference.largest, difference.value);
    if (!(difference.largest <= kTolerance * std::max(difference.value, kSmallest))) {
      throw DataError(fmt::format("the results of {} differ from the network's: {}", runtime, line),
                      "the file is not written; pass --no-check to write it without a comparison");
    }
    text += line + "\n";
  }
  return text;
}

/// The network's own results, and the time it took to compute them.
struct Own {
  std::vector<at::Tensor> results;
  double ms = 0;
};

Own computed(const nn::NetworkFunction& function, const std::vector<at::Tensor>& arguments) {
  const at::NoGradGuard no_grad;
  Own own{.results = function.run(arguments)};
  const auto begin = std::chrono::steady_clock::now();
  (void)function.run(arguments);
  own.ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return own;
}

}  // namespace

double difference_of_rows(const nn::NetworkFunction& function, const std::vector<at::Tensor>& wanted,
                          const std::vector<at::Tensor>& found) {
  const std::vector<at::Tensor> ours = scaled(wanted, wanted);
  const std::vector<at::Tensor> theirs = scaled(found, wanted);
  const at::Tensor apart = at::cdist(at::cat(ours, 2), at::cat(theirs, 2), std::numeric_limits<double>::infinity());
  const auto nearest = [&](const at::Tensor& scores, std::int64_t other_side) {
    const at::Tensor lowest = scores.amin(1, /*keepdim=*/true);
    const at::Tensor may_be_others = (scores <= lowest + kTolerance).logical_and(lowest < scores.amax(1, true));
    return apart.amin(other_side).masked_fill(may_be_others, 0).max();
  };
  const at::Tensor our_scores = scores_of(function.outputs, ours);
  const at::Tensor their_scores = scores_of(function.outputs, theirs);
  const at::Tensor scores_apart = (std::get<0>(our_scores.sort(1)) - std::get<0>(their_scores.sort(1))).abs().max();
  return at::maximum(scores_apart, at::maximum(nearest(our_scores, 2), nearest(their_scores, 1))).item<double>();
}

std::string compare_onnx(const OnnxRuntime& runtime, const fs::path& model, const nn::NetworkFunction& function) {
  OnnxSession session(runtime, model);
  std::map<std::string, Difference> worst;
  std::string speed;
  for (const std::int64_t batch : kBatches) {
    const std::vector<at::Tensor> arguments = function.example(batch);
    const Own own = computed(function, arguments);
    const auto found = session.run(arguments);
    for (const auto& [name, here] : differences(function, own.results, found)) {
      worst[name] = {std::max(worst[name].largest, here.largest), std::max(worst[name].value, here.value)};
    }
    if (!speed.empty()) continue;
    (void)session.run(arguments);  // the first run has prepared the session
    speed = fmt::format("{}: {:.2f} ms per image, compared with {:.2f} ms in Lockstep\n", session.runtime(),
                        session.last_ms(), own.ms);
  }
  return judged(worst, session.runtime()) + speed;
}

}  // namespace lockstep::worker
