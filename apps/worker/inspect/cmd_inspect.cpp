// SPDX-License-Identifier: Apache-2.0
// `lockstep inspect sampler|data|config|flight|env|gpu`: the samples of a rank, the contents of a set, every setting of
// a recipe with its origin, and the machine.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <span>

#include "common/cli.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/text.h"
#include "lockstep/data/sampler.h"
#include "lockstep/view/table.h"
#include "lockstep/view/terminal.h"
#include "worker/commands.h"
#include "worker/inspect/inspect.h"
#include "worker/recipes.h"
#include "worker/settings.h"
#include "worker/settings_table.h"
#include "worker/typed_settings.h"

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
                     .description = "Print the sample indices that a rank reads in an epoch, as a JSON list.",
                     .examples = {"lockstep inspect sampler --size 10 --replicas 2 --rank 0 --seed 0 --epoch 0"}});
  app.add_option("--size", size, "samples in the data set")->required()->check(cli::whole(kSamples))->type_name("N");
  app.add_option("--replicas", replicas, "replicas that share the data set")
      ->required()
      ->check(cli::whole({1, 1'000'000}))
      ->type_name("N");
  app.add_option("--rank", rank, "the replica whose indices to print, from 0")
      ->required()
      ->check(cli::whole({0, 1'000'000}))
      ->type_name("N");
  app.add_option("--seed", seed, "the seed of the order")->required()->type_name("N");
  app.add_option("--epoch", epoch, "the epoch, from 0")->required()->check(cli::whole(kSamples))->type_name("N");
  app.add_flag("--no-shuffle", no_shuffle, "keep the samples in order");
  app.add_flag("--drop-last", drop_last, "drop the remainder instead of repeating the first samples");
  app.add_option("--batch-size", batch_size, "print one list per batch, split as by PyTorch's BatchSampler")
      ->check(cli::whole({1, 10'000'000}))
      ->type_name("N")
      ->default_str("one list for all");
  if (!cli::parse(app, arguments)) return 0;
  const DistributedSampler made(size, {rank, replicas}, {.shuffle = !no_shuffle, .seed = seed, .drop_last = drop_last});
  const std::vector<std::int64_t> indices = made.indices(epoch);
  const auto size_of_list =
      batch_size > 0 ? static_cast<std::size_t>(batch_size) : std::max<std::size_t>(1, indices.size());
  for (std::size_t i = 0; i < std::max<std::size_t>(1, indices.size()); i += size_of_list) {
    const auto list = std::span(indices).subspan(i, std::min(size_of_list, indices.size() - i));
    if (batch_size > 0 && drop_last && list.size() < size_of_list) break;
    print_to(stdout, "[{}]\n", fmt::join(list, ", "));
  }
  return 0;
}

struct ConfigArguments {
  std::string what;
  std::string file;
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
                     .description = "Show every setting of a recipe with its value and where the value comes from.",
                     .examples = {"lockstep inspect config captcha:digits --set epochs=3",
                                  "lockstep inspect config captioning --folder experiments/PureT_XE",
                                  "lockstep inspect config base --keys 'checkpoint.*'"}});
  app.add_option("RECIPE", words.what, std::string(kRecipeHelp) + "; base means the settings that all recipes share")
      ->required();
  app.add_option("-c,--config", words.file, "a .yml file with settings; the file need not name a recipe")
      ->type_name("FILE");
  app.add_option("--set", words.sets, kSetHelp)->allow_extra_args(false)->type_name("KEY=VALUE");
  std::vector<std::string> updates;  // already converted to --set; declared here only for --help
  app.add_option("-u,--update", updates, "any number of settings")->type_name("KEY=VALUE");
  app.add_option("--keys", words.keys,
                 "show only these settings, separated by commas: KEY, GROUP.*, @free (may change on resume), @host "
                 "(may differ between hosts), @tune (`lockstep tune` tries them)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("KEYS");
  app.add_flag("--own", words.own, "show only settings that the recipe adds or changes");
  app.add_flag("--json", words.json,
               "print one JSON object per line: key, value, origin, meaning, allowed, unit, resume, host, tune");
  app.add_flag("--markdown", words.markdown, "print a table for a guide: key, default, values, meaning");
  app.add_flag("--rules", words.rules,
               "with --markdown, say what may change on resume, what may differ between hosts, and what tune tries");
  return cli::parse(app, with_settings(app, "lockstep inspect config", arguments));
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
    rows.push_back(
        {field.key, text::without_secrets(ConfigFields::value_text(field.target)), field.origin, meaning_of(field)});
  }
  using view::Align;
  print_to(stdout, "{}",
           view::fit_lines(view::render_table({{.title = "key", .align = Align::kLeft},
                                               {.title = "value", .align = Align::kLeft},
                                               {.title = "origin", .align = Align::kLeft},
                                               {.title = "meaning", .align = Align::kLeft}},
                                              rows),
                           STDOUT_FILENO));
}

int config(const Arguments& arguments) {
  ConfigArguments words;
  if (!parse(words, arguments)) return 0;
  if (words.what == kBase) {
    const TrainConfig base;
    show(base.rows(), words);
    return 0;
  }
  const Settings of_recipe(words.what, words.sets, words.file);
  show(of_recipe.fields(), words);
  return 0;
}

}  // namespace

int cmd_inspect(const Arguments& arguments) {
  return cli::dispatch({.name = "lockstep inspect",
                        .description = "Show data sets, settings, sample order, ranks, variables and GPUs.",
                        .examples = {"lockstep inspect config captcha:digits", "lockstep inspect data data/train"}},
                       {{"sampler", "print the sample indices that a rank reads", sampler},
                        {"data", "count the contents of a data set, and draw some samples", inspect_data},
                        {"config", "show every setting of a recipe and its origin", config},
                        {"env", "show this machine and every variable that a run reads", inspect_env},
                        {"flight", "show what each rank did last", inspect_flight},
                        {"gpu", "show what each GPU is doing, and which ranks use it", inspect_gpu}},
                       arguments);
}

}  // namespace lockstep::worker
