// SPDX-License-Identifier: Apache-2.0
#include "order.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace lockstep::testing::nccl_double {
namespace {

std::string variable(const char* name) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? "" : text;
}

Order read_order() {
  Order order;
  std::string rank;
  std::istringstream words(variable("LOCKSTEP_DOUBLE_FAULT"));
  for (std::string word; std::getline(words, word, ',');) {
    const std::string value = word.substr(word.find('=') + 1);
    if (word.starts_with("rank=")) rank = value;
    if (word.starts_with("call=")) order.call = value == "init" ? kInit : std::atoi(value.c_str());
    if (word.starts_with("fault=")) order.what = value;
  }
  const bool is_mine = rank == variable("RANK");
  if (order.what == "lost") {
    order.what = is_mine ? "die" : "error";
    return order;
  }
  return is_mine ? order : Order{};
}

}  // namespace

const Order& order() {
  static const Order order = read_order();
  return order;
}

void end_for(const std::string& rule) {
  std::fprintf(stderr, "simulated NCCL: %s\n", rule.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace lockstep::testing::nccl_double
