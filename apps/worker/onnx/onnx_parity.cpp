// SPDX-License-Identifier: Apache-2.0
#include "worker/onnx/onnx_parity.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cdist.h>
#include <ATen/ops/maximum.h>
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

/// Does the same for results whose rows have no order: compares each row with the nearest row on the other side. Each
/// result is divided by its largest value first.
Difference difference_of_sets(const std::vector<at::Tensor>& wanted, const std::vector<at::Tensor>& found) {
  std::vector<at::Tensor> both[2];
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const at::Tensor plain = wanted[i].to(at::kDouble);
    const double largest = std::max(plain.abs().max().item<double>(), kSmallest);
    const std::vector<std::int64_t> rows = {plain.size(0), plain.size(1), -1};
    both[0].push_back((plain / largest).reshape(rows));
    both[1].push_back((found.at(i).to(at::kDouble) / largest).reshape(rows));
  }
  const at::Tensor apart = at::cdist(at::cat(both[0], 2), at::cat(both[1], 2), std::numeric_limits<double>::infinity());
  return {at::maximum(apart.amin(1).max(), apart.amin(2).max()).item<double>(), 1};
}

/// The difference of each result by name; a set of results counts as one result.
std::map<std::string, Difference> differences(const nn::NetworkFunction& function,
                                              const std::vector<at::Tensor>& wanted,
                                              const std::vector<at::Tensor>& found) {
  if (function.is_set) return {{text::join(function.outputs), difference_of_sets(wanted, found)}};
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
