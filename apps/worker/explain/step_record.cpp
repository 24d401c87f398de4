// SPDX-License-Identifier: Apache-2.0
#include "worker/explain/step_record.h"

#include <cmath>
#include <limits>

#include "lockstep/base/json.h"

namespace lockstep::observe {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OperatorValue, name, layer, depth, backward, end, digest)

}  // namespace lockstep::observe

namespace lockstep {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepDigest, loss, gradients, weights)

}  // namespace lockstep

namespace lockstep::worker {
namespace {

// A number for JSON, which has only finite numbers: other values become null.
struct Number {
  double value = 0;
};
void to_json(nlohmann::json& json, const Number& number) {
  json = std::isfinite(number.value) ? nlohmann::json(number.value) : nlohmann::json();
}
double number_of(const nlohmann::json& json) {
  return json.is_number() ? json.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

void to_json(nlohmann::json& json, const SampleRecord& sample) {
  json = {{"index", sample.index}, {"name", sample.name}, {"digest", sample.digest}, {"loss", Number{sample.loss}}};
}
void from_json(const nlohmann::json& json, SampleRecord& sample) {
  sample = {.index = json.at("index"),
            .name = json.at("name"),
            .digest = json.at("digest"),
            .loss = number_of(json.at("loss"))};
}

void to_json(nlohmann::json& json, const BatchRecord& batch) {
  std::vector<Number> losses;
  for (const double loss : batch.losses) losses.push_back({loss});
  json = {{"replica", batch.replica}, {"data", batch.data},       {"target", batch.target},
          {"losses", losses},         {"samples", batch.samples}, {"values", batch.values}};
}
void from_json(const nlohmann::json& json, BatchRecord& batch) {
  batch = {.replica = json.at("replica"),
           .data = json.at("data"),
           .target = json.at("target"),
           .samples = json.at("samples").get<std::vector<SampleRecord>>(),
           .values = json.at("values").get<std::vector<observe::OperatorValue>>()};
  for (const nlohmann::json& loss : json.at("losses")) batch.losses.push_back(number_of(loss));
}

void to_json(nlohmann::json& json, const GradientRecord& gradient) {
  json = {{"name", gradient.name}, {"digest", gradient.digest}, {"norm", Number{gradient.norm}}};
}
void from_json(const nlohmann::json& json, GradientRecord& gradient) {
  gradient = {.name = json.at("name"), .digest = json.at("digest"), .norm = number_of(json.at("norm"))};
}

void write_record(const StepRecord& record, const std::filesystem::path& file) {
  nlohmann::json json = {{"step", record.step},           {"from_step", record.from_step}, {"lr", record.lr},
                         {"loss", Number{record.loss}},   {"weights", record.weights},     {"batches", record.batches},
                         {"gradients", record.gradients}, {"platform", record.platform}};
  if (record.digest) json["digest"] = *record.digest;
  write_file_atomically(FileSystem::system(), file,
                        json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

StepRecord read_record(const std::filesystem::path& file) {
  const nlohmann::json json =
      read_json_file(FileSystem::system(), file, {.bytes = std::uint64_t{4} << 30, .values = 200'000'000});
  try {
    return {.step = json.at("step"),
            .from_step = json.at("from_step"),
            .platform = json.at("platform"),
            .lr = number_of(json.at("lr")),
            .loss = number_of(json.at("loss")),
            .weights = json.at("weights"),
            .digest = json.contains("digest") ? std::optional(json.at("digest").get<StepDigest>()) : std::nullopt,
            .batches = json.at("batches").get<std::vector<BatchRecord>>(),
            .gradients = json.at("gradients").get<std::vector<GradientRecord>>()};
  } catch (const nlohmann::json::exception& error) {
    throw DataError(file.string() + " is not a record of a step: " + error.what());
  }
}

}  // namespace lockstep::worker
