// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/save/save_reports.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "checkpoint/save/finite_check.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/json.h"

namespace lockstep::checkpoint {

SaveReport report_of(const std::exception& error) {
  return {.failure = record_of(error),
          .again = dynamic_cast<const SyncError*>(&error) != nullptr,
          .not_finite = dynamic_cast<const NotFiniteError*>(&error) != nullptr};
}

std::string to_bytes(const SaveReport& report) {
  auto files = nlohmann::json::object();
  for (const auto& [name, digest] : report.files) files[name] = {digest.bytes, digest.xxh3_128};
  const nlohmann::json json = {{"folder", report.folder},
                               {"files", files},
                               {"failure", report.failure ? to_json(*report.failure) : ""},
                               {"again", report.again},
                               {"not_finite", report.not_finite}};
  std::string bytes;
  nlohmann::json::to_cbor(json, bytes);  // not as text: a path may be no UTF-8
  return bytes;
}

SaveReport save_report_from_bytes(const std::string& bytes) {
  try {
    const auto json = parse_cbor(bytes);
    SaveReport report{.folder = json.at("folder"), .again = json.at("again"), .not_finite = json.at("not_finite")};
    if (const std::string failure = json.at("failure"); !failure.empty()) report.failure = parse_failure(failure);
    for (const auto& [name, digest] : json.at("files").items()) report.files[name] = {digest.at(0), digest.at(1)};
    return report;
  } catch (const JsonError& error) {
    throw InternalError(fmt::format("a rank's report on a save is {}", error.message()));
  } catch (const nlohmann::json::exception& error) {
    throw InternalError(fmt::format("a rank's report on a save is {}", error.what()));
  }
}

void throw_report(const SaveReport& report) {
  if (report.again) throw SyncError(report.failure->message, report.failure->hint);
  if (report.not_finite) throw NotFiniteError(report.failure->message, report.failure->hint);
  rethrow(*report.failure);
}

}  // namespace lockstep::checkpoint
