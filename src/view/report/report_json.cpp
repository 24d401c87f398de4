// SPDX-License-Identifier: Apache-2.0
// The step report as JSON, for the exchange between ranks, log.jsonl, summary.json, and the doctor.
#include <limits>
#include <nlohmann/json.hpp>

#include "lockstep/base/json.h"
#include "lockstep/view/step_report.h"

namespace lockstep::view {
namespace {

using Json = nlohmann::json;

Json json_of(const RankFigures& rank) {
  Json parts = Json::object();
  for (std::size_t i = 0; i < kParts; ++i) parts[name_of(static_cast<StepPart>(i))] = rank.parts[i];
  Json stretches = Json::array();
  for (const Stretch& each : rank.stretches) {
    stretches.push_back({each.first_step, each.steps, each.compute, each.compute_cpu});
  }
  Json traffic = Json::array();
  for (const Traffic& each : rank.traffic) {
    traffic.push_back({{"interface", each.name}, {"sent", each.sent}, {"received", each.received}});
  }
  return {{"rank", rank.rank},
          {"host", rank.host},
          {"steps", rank.steps},
          {"seconds", rank.seconds},
          {"parts", std::move(parts)},
          {"compute_cpu", rank.compute_cpu},
          {"delayed", rank.delayed},
          {"process_cpu", rank.process_cpu},
          {"preempted", rank.preempted},
          {"workers",
           {{"count", rank.workers.count},
            {"busy", rank.workers.busy},
            {"cpu", rank.workers.cpu},
            {"delayed", rank.workers.delayed}}},
          {"read_bytes", rank.read_bytes},
          {"cores", rank.cores},
          {"cpus", rank.cpus},
          {"buckets", rank.buckets},
          {"bucket_bytes", rank.bucket_bytes},
          {"resident", rank.resident},
          {"shared", rank.shared},
          {"device", rank.device},
          {"host_memory", rank.host_memory},
          {"host_free", rank.host_free},
          {"network", rank.network},
          {"traffic", std::move(traffic)},
          {"resent", rank.resent},
          {"stretches", std::move(stretches)}};
}

/// Returns a number; null means a value that is not finite.
double number_of(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

RankFigures rank_of(const Json& json) {
  RankFigures rank{.rank = json.at("rank").get<int>(),
                   .host = json.at("host").get<std::string>(),
                   .steps = json.at("steps").get<std::int64_t>(),
                   .seconds = number_of(json.at("seconds"))};
  for (std::size_t i = 0; i < kParts; ++i) {
    rank.parts[i] = number_of(json.at("parts").at(name_of(static_cast<StepPart>(i))));
  }
  rank.compute_cpu = number_of(json.at("compute_cpu"));
  rank.delayed = number_of(json.at("delayed"));
  rank.process_cpu = number_of(json.at("process_cpu"));
  json.at("preempted").get_to(rank.preempted);
  const Json& workers = json.at("workers");
  rank.workers = {.count = workers.at("count").get<std::int64_t>(),
                  .busy = number_of(workers.at("busy")),
                  .cpu = number_of(workers.at("cpu")),
                  .delayed = number_of(workers.at("delayed"))};
  json.at("read_bytes").get_to(rank.read_bytes);
  rank.cores = number_of(json.at("cores"));
  json.at("cpus").get_to(rank.cpus);
  json.at("buckets").get_to(rank.buckets);
  json.at("bucket_bytes").get_to(rank.bucket_bytes);
  json.at("resident").get_to(rank.resident);
  json.at("shared").get_to(rank.shared);
  json.at("device").get_to(rank.device);
  json.at("host_memory").get_to(rank.host_memory);
  json.at("host_free").get_to(rank.host_free);
  json.at("network").get_to(rank.network);
  json.at("resent").get_to(rank.resent);
  for (const Json& each : json.at("traffic")) {
    rank.traffic.push_back({.name = each.at("interface").get<std::string>(),
                            .sent = each.at("sent").get<std::int64_t>(),
                            .received = each.at("received").get<std::int64_t>()});
  }
  if (!json.contains("stretches")) return rank;
  for (const Json& each : json.at("stretches")) {
    rank.stretches.push_back({.first_step = each.at(0).get<std::int64_t>(),
                              .steps = each.at(1).get<std::int64_t>(),
                              .compute = number_of(each.at(2)),
                              .compute_cpu = number_of(each.at(3))});
  }
  return rank;
}

/// A newer version may have more causes; their text is kept.
Cause cause_of(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(Cause::kMemory); ++i) {
    if (name == name_of(static_cast<Cause>(i))) return static_cast<Cause>(i);
  }
  return Cause::kMemory;
}

Finding finding_of(const Json& json) {
  return {.cause = cause_of(json.at("cause").get<std::string>()),
          .rank = json.at("rank").get<int>(),
          .sentence = json.at("sentence").get<std::string>(),
          .advice = json.at("advice").get<std::string>()};
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// Returns the result of `make` for the object in `text`; none if the object has a different form.
template <class Make>
auto parse(std::string_view text, Make make) -> std::optional<decltype(make(Json()))> {
  const Json json = json_or_null(text);
  if (!json.is_object()) return std::nullopt;
  try {
    return make(json);
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

std::string to_json(const RankFigures& figures) { return dump(json_of(figures)); }

std::optional<RankFigures> parse_rank_figures(std::string_view json) { return parse(json, rank_of); }

std::string to_json(const StepReport& report) {
  Json ranks = Json::array();
  for (const RankFigures& rank : report.ranks) {
    Json object = json_of(rank);
    object.erase("stretches");  // the findings already use them
    ranks.push_back(std::move(object));
  }
  Json findings = Json::array();
  for (const Finding& each : report.findings) {
    findings.push_back(
        {{"cause", name_of(each.cause)}, {"rank", each.rank}, {"sentence", each.sentence}, {"advice", each.advice}});
  }
  return dump({{"first_step", report.first_step},
               {"last_step", report.last_step},
               {"findings", std::move(findings)},
               {"ranks", std::move(ranks)}});
}

std::optional<StepReport> parse_step_report(std::string_view json) {
  return parse(json, [](const Json& object) {
    StepReport report{.first_step = object.at("first_step").get<std::int64_t>(),
                      .last_step = object.at("last_step").get<std::int64_t>()};
    for (const Json& rank : object.at("ranks")) report.ranks.push_back(rank_of(rank));
    for (const Json& each : object.at("findings")) report.findings.push_back(finding_of(each));
    return report;
  });
}

}  // namespace lockstep::view
