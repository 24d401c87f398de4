// SPDX-License-Identifier: Apache-2.0
#include "node_options.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "lockstep/base/error.h"
#include "worker_verbs.h"

namespace lockstep::apps {
namespace {

template <class Number>
void take_number(std::vector<std::string>& arguments, const std::string& name, Number& number) {
  const auto text = take_option(arguments, name);
  if (!text) return;
  const char* end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, number);
  if (parsed.ec == std::errc() && parsed.ptr == end) return;
  throw UsageError(fmt::format("--{} is '{}'", name, *text), "give a number");
}

void take_text(std::vector<std::string>& arguments, const std::string& name, std::string& text) {
  text = take_option(arguments, name).value_or(text);
}

int count_nodes(const std::string& text) {
  // torchrun's MIN:MAX asks for elasticity; the same number twice does not.
  const auto colon = text.find(':');
  const std::string first = text.substr(0, colon);
  if (colon != std::string::npos && text.substr(colon + 1) != first) {
    throw UsageError(fmt::format("--nnodes is '{}', a range", text), "give one number: the number of nodes is fixed");
  }
  int count = 0;
  const auto parsed = std::from_chars(first.data(), first.data() + first.size(), count);
  if (parsed.ec != std::errc{} || parsed.ptr != first.data() + first.size() || count < 1) {
    throw UsageError(fmt::format("--nnodes is '{}'", text), "give a number from 1");
  }
  return count;
}

void apply_endpoint(const NodeOptions& given, AgentOptions& options) {
  if (given.endpoint.empty()) return;
  const auto colon = given.endpoint.rfind(':');
  options.master_addr = given.endpoint.substr(0, colon);
  if (colon == std::string::npos) return;
  const std::string port = given.endpoint.substr(colon + 1);
  const auto parsed = std::from_chars(port.data(), port.data() + port.size(), options.master_port);
  if (parsed.ec != std::errc{} || parsed.ptr != port.data() + port.size()) {
    throw UsageError(fmt::format("--rdzv-endpoint is '{}'", given.endpoint), "give HOST:PORT");
  }
}

}  // namespace

NodeOptions take_node_options(std::vector<std::string>& arguments) {
  NodeOptions options;
  take_text(arguments, "nnodes", options.nodes);
  take_number(arguments, "node-rank", options.node_rank);
  take_text(arguments, "master-addr", options.master_addr);
  take_number(arguments, "master-port", options.master_port);
  take_text(arguments, "rdzv-endpoint", options.endpoint);
  take_text(arguments, "rdzv-id", options.run_id);
  take_text(arguments, "run-id", options.run_id);
  return options;
}

void apply(const NodeOptions& given, AgentOptions& options) {
  options.nodes = count_nodes(given.nodes);
  options.node_rank = given.node_rank;
  options.master_addr = given.master_addr;
  options.master_port = given.master_port;
  options.run_id = given.run_id;
  apply_endpoint(given, options);
  // torchrun's default, so that its users' scripts for several nodes work without the option.
  if (options.nodes > 1 && options.master_port == 0) options.master_port = 29500;
}

}  // namespace lockstep::apps
