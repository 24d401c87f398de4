// SPDX-License-Identifier: Apache-2.0
#include "dashboard/api_path.h"

namespace lockstep::dashboard {
namespace {

constexpr std::string_view kRun = "/api/run/";
constexpr std::string_view kAssets = "/assets/";
constexpr std::string_view kNetworkPage = "/network/";
constexpr std::size_t kMostDigits = 6;

bool has_only(std::string_view text, std::string_view letters) {
  return !text.empty() && text.find_first_not_of(letters) == std::string_view::npos;
}

bool is_file_in(std::string_view folder, std::string_view path) {
  return path.starts_with(folder) && has_only(path.substr(folder.size()), "abcdefghijklmnopqrstuvwxyz._-");
}

}  // namespace

std::optional<RunPath> parse_run_path(std::string_view path) {
  if (!path.starts_with(kRun)) return std::nullopt;
  path.remove_prefix(kRun.size());
  const auto end = path.find('/');
  if (end == std::string_view::npos || end > kMostDigits) return std::nullopt;
  const std::string_view digits = path.substr(0, end);
  if (!has_only(digits, "0123456789")) return std::nullopt;
  RunPath out{.resource = path.substr(end + 1)};
  for (const char digit : digits) out.run = 10 * out.run + (digit - '0');
  return out;
}

bool is_asset_path(std::string_view path) { return is_file_in(kAssets, path); }

bool is_network_path(std::string_view path) { return is_file_in(kNetworkPage, path); }

}  // namespace lockstep::dashboard
