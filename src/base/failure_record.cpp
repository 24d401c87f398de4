// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/failure_record.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/fault.h"
#include "lockstep/base/json.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/resources.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

constexpr std::array kKinds = {"none", "died", "failed", "timeout", "mismatch", "peer", "lost", "hang"};

FailureKind kind_of(const std::exception& error) {
  if (dynamic_cast<const MismatchError*>(&error) != nullptr) return FailureKind::kMismatch;
  if (dynamic_cast<const PeerError*>(&error) != nullptr) return FailureKind::kPeer;
  if (dynamic_cast<const TimeoutError*>(&error) != nullptr) return FailureKind::kTimeout;
  return FailureKind::kFailed;
}

FailureKind kind_named(const std::string& name) {
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    if (name == kKinds[i]) return static_cast<FailureKind>(i);
  }
  return FailureKind::kFailed;
}

std::string text_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

const char* name_of(FailureKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

std::int64_t wall_time_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

std::optional<IoError> path_error(const std::exception& error) {
  const auto* refused = dynamic_cast<const std::filesystem::filesystem_error*>(&error);
  if (refused == nullptr || is_shortage(refused->code().value())) return std::nullopt;
  if (std::string_view(fault::type_of_unknown()) != "InternalError") return std::nullopt;
  if (refused->path1().empty()) {
    return IoError(refused->what(), "check that the working folder and the folder that TMPDIR names exist");
  }
  return IoError(fmt::format("cannot use {}: {}", refused->path1().string(), error_words(refused->code().value())),
                 "check this path, and that this user may use it and each folder above it");
}

FailureRecord record_of(const std::exception& error, int rank, const std::string& host) {
  FailureRecord record{.kind = kind_of(error), .rank = rank, .host = host, .time_ns = wall_time_ns()};
  const std::optional<IoError> refused = path_error(error);
  if (const auto* known = refused ? &*refused : dynamic_cast<const Error*>(&error)) {
    record.type = known->type();
    record.message = known->message();
    record.hint = known->hint();
    const auto* corruption = dynamic_cast<const CorruptionError*>(&error);
    if (corruption != nullptr) record.erred = corruption->rank();
  } else {
    record.type = fault::type_of_unknown();
    record.message = fault::headline(error);
  }
  return record;
}

std::string words_of(const FailureRecord& record) {
  return record.message.starts_with(record.type) ? record.message : fmt::format("{}: {}", record.type, record.message);
}

std::string to_json(const FailureRecord& record) {
  const Json json = {{"kind", name_of(record.kind)}, {"type", record.type},      {"message", record.message},
                     {"hint", record.hint},          {"rank", record.rank},      {"host", record.host},
                     {"erred", record.erred},        {"what", words_of(record)}, {"time_ns", record.time_ns}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<FailureRecord> parse_failure(const std::string& text) {
  const Json json = json_or_null(text);
  if (!json.is_object()) return std::nullopt;
  const auto rank = json.find("rank");
  if (rank == json.end() || !rank->is_number_integer()) return std::nullopt;
  FailureRecord record{.kind = kind_named(text_at(json, "kind")),
                       .type = text::printable_line(text_at(json, "type")),
                       .message = text::for_people(text_at(json, "message")),
                       .hint = text::for_people(text_at(json, "hint")),
                       .rank = rank->get<int>(),
                       .host = text::printable_line(text_at(json, "host"))};
  if (record.message.empty()) record.message = text::for_people(text_at(json, "what"));
  if (const auto erred = json.find("erred"); erred != json.end() && erred->is_number_integer()) {
    record.erred = erred->get<int>();
  }
  if (const auto time = json.find("time_ns"); time != json.end() && time->is_number_integer()) {
    record.time_ns = time->get<std::int64_t>();
  }
  return record;
}

void rethrow(const FailureRecord& record) {
  if (record.kind == FailureKind::kMismatch) throw MismatchError(record.message, record.hint);
  throw_error(record.type, record.message, record.hint);
}

// An error of a type that is not Lockstep's counts as the program's own.
int exit_code_of(const FailureRecord& record) {
  try {
    rethrow(record);
  } catch (const Error& error) {
    const bool is_known = record.kind == FailureKind::kMismatch || record.type == error.type();
    return static_cast<int>(is_known ? error.code() : ExitCode::kProgram);
  }
}

}  // namespace lockstep
