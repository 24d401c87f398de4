// SPDX-License-Identifier: Apache-2.0
#include "worker/checkpoint/onnx_parity.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cdist.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/maximum.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "common/temporary_folder.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/child.h"

namespace lockstep {
extern const char* const onnx_runtime_py;
extern const char* const onnx_runtime_js;
}  // namespace lockstep

namespace lockstep::worker {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t kBatches[] = {1, 3, 5};
constexpr double kTolerance = 1e-4;  // of the largest value
constexpr double kSmallest = 1e-3;   // a largest value that counts
constexpr auto kProbeLimit = std::chrono::seconds(30);
constexpr auto kRunLimit = std::chrono::minutes(10);

struct Number {
  const char* name;
  at::ScalarType type;
};
constexpr Number kNumbers[] = {
    {"float32", at::kFloat}, {"float64", at::kDouble}, {"int64", at::kLong}, {"uint8", at::kByte}, {"bool", at::kBool}};

std::string name_of(at::ScalarType type) {
  for (const Number& number : kNumbers) {
    if (number.type == type) return number.name;
  }
  throw UsageError(fmt::format("arguments of {} cannot be compared", c10::toString(type)));
}

at::ScalarType type_of(const std::string& name) {
  for (const Number& number : kNumbers) {
    if (name == number.name) return number.type;
  }
  throw DataError(fmt::format("the runtime gives a result of {}", name));
}

std::vector<std::string> command_of(const std::string& program, bool probe) {
  const bool is_node = fs::path(program).filename().string().starts_with("node");
  std::vector<std::string> command = {"/usr/bin/env", program, is_node ? "-e" : "-c"};
  if (probe) {
    command.emplace_back(is_node ? "require('onnxruntime-node')" : "import onnxruntime, numpy");
  } else {
    command.emplace_back(is_node ? onnx_runtime_js : onnx_runtime_py);
  }
  return command;
}

/// The arguments of a batch, in files.
json written(const fs::path& folder, std::int64_t batch, const nn::NetworkFunction& function,
             const std::vector<at::Tensor>& arguments) {
  json all = json::array();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const at::Tensor plain = arguments[i].cpu().contiguous();
    const std::string file = fmt::format("argument-{}-{}", batch, i);
    write_file_atomically(FileSystem::system(), folder / file,
                          {static_cast<const char*>(plain.data_ptr()), plain.nbytes()});
    all.push_back({{"name", function.inputs[i]},
                   {"file", file},
                   {"shape", plain.sizes().vec()},
                   {"type", name_of(plain.scalar_type())}});
  }
  return all;
}

at::Tensor read_result(const fs::path& folder, const json& said) {
  const auto shape = said.at("shape").get<std::vector<std::int64_t>>();
  const at::ScalarType type = type_of(said.at("type"));
  std::string bytes = FileSystem::system().read(folder / said.at("file").get<std::string>());
  const at::Tensor found = at::from_blob(bytes.data(), shape, at::TensorOptions(type)).clone();
  if (found.nbytes() != bytes.size()) throw DataError("the runtime's result has another size than it says");
  return found;
}

struct Difference {
  double largest = 0;  ///< of the difference
  double value = 0;    ///< the largest of the network's
};

Difference difference(const at::Tensor& wanted, const at::Tensor& found) {
  if (wanted.sizes() != found.sizes()) {
    throw DataError(fmt::format("its shape is [{}], and the network's [{}]", fmt::join(found.sizes(), ", "),
                                fmt::join(wanted.sizes(), ", ")));
  }
  if (wanted.numel() == 0) return {};
  const at::Tensor one = wanted.to(at::kDouble);
  return {(one - found.to(at::kDouble)).abs().max().item<double>(), one.abs().max().item<double>()};
}

/// The same for results whose rows have no order: each row beside the nearest one of the other side. Each result counts
/// in parts of its largest value.
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

/// The difference of each result, by its name; a set is one result.
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
    const std::string line = fmt::format("{}: differs by at most {:.1e}, of values up to {:.3g}", name,
                                         difference.largest, difference.value);
    if (!(difference.largest <= kTolerance * std::max(difference.value, kSmallest))) {
      throw DataError(fmt::format("{} computes something else from the file than the network: {}", runtime, line),
                      "the file is not kept; --no-check writes it without a comparison");
    }
    text += line + "\n";
  }
  return text;
}

/// The network's own results, and their time.
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

json run(const OnnxRuntime& runtime, const fs::path& folder) {
  std::vector<std::string> command = runtime.command;
  command.push_back(folder.string());
  const ChildResult result = run_child(std::move(command), kRunLimit);
  const json said = json_or_null(result.out);
  if (result.code == 0 && said.is_object()) return said;
  const std::size_t last = result.err.find_last_not_of('\n');
  const std::size_t begin = last == std::string::npos ? 0 : result.err.rfind('\n', last);
  throw ResourceError(fmt::format("the runtime does not compute the model: {}",
                                  result.err.substr(begin == std::string::npos ? 0 : begin + 1)),
                      "--no-check writes it without");
}

}  // namespace

std::optional<OnnxRuntime> find_onnx_runtime(const std::string& chosen) {
  const std::vector<std::string> candidates =
      chosen.empty() ? std::vector<std::string>{"python3", "node"} : std::vector{chosen};
  for (const std::string& program : candidates) {
    if (run_child(command_of(program, true), kProbeLimit).code == 0) return OnnxRuntime{command_of(program, false)};
  }
  if (chosen.empty()) return std::nullopt;
  throw ResourceError(fmt::format("{} has no ONNX Runtime", chosen),
                      "pip install onnxruntime, or npm install onnxruntime-node");
}

std::string compare_onnx(const OnnxRuntime& runtime, const fs::path& model, const nn::NetworkFunction& function) {
  const apps::TemporaryFolder temporary("lockstep-onnx");
  const fs::path folder = temporary.path();
  json order = {
      {"model", fs::absolute(model).string()}, {"threads", at::get_num_threads()}, {"batches", json::array()}};
  std::vector<Own> own;
  for (const std::int64_t batch : kBatches) {
    const std::vector<at::Tensor> arguments = function.example(batch);
    order["batches"].push_back(written(folder, batch, function, arguments));
    own.push_back(computed(function, arguments));
  }
  write_file_atomically(FileSystem::system(), folder / "run.json", order.dump());
  const json said = run(runtime, folder);
  std::map<std::string, Difference> worst;
  for (std::size_t i = 0; i < own.size(); ++i) {
    std::vector<at::Tensor> found;
    for (const json& result : said.at("batches").at(i).at("results")) found.push_back(read_result(folder, result));
    for (const auto& [name, here] : differences(function, own[i].results, found)) {
      worst[name] = {std::max(worst[name].largest, here.largest), std::max(worst[name].value, here.value)};
    }
  }
  const std::string name = said.at("runtime");
  return judged(worst, name) + fmt::format("{}: {:.2f} ms for a picture, beside {:.2f} ms here\n", name,
                                           said.at("batches").at(0).at("ms").get<double>(), own[0].ms);
}

}  // namespace lockstep::worker
