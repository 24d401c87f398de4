// SPDX-License-Identifier: Apache-2.0
// `lockstep inspect sampler|data|config|env|gpu`: which samples a rank reads, what a set holds, every setting of a
// recipe with its origin, and the machine.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
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
#include "worker/settings_table.h"

namespace lockstep::worker {
namespace {

constexpr WholeRange kSamples{0, 1'000'000'000'000'000};

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
  app.add_option("--size", size, "samples in the set")->required()->check(cli::whole(kSamples));
  app.add_option("--replicas", replicas, "how many share it")->required()->check(cli::whole({1, 1'000'000}));
  app.add_option("--rank", rank, "whose indices, from 0")->required()->check(cli::whole({0, 1'000'000}));
  app.add_option("--seed", seed, "of the order")->required();
  app.add_option("--epoch", epoch, "from 0")->required()->check(cli::whole(kSamples));
  app.add_flag("--no-shuffle", no_shuffle, "in order");
  app.add_flag("--drop-last", drop_last, "leave the remainder out instead of repeating the first samples");
  app.add_option("--batch-size", batch_size, "a list for each batch, as PyTorch's BatchSampler cuts them")
      ->check(cli::whole({1, 10'000'000}));
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

struct ConfigArguments {
  std::string what;
  std::vector<std::string> sets;
  std::vector<std::string> keys;
  bool json = false;
  bool markdown = false;
  bool own = false;
  bool rules = false;
};

bool parse(ConfigArguments& words, const Arguments& arguments) {
  CLI::App app;
  cli::prepare(app, {.name = "lockstep inspect config",
                     .description = "Shows every setting of a recipe, its value and where that comes from.",
                     .example = "  lockstep inspect config captcha:digits --set epochs=3"});
  app.add_option("recipe", words.what, "RECIPE, RECIPE:PRESET or FILE.yml; base: what every recipe has")->required();
  app.add_option("--set", words.sets, "a setting, as key=value; may come again")->allow_extra_args(false);
  app.add_flag("--json", words.json,
               "an object a line: key, value, origin, meaning, allowed, unit, resume, host, tune");
  app.add_flag("--markdown", words.markdown, "a table for a guide: key, default, values, meaning");
  app.add_option("--keys", words.keys, "only these: KEY, GROUP.*, @free (at resume), @host, @tune")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_flag("--own", words.own, "only what the recipe adds to the settings of all recipes, or sets otherwise");
  app.add_flag("--rules", words.rules, "with --markdown: what may change at resume, on hosts and by tune");
  return cli::parse(app, arguments);
}

void show(const ConfigFields& fields, const ConfigArguments& words) {
  std::vector<std::string> keys = words.keys;
  if (words.own) {
    for (const std::string& key : own_keys(fields, TrainConfig().rows())) keys.push_back(key);
  }
  const SettingRows settings = chosen_settings(fields, keys);
  if (words.json) {
    for (const auto& field : settings) cli::print_json(json_of(field) + "\n");
    return;
  }
  if (words.markdown) return cli::print(markdown_of(settings, words.rules));
  std::vector<std::vector<std::string>> rows;
  for (const auto& field : settings) {
    rows.push_back({field.key, ConfigFields::value_text(field.target), field.origin, meaning_of(field)});
  }
  using view::Align;
  fmt::print("{}", view::fit_lines(view::render_table({{.title = "key", .align = Align::kLeft},
                                                       {.title = "value", .align = Align::kLeft},
                                                       {.title = "origin", .align = Align::kLeft},
                                                       {.title = "meaning", .align = Align::kLeft}},
                                                      rows),
                                   STDOUT_FILENO));
}

int config(const Arguments& arguments) {
  ConfigArguments words;
  if (!parse(words, arguments)) return 0;
  if (words.what == "base") {
    const TrainConfig base;
    show(base.rows(), words);
    return 0;
  }
  const Settings of_recipe(words.what, words.sets);
  show(of_recipe.fields(), words);
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
