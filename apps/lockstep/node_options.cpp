// SPDX-License-Identifier: Apache-2.0
#include "node_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/whole_number.h"
#include "lockstep/store/secret.h"
#include "lockstep/store/store.h"
#include "worker_verbs.h"

namespace lockstep::apps {
namespace {

constexpr WholeRange kPorts{0, 65535};  // 0: any free one

template <class Number>
void take_number(std::vector<std::string>& arguments, const std::string& name, const WholeRange& range,
                 Number& number) {
  const auto text = take_option(arguments, name);
  if (text) number = static_cast<Number>(whole_number("--" + name, *text, range));
}

void take_text(std::vector<std::string>& arguments, const std::string& name, std::string& text) {
  text = take_option(arguments, name).value_or(text);
}

int count_nodes(const std::string& text) {
  // torchrun's MIN:MAX asks for elasticity; the same number twice does not.
  const auto colon = text.find(':');
  const std::string first = text.substr(0, colon);
  if (colon != std::string::npos && text.substr(colon + 1) != first) {
    throw UsageError(fmt::format("--nnodes is '{}', a range", text),
                     "give one number: nodes do not come and go during a run");
  }
  return static_cast<int>(whole_number("--nnodes", first, {.least = 1}));
}

void apply_endpoint(const NodeOptions& given, AgentOptions& options) {
  if (given.endpoint.empty()) return;
  const auto colon = given.endpoint.rfind(':');
  options.master_addr = given.endpoint.substr(0, colon);
  if (colon == std::string::npos) return;
  const std::string port = given.endpoint.substr(colon + 1);
  const auto number = parse_whole(port, kPorts);
  if (!number) {
    throw UsageError(fmt::format("--rdzv-endpoint is '{}'; its port must be {}", given.endpoint, to_text(kPorts)),
                     "give HOST:PORT");
  }
  options.master_port = static_cast<std::uint16_t>(*number);
}

// As a shell takes it.
std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./:,@%^";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

// `typed` for another node, with the token file.
std::string command_of_node(std::vector<std::string> typed, int node) {
  (void)take_option(typed, "node-rank");
  typed.insert(typed.begin() + 1, {"--node-rank", std::to_string(node), "--token-file", "job.token"});
  std::string command = "lockstep";
  for (const std::string& word : typed) command += " " + quoted(word);
  return command;
}

}  // namespace

NodeOptions take_node_options(std::vector<std::string>& arguments) {
  NodeOptions options;
  take_text(arguments, "nnodes", options.nodes);
  take_number(arguments, "node-rank", {}, options.node_rank);
  take_text(arguments, "master-addr", options.master_addr);
  take_number(arguments, "master-port", kPorts, options.master_port);
  take_text(arguments, "rdzv-endpoint", options.endpoint);
  take_text(arguments, "rdzv-id", options.run_id);
  take_text(arguments, "run-id", options.run_id);
  take_text(arguments, "token-file", options.token_file);
  return options;
}

void apply(const NodeOptions& given, AgentOptions& options) {
  options.nodes = count_nodes(given.nodes);
  options.node_rank = given.node_rank;
  options.master_addr = given.master_addr;
  options.master_port = given.master_port;
  options.run_id = given.run_id;
  if (!given.token_file.empty()) options.token = read_token_file(given.token_file);
  apply_endpoint(given, options);
  // torchrun's default, so that its users' scripts for several nodes work without the option.
  if (options.nodes > 1 && options.master_port == 0) options.master_port = 29500;
}

int make_new_token(const std::string& file) {
  if (file.empty()) {
    fmt::print("{}\n", make_token());
    return 0;
  }
  write_token_file(file);
  log::note("wrote a new secret to {}: copy the file to every node, and give it there with --token-file", file);
  return 0;
}

void require_token(const AgentOptions& options, const std::vector<std::string>& typed) {
  if (options.nodes == 1 || !options.token.empty() || env::get("LOCKSTEP_TOKEN")) return;
  std::string commands =
      "make a secret, copy the file to every node, and start every node with it\n          lockstep run --new-token "
      "job.token";
  for (int node = 0; node < std::min(options.nodes, 2); ++node) {
    commands += fmt::format("\n  node {}  {}", node, command_of_node(typed, node));
  }
  if (options.nodes > 2) commands += fmt::format("\n          and so on, up to node {}", options.nodes - 1);
  throw UsageError(
      fmt::format(
          "a run over {} nodes needs a secret: without one, anybody who reaches {}:{} could join it (--rdzv-id is "
          "not secret)",
          options.nodes, options.master_addr, options.master_port),
      commands + "\n          or set LOCKSTEP_TOKEN to the same secret on every node");
}

}  // namespace lockstep::apps
