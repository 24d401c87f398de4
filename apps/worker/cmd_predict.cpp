// SPDX-License-Identifier: Apache-2.0
// `lockstep predict RECIPE --checkpoint P FILE...`: what a trained model reads in files.
#include <fmt/format.h>

#include <cstdio>
#include <set>

#include "common/cli.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/data/contact_sheet.h"
#include "lockstep/data/sources/image_files.h"
#include "lockstep/optim/autocast.h"
#include "worker/commands.h"
#include "worker/recipes.h"
#include "worker/trained.h"

namespace lockstep::worker {
namespace {

struct PredictArguments {
  std::string recipe;
  std::string checkpoint;
  std::vector<std::string> files;
  std::string pictures;
  std::vector<std::string> sets;
  bool json = false;
};

bool parse(PredictArguments& predict, const Arguments& arguments) {
  CLI::App app;
  cli::prepare(app, {.name = "lockstep predict",
                     .description = "Run a trained model on files, and print a line with its answer for each.",
                     .examples = {"lockstep predict captcha --checkpoint runs/digits data/test/0042_17.png",
                                  "lockstep predict detection --checkpoint runs/scenes data/test --pictures drawn"}});
  app.add_option("RECIPE", predict.recipe, kTrainedHelp)->required();
  app.add_option("FILE", predict.files, "the files to read, or folders of images")->required();
  app.add_option("--checkpoint", predict.checkpoint, kCheckpointHelp)->required()->type_name("PATH");
  app.add_option("--set", predict.sets, kOtherSetHelp)->allow_extra_args(false)->type_name("KEY=VALUE");
  app.add_option("--pictures", predict.pictures, "draw what was found into this folder, as one PNG per file")
      ->type_name("FOLDER");
  app.add_flag("--json", predict.json, "print one JSON object per line instead of text");
  return cli::parse(app, arguments);
}

void print(const Prediction& prediction, bool json) {
  const std::optional<double>& sure = prediction.confidence;
  if (json) {
    cli::print_json(fmt::format("{{\"file\": {}, \"text\": {}, \"confidence\": {}}}\n",
                                text::json_quote(prediction.file), text::json_quote(prediction.text),
                                sure ? fmt::format("{:.4f}", *sure) : "null"));
  } else {
    const std::string percent = sure ? fmt::format("  {:.1f} %", *sure * 100) : "";
    cli::print(fmt::format("{}  {}{}\n", prediction.file, prediction.text, percent));
  }
}

// Those of the folder itself, or those below where it has none. Throws: DataError where there is none at all.
std::vector<std::filesystem::path> pictures_in(const std::filesystem::path& folder) {
  try {
    return ImageFiles(folder).files();
  } catch (const DataError&) {
    return ImageFiles(folder, {.recursive = true}).files();
  }
}

// A folder stands for its pictures, sorted.
std::vector<std::filesystem::path> files_of(const std::vector<std::string>& words) {
  std::vector<std::filesystem::path> files;
  for (const std::string& word : words) {
    if (std::filesystem::is_directory(word)) {
      const auto pictures = pictures_in(word);
      files.insert(files.end(), pictures.begin(), pictures.end());
    } else {
      files.emplace_back(word);
    }
  }
  return files;
}

// Where the picture of each file goes. Throws: UsageError where that is one of the files, or that of another.
std::vector<std::filesystem::path> picture_paths(const std::vector<std::filesystem::path>& files,
                                                 const std::filesystem::path& folder) {
  std::set<std::filesystem::path> taken;
  for (const auto& file : files) taken.insert(std::filesystem::weakly_canonical(file));
  std::vector<std::filesystem::path> paths;
  for (const auto& file : files) {
    paths.push_back(folder / file.filename().replace_extension(".png"));
    if (taken.insert(std::filesystem::weakly_canonical(paths.back())).second) continue;
    throw UsageError(
        fmt::format("--pictures: the picture of {} would overwrite {}", file.string(), paths.back().string()),
        "choose another folder, or read files of the same name one at a time");
  }
  return paths;
}

void draw_all(const Recipe& recipe, const Trained& trained, const std::vector<std::filesystem::path>& files,
              const std::vector<std::filesystem::path>& paths) {
  FileSystem::system().make_folder(paths.front().parent_path());
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto picture = recipe.draw(*trained.task, *trained.model, files[i]);
    if (!picture)
      throw UsageError(fmt::format("the recipe {} cannot draw pictures", recipe.name()), "leave out --pictures");
    write_png(*picture, paths[i]);
  }
}

}  // namespace

int cmd_predict(const Arguments& arguments) {
  PredictArguments predict;
  if (!parse(predict, arguments)) return 0;
  const Recipe& recipe = find_recipe(predict.recipe);
  const std::vector<std::filesystem::path> files = files_of(predict.files);
  const auto pictures =
      predict.pictures.empty() ? std::vector<std::filesystem::path>{} : picture_paths(files, predict.pictures);
  const Trained trained = load_trained(recipe, predict.checkpoint, predict.sets);
  if (!trained.weights.empty()) log::note("the weights are {}", trained.weights);
  const NoGrad no_grad;
  for (const auto& file : files) {  // one by one: each is printed when it was read
    for (const Prediction& prediction : recipe.predict(*trained.task, *trained.model, {file})) {
      print(prediction, predict.json);
    }
  }
  if (!predict.pictures.empty()) draw_all(recipe, trained, files, pictures);
  return 0;
}

}  // namespace lockstep::worker
