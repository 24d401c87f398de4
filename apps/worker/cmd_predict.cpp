// SPDX-License-Identifier: Apache-2.0
// `lockstep predict RECIPE --checkpoint P FILE...`: the predictions of a trained model for files.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "common/cli.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/base/number.h"
#include "lockstep/base/printable.h"
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
  JoinArguments join;
  PredictOptions options;
};

bool parse(PredictArguments& predict, const Arguments& arguments) {
  CLI::App app;
  cli::prepare(
      app,
      {.name = "lockstep predict",
       .description =
           "Run a trained model on files, and print a line with its prediction for each.\n\nThe number at the end of a "
           "line is the confidence: that of the least certain character or box, or the mean over pixels or words.",
       .examples = {"lockstep predict captcha --checkpoint runs/digits data/test/0042_17.png",
                    "lockstep predict detection --checkpoint runs/scenes data/test --pictures drawn",
                    "lockstep predict detection --checkpoint runs/scenes video --threshold 0.3 --json"}});
  app.add_option("RECIPE", predict.recipe, kTrainedHelp)->required();
  app.add_option("FILE", predict.files, "the files to read, or folders of images, which are read in numeric order")
      ->required();
  app.add_option("--checkpoint", predict.checkpoint, kCheckpointHelp)->required()->type_name("PATH");
  app.add_option("--set", predict.sets, kOtherSetHelp)->allow_extra_args(false)->type_name("KEY=VALUE");
  app.add_option("--pictures", predict.pictures, "draw the predictions into this folder, one PNG per file")
      ->type_name("FOLDER");
  app.add_flag("--json", predict.json,
               "print one JSON object per line instead of text; for detections, with all boxes (x1, y1, x2, y2 in "
               "pixels), scores, labels and names");
  cli::add_number(app, "--threshold", predict.options.threshold, "the minimum confidence of a prediction, 0 .. 1")
      ->type_name("SCORE")
      ->default_str("the recipe's, 0.5");
  app.add_option("--batch-size", predict.options.batch_size,
                 "how many files the model processes at once, if it supports batches")
      ->check(cli::whole({1, 100'000}))
      ->type_name("N");
  app.add_option("--workers", predict.options.workers, "threads that load files ahead; 0: none")
      ->check(cli::whole({0, 1024}))
      ->type_name("N");
  app.add_option("-d,--device", predict.join.device, "the device that runs the model")
      ->type_name("auto|cpu|cuda")
      ->default_str("auto");
  return cli::parse(app, arguments);
}

void print(const Prediction& prediction, bool json) {
  const std::optional<double>& sure = prediction.confidence;
  if (json) {
    const std::string more = prediction.json.empty() ? "" : ", " + prediction.json;
    const std::string took = prediction.seconds ? ", \"ms\": " + text::json_number(1e3 * *prediction.seconds, 2) : "";
    cli::print_json(fmt::format("{{\"file\": {}, \"text\": {}, \"confidence\": {}{}{}}}\n",
                                text::json_quote(prediction.file), text::json_quote(prediction.text),
                                sure ? text::json_number(*sure, 4) : "null", more, took));
  } else {
    const std::string of = prediction.sure_of.empty() ? "" : prediction.sure_of + " ";
    const std::string percent = sure ? fmt::format("  {}{:.1f} %", of, *sure * 100) : "";
    cli::print(fmt::format("{}  {}{}\n", text::printable_line(prediction.file), prediction.text, percent));
  }
}

// The images in the folder itself, or in its subfolders if it holds none. Throws: DataError if there are no images.
std::vector<std::filesystem::path> pictures_in(const std::filesystem::path& folder) {
  try {
    return ImageFiles(folder).files();
  } catch (const DataError&) {
    return ImageFiles(folder, {.recursive = true}).files();
  }
}

// The files that the arguments name. A folder is replaced by its images in natural order: frame 9 of a film comes
// before frame 10.
std::vector<std::filesystem::path> files_of(const std::vector<std::string>& words) {
  std::vector<std::filesystem::path> files;
  for (const std::string& word : words) {
    if (std::filesystem::is_directory(word)) {
      auto pictures = pictures_in(word);
      std::stable_sort(pictures.begin(), pictures.end(),
                       [](const auto& a, const auto& b) { return ::strverscmp(a.c_str(), b.c_str()) < 0; });
      files.insert(files.end(), pictures.begin(), pictures.end());
    } else {
      files.emplace_back(word);
    }
  }
  return files;
}

// The path of each file's output image, by file. Throws: UsageError if such a path is one of the input files, or is
// already another file's output image.
std::map<std::filesystem::path, std::filesystem::path> picture_paths(const std::vector<std::filesystem::path>& files,
                                                                     const std::filesystem::path& folder) {
  std::set<std::filesystem::path> taken;
  for (const auto& file : files) taken.insert(std::filesystem::weakly_canonical(file));
  std::map<std::filesystem::path, std::filesystem::path> paths;
  for (const auto& file : files) {
    const std::filesystem::path path = folder / file.filename().replace_extension(".png");
    paths.emplace(file, path);
    if (taken.insert(std::filesystem::weakly_canonical(path)).second) continue;
    throw UsageError(fmt::format("--pictures: the picture of {} would overwrite {}", file.string(), path.string()),
                     "choose another folder, or process files with the same name in separate runs");
  }
  return paths;
}

// Prints "12 files in 3.4 s: 61.0 ms each, 45.2 ms of them in the model".
void say_time(std::size_t files, double seconds, double in_model) {
  if (files == 0 || in_model <= 0) return;
  const auto each = [files](double all) { return 1e3 * all / static_cast<double>(files); };
  log::note("{} {} in {}: {:.1f} ms each, {:.1f} ms of them in the model", files, files == 1 ? "file" : "files",
            text::duration(seconds), each(seconds), each(in_model));
}

/// The files that could not be read: each is reported as it comes up, and the command fails at the end.
class Unreadable {
 public:
  /// The callback for PredictOptions. A single file's error is thrown instead: it needs no count.
  std::function<void(const DataError&)> callback(std::size_t files) {
    if (files < 2) return nullptr;
    return [this](const DataError& error) {
      log::warn("{}", error.message());
      if (count_++ == 0) hint_ = error.hint();
    };
  }

  void require_none(std::size_t files) const {
    if (count_ > 0) throw DataError(fmt::format("{} of {} files could not be read", count_, files), hint_);
  }

 private:
  std::size_t count_ = 0;
  std::string hint_;
};

int run_predict(PredictArguments predict, const c10::Device& device) {
  const Recipe& recipe = find_recipe(predict.recipe);
  const std::vector<std::filesystem::path> files = files_of(predict.files);
  const auto pictures = predict.pictures.empty() ? std::map<std::filesystem::path, std::filesystem::path>{}
                                                 : picture_paths(files, predict.pictures);
  const Trained trained = load_trained(recipe, predict.checkpoint, predict.sets);
  if (!trained.weights.empty()) log::note("the weights are {}", trained.weights);
  if (predict.options.threshold && !recipe.has_threshold()) {
    throw UsageError(fmt::format("the recipe {} has no threshold", recipe.name()), "leave out --threshold");
  }
  if (predict.options.pictures) FileSystem::system().make_folder(predict.pictures);
  trained.model->to(device);
  const NoGrad no_grad;
  const TimePoint begin = SystemClock::instance().now();
  double in_model = 0;
  std::size_t done = 0;
  Unreadable unreadable;
  predict.options.unreadable = unreadable.callback(files.size());
  recipe.predict_all(*trained.task, *trained.model, files, predict.options, [&](const Prediction& prediction) {
    print(prediction, predict.json);
    if (prediction.picture) write_png(*prediction.picture, pictures.at(prediction.file));
    in_model += prediction.seconds.value_or(0);
    ++done;
  });
  say_time(done, Seconds(SystemClock::instance().now() - begin).count(), in_model);
  unreadable.require_none(files.size());
  return 0;
}

}  // namespace

int cmd_predict(const Arguments& arguments) {
  PredictArguments predict;
  if (!parse(predict, arguments)) return 0;
  predict.options.pictures = !predict.pictures.empty();
  return with_job(predict.join, [&](Job& job) { return run_predict(predict, job.device()); });
}

}  // namespace lockstep::worker
