// SPDX-License-Identifier: Apache-2.0
// `lockstep inspect sampler|data|config|env|gpu`: which samples a rank reads, what a set holds, every setting of a
// recipe with its origin, and the machine.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "common/cli.h"
#include "lockstep/base/text.h"
#include "lockstep/data/sampler.h"
#include "lockstep/view/table.h"
#include "lockstep/view/terminal.h"
#include "worker/commands.h"
#include "worker/inspect/inspect_data.h"
#include "worker/inspect/inspect_machine.h"
#include "worker/settings.h"

namespace lockstep::worker {
namespace {

int sampler(const Arguments& arguments) {
  std::int64_t size = 0;
  std::int64_t replicas = 1;
  std::int64_t rank = 0;
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  bool no_shuffle = false;
  bool drop_last = false;
  std::int64_t batch_size = 0;
  CLI::App app;
  cli::prepare(app, {.name = "lockstep inspect sampler",
                     .description = "Prints the indices that a rank reads in an epoch, as a JSON list.",
                     .example = "  lockstep inspect sampler --size 10 --replicas 2 --rank 0 --seed 0 --epoch 0"});
  app.add_option("--size", size, "samples in the set")->required();
  app.add_option("--replicas", replicas, "how many share it")->required();
  app.add_option("--rank", rank, "whose indices, from 0")->required();
  app.add_option("--seed", seed, "of the order")->required();
  app.add_option("--epoch", epoch, "from 0")->required();
  app.add_flag("--no-shuffle", no_shuffle, "in order");
  app.add_flag("--drop-last", drop_last, "leave the remainder out instead of repeating the first samples");
  app.add_option("--batch-size", batch_size, "a list for each batch, as PyTorch's BatchSampler cuts them")
      ->check(CLI::PositiveNumber);
  if (!cli::parse(app, arguments)) return 0;
  const DistributedSampler made(size, {rank, replicas}, {.shuffle = !no_shuffle, .seed = seed, .drop_last = drop_last});
  const std::vector<std::int64_t> indices = made.indices(epoch);
  const auto size_of_list =
      batch_size > 0 ? static_cast<std::size_t>(batch_size) : std::max<std::size_t>(1, indices.size());
  for (std::size_t i = 0; i < std::max<std::size_t>(1, indices.size()); i += size_of_list) {
    const auto list = std::span(indices).subspan(i, std::min(size_of_list, indices.size() - i));
    if (batch_size > 0 && drop_last && list.size() < size_of_list) break;
    fmt::print("[{}]\n", fmt::join(list, ", "));
  }
  return 0;
}

// As JSON has it: numbers and words for on and off bare, everything else quoted.
std::string json_value(const ConfigFields::Target& target) {
  if (const auto* list = std::get_if<std::vector<std::string>*>(&target)) {
    std::vector<std::string> quoted;
    for (const std::string& word : **list) quoted.push_back(text::json_quote(word));
    return "[" + text::join(quoted) + "]";
  }
  const std::string text = ConfigFields::value_text(target);
  if (const auto* number = std::get_if<double*>(&target))
    return std::isfinite(**number) ? fmt::format("{}", **number) : "null";
  const bool is_auto = std::holds_alternative<AutoInt*>(target);
  const bool is_number = std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  const bool is_bare = std::holds_alternative<bool*>(target) || std::holds_alternative<std::int64_t*>(target);
  return is_bare || (is_auto && is_number) ? text : text::json_quote(text);
}

void print_json(const ConfigFields& fields) {
  for (const auto& field : fields.fields()) {
    cli::print_json(fmt::format("{{\"key\": {}, \"value\": {}, \"origin\": {}, \"meaning\": {}}}\n",
                                text::json_quote(field.key), json_value(field.target), text::json_quote(field.origin),
                                text::json_quote(field.help)));
  }
}

int config(const Arguments& arguments) {
  std::string what;
  std::vector<std::string> sets;
  bool json = false;
  CLI::App app;
  cli::prepare(app, {.name = "lockstep inspect config",
                     .description = "Shows every setting of a recipe, its value and where that comes from.",
                     .example = "  lockstep inspect config captcha:digits --set epochs=3"});
  app.add_option("recipe", what, "RECIPE, RECIPE:PRESET or FILE.yml")->required();
  app.add_option("--set", sets, "a setting, as key=value; may come again")->allow_extra_args(false);
  app.add_flag("--json", json, "an object a line: key, value, origin, meaning");
  if (!cli::parse(app, arguments)) return 0;
  const Settings settings(what, sets);
  if (json) {
    print_json(settings.fields());
    return 0;
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& field : settings.fields().fields()) {
    rows.push_back({field.key, ConfigFields::value_text(field.target), field.origin, field.help});
  }
  using view::Align;
  fmt::print("{}", view::fit_lines(view::render_table({{.title = "key", .align = Align::kLeft},
                                                       {.title = "value", .align = Align::kLeft},
                                                       {.title = "origin", .align = Align::kLeft},
                                                       {.title = "meaning", .align = Align::kLeft}},
                                                      rows),
                                   STDOUT_FILENO));
  return 0;
}

}  // namespace

int cmd_inspect(const Arguments& arguments) {
  return cli::dispatch("lockstep inspect",
                       {{"sampler", "which indices a rank reads", sampler},
                        {"data", "what is in a data set, and how it looks", inspect_data},
                        {"config", "every setting of a recipe with its origin", config},
                        {"env", "what was detected here, and the variables that count", inspect_env},
                        {"gpu", "what each GPU does, and which ranks are on it", inspect_gpu}},
                       arguments);
}

}  // namespace lockstep::worker
