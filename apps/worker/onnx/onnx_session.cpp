// SPDX-License-Identifier: Apache-2.0
#include "worker/onnx/onnx_session.h"

#include <ATen/ops/from_blob.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/json.h"

namespace lockstep {
extern const char* const onnx_runtime_py;
extern const char* const onnx_runtime_js;
}  // namespace lockstep

namespace lockstep::worker {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

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
  throw UsageError(fmt::format("arguments of type {} are not supported", c10::toString(type)));
}

at::ScalarType type_of(const std::string& name) {
  for (const Number& number : kNumbers) {
    if (name == number.name) return number.type;
  }
  throw DataError(fmt::format("the runtime returned a result of the unsupported type {}", name));
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

std::vector<std::string> with(std::vector<std::string> command, std::initializer_list<std::string> more) {
  command.insert(command.end(), more);
  return command;
}

/// Writes without a sync, because the file is read once and then removed.
void write_plainly(const fs::path& path, std::string_view bytes) {
  FileSystem::system().create(path)->append(bytes.data(), bytes.size());
}

at::Tensor read_result(const fs::path& folder, const json& said) {
  const auto shape = said.at("shape").get<std::vector<std::int64_t>>();
  const at::ScalarType type = type_of(said.at("type"));
  std::string bytes = FileSystem::system().read(folder / said.at("file").get<std::string>());
  const at::Tensor found = at::from_blob(bytes.data(), shape, at::TensorOptions(type)).clone();
  if (found.nbytes() != bytes.size()) throw DataError("the size of the runtime's result does not match its shape");
  return found;
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

OnnxSession::OnnxSession(const OnnxRuntime& runtime, const fs::path& model)
    : folder_("lockstep-onnx"),
      child_(with(runtime.command,
                  {fs::absolute(model).string(), folder_.path(), std::to_string(at::get_num_threads())})) {
  const json said = next();
  runtime_ = said.at("runtime");
  inputs_ = said.at("inputs").get<std::vector<std::string>>();
  outputs_ = said.at("outputs").get<std::vector<std::string>>();
}

json OnnxSession::next() {
  const auto line = child_.answer(kRunLimit);
  if (line) return parse_json(*line);
  throw ResourceError(fmt::format("the runtime cannot run the model: {}", child_.last_error()));
}

std::vector<at::Tensor> OnnxSession::run(const std::vector<at::Tensor>& arguments) {
  json all = json::array();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const at::Tensor plain = arguments[i].cpu().contiguous();
    const std::string file = fmt::format("argument-{}", i);
    write_plainly(fs::path(folder_.path()) / file, {static_cast<const char*>(plain.data_ptr()), plain.nbytes()});
    all.push_back({{"name", inputs_.at(i)},
                   {"file", file},
                   {"shape", plain.sizes().vec()},
                   {"type", name_of(plain.scalar_type())}});
  }
  child_.ask(all.dump());
  const json said = next();
  last_ms_ = said.at("ms");
  std::vector<at::Tensor> results;
  for (const json& result : said.at("results")) {
    results.push_back(read_result(folder_.path(), result).to(arguments.at(0).device()));
  }
  return results;
}

}  // namespace lockstep::worker
