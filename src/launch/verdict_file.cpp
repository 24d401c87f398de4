// SPDX-License-Identifier: Apache-2.0
#include "launch/verdict_file.h"
#include "lockstep/base/text.h"

#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

namespace lockstep::launch {
namespace {

std::string headline_of(const Order& order, const FailureRecord& cause) {
  if (order.is_graceful) return order.reason;
  if (cause.kind == FailureKind::kLost || cause.kind == FailureKind::kHang) return cause.message;
  return fmt::format("rank {} on {} failed first: {}", cause.rank, cause.host, text::first_line(words_of(cause)));
}

std::string cause_of(const FailureRecord& record) {
  switch (record.kind) {
    case FailureKind::kDied:
      return "died";
    case FailureKind::kFailed:
      return "failed";
    case FailureKind::kTimeout:
      return "timeout";
    case FailureKind::kMismatch:
      return "mismatch";
    case FailureKind::kPeer:
      return "peer";
    case FailureKind::kLost:
      return "lost";
    case FailureKind::kHang:
      return record.type == "PeerError" ? "left" : record.type == "UsageError" ? "mismatch" : "hang";
    case FailureKind::kNone:
      break;
  }
  return "unknown";
}

}  // namespace

std::string verdict_json(const Order& order, const std::vector<std::string>& stacks) {
  const FailureRecord cause = order.cause.value_or(FailureRecord{});
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  nlohmann::ordered_json json{{"schema", 1},
                              {"text", headline_of(order, cause)},
                              {"hint", cause.hint},
                              {"cause", order.is_graceful ? kToldToLeave : cause_of(cause)},
                              {"rank", cause.rank},
                              {"host", cause.host},
                              {"exit_code", order.kind == Order::Kind::kEnd ? order.code : 0},
                              {"then", order.is_graceful ? "" : order.reason},
                              {"time_ns", std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()}};
  if (!stacks.empty()) json["stacks"] = stacks;
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void write_verdict(const Order& order, const std::vector<std::string>& stacks,
                   const std::filesystem::path& attempt) noexcept {
  if (!order.cause && !order.is_graceful) return;
  try {
    std::ofstream(attempt / "verdict.json", std::ios::binary) << verdict_json(order, stacks);
  } catch (const std::exception&) {
    // The console has said the same.
  }
}

}  // namespace lockstep::launch
