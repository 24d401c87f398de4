// SPDX-License-Identifier: Apache-2.0
#include "lockstep/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/json.h"

namespace lockstep::apps {
namespace {

constexpr double kGigabit = 1e9 / 8;

/// A number in `json`; below 0 if it is missing.
double number_of(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : -1;
}

}  // namespace

simulate::Link link_of_doctor(std::string_view text) {
  simulate::Link link;
  int links = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    const std::size_t begin = std::min(line.find('{'), line.size());  // a launcher puts the rank before the object
    const auto json = json_or_null(line.substr(begin));
    if (!json.is_object() || !json.contains("link")) continue;
    const double rate = number_of(json, "gbit_per_s") * kGigabit;
    const double trip = number_of(json, "round_trip_us") * 1e-6;
    if (rate <= 0 || trip < 0) {
      throw DataError("a link in the file was not measured",
                      "measure the link again; lockstep doctor shows what is wrong");
    }
    link.bytes_per_s = links == 0 ? rate : std::min(link.bytes_per_s, rate);
    link.latency_s = std::max(link.latency_s, trip / 2);
    ++links;
  }
  if (links == 0) {
    throw DataError("the file contains no link",
                    "to measure one: lockstep run --hosts A,B --nproc-per-node 1 -- lockstep doctor --json > FILE");
  }
  return link;
}

simulate::Link read_link(const std::string& word) {
  std::error_code problem;
  if (!std::filesystem::is_regular_file(word, problem)) return simulate::parse_link(word);
  return link_of_doctor(FileSystem::system().read(word));
}

}  // namespace lockstep::apps
