// SPDX-License-Identifier: Apache-2.0
#include "worker/inspect/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/cli.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/data/augment/augmentations.h"
#include "lockstep/data/contact_sheet.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/sources/open_source.h"
#include "lockstep/view/progress.h"
#include "worker/inspect/recipe_pictures.h"
#include "worker/recipes.h"
#include "worker/settings.h"

namespace lockstep::worker {
namespace {

struct InspectWords {
  std::vector<std::string> what;
  std::vector<std::string> sets;
  std::vector<std::string> augment;
  std::string type = "auto";
  std::string images;
  std::string split;
  std::string out = "contact_sheet.png";
  std::int64_t samples = 36;
  std::int64_t columns = 0;
  std::int64_t cell = 224;
  std::int64_t epoch = 0;
  std::uint64_t seed = 0;
  std::int64_t max_pixels = 0;
  bool allow_outside = false;
  bool json = false;
};

/// The data set that an argument names: a recipe's data set with the recipe's settings, or the data set at a path.
struct Opened {
  std::string name;
  std::unique_ptr<Settings> settings;  ///< outlives the source
  std::shared_ptr<ImageSource> source;
  std::vector<std::string> remarks = {};
};

bool is_recipe(const std::string& word) {
  if (word.ends_with(".yml") || word.ends_with(".yaml")) return true;
  const std::string name = word.substr(0, word.find(':'));
  return std::ranges::any_of(recipes(), [&](const auto& recipe) { return recipe->name() == name; });
}

std::shared_ptr<ImageSource> open_path(const std::string& path, const InspectWords& words) {
  return open_source({.path = path,
                      .kind = parse_source_kind(words.type),
                      .images = words.images,
                      .split = words.split,
                      .recursive = true,
                      .masks = true,
                      .allow_outside = words.allow_outside,
                      .strict = false});
}

Opened open(const std::string& word, InspectWords words) {
  Opened opened{.name = word};
  if (words.max_pixels != 0) set_max_pixels(words.max_pixels);
  if (!is_recipe(word)) {
    opened.source = open_path(word, words);
    return opened;
  }
  opened.settings = std::make_unique<Settings>(word, words.sets);
  if (words.max_pixels != 0) set_max_pixels(words.max_pixels);
  const TrainConfig::Data& data = opened.settings->config().data;
  const std::string& path = data.train;
  words.allow_outside = words.allow_outside || data.allow_outside;
  if (path.empty()) {
    throw UsageError(fmt::format("{} has no training data", word), "add --set data.train=FOLDER");
  }
  RecipePictures pictures = as_recipe_reads(open_path(path, words), opened.settings->config());
  opened.source = std::move(pictures.source);
  opened.remarks = std::move(pictures.remarks);
  opened.name = fmt::format("{}, {}", word, path);
  return opened;
}

Survey survey_with_progress(const ImageSource& source, const std::string& name) {
  const lockstep::Clock& clock = SystemClock::instance();
  view::ProgressBar bar(view::ProgressBar::for_stderr(), clock);
  view::RateMeter meter(clock);
  const std::int64_t size = source.size();
  Survey survey = survey_source(source, [&](std::int64_t done) {
    meter.add(1);
    bar.update({.label = name, .step = done, .steps = size, .rate = meter.rate()});
  });
  bar.clear();
  return survey;
}

/// Distinct random indices, in ascending order.
std::set<std::int64_t> chosen(std::int64_t size, const InspectWords& words) {
  SampleRandom random(words.seed, static_cast<std::uint64_t>(words.epoch));
  std::set<std::int64_t> indices;
  const auto wanted = static_cast<std::size_t>(std::min(size, words.samples));
  while (indices.size() < wanted) {
    indices.insert(static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(size))));
  }
  return indices;
}

/// Returns random images. Skips unreadable ones, which the survey has already named. `all_values`: also shows the value
/// 255.
std::vector<AnnotatedImage> some_pictures(const ImageSource& source, const InspectWords& words, bool all_values) {
  Augmentations chain;
  for (const std::string& step : words.augment) chain.add(parse_augmentation(step));
  std::vector<AnnotatedImage> pictures;
  for (const std::int64_t index : chosen(source.size(), words)) {
    try {
      AnnotatedImage image = source.get(index);
      if (all_values) show_all_values(image);
      SampleContext context(words.seed, words.epoch, index);
      chain(image, context);
      (void)image.pixels.view();
      pictures.push_back(std::move(image));
    } catch (const DataError&) {
      continue;
    }
  }
  return pictures;
}

/// A folder of splits means all splits unless a split was given.
std::vector<std::string> with_splits(const std::string& word, const InspectWords& words) {
  const bool may_be = !is_recipe(word) && words.type == "auto" && words.split.empty();
  std::vector<std::string> all = may_be ? split_folders(word) : std::vector<std::string>{};
  for (std::string& split : all) split = (std::filesystem::path(word) / split).string();
  return all.empty() ? std::vector<std::string>{word} : all;
}

/// The path of a sheet: "sheet.png", "sheet-2.png", ...
std::filesystem::path sheet_path(const InspectWords& words, std::size_t number) {
  const std::filesystem::path out = words.out;
  if (number == 0) return out;
  return out.parent_path() / fmt::format("{}-{}{}", out.stem().string(), number + 1, out.extension().string());
}

void show(const std::string& word, const InspectWords& words, std::size_t number) {
  Opened opened = open(word, words);
  const std::vector<std::string>& names = opened.source->class_names();
  const Survey survey = survey_with_progress(*opened.source, word);
  const std::string on_masks = remark_on_masks(survey);
  if (!on_masks.empty()) opened.remarks.push_back(on_masks);
  if (words.json) {
    cli::print_json(survey_json(opened.name, survey, names, opened.remarks) + "\n");
  } else {
    cli::print(survey_text(opened.name, survey, names, opened.remarks));
  }
  if (words.samples <= 0) return;
  std::vector<AnnotatedImage> pictures = some_pictures(*opened.source, words, !on_masks.empty());
  if (pictures.empty()) throw DataError(fmt::format("{}: none of the images can be read", opened.name));
  const std::size_t count = pictures.size();
  const auto path = sheet_path(words, number);
  write_png(contact_sheet(std::move(pictures), {.columns = words.columns, .cell = words.cell, .class_names = names}),
            path);
  if (!words.json) print_to(stdout, "\n{} images drawn into {}\n", count, path.string());
}

void add_data_options(CLI::App& app, InspectWords& words) {
  constexpr const char* kGroup = "Data";
  app.add_option("DATA", words.what,
                 "a recipe, RECIPE:PRESET, a .yml file of settings, or paths: folders, lists, COCO .json, VOC folders, "
                 "tar shards, packed files or IDX files")
      ->required();
  app.add_option("--set", words.sets, kSetHelp)->allow_extra_args(false)->type_name("KEY=VALUE")->group(kGroup);
  app.add_option("--type", words.type, "the layout of DATA")->type_name(cli::kSourceKinds)->group(kGroup);
  app.add_option("--images", words.images, "the folder with the images that a list or a COCO .json names")
      ->type_name("FOLDER")
      ->group(kGroup);
  app.add_option("--split", words.split,
                 "for VOC, a list in ImageSets/Main; for IDX, the start of the file names; for a folder with train, "
                 "val, ..., one of these")
      ->type_name("NAME")
      ->default_str("all")
      ->group(kGroup);
  app.add_flag("--allow-outside", words.allow_outside, cli::kAllowOutside)->group(kGroup);
  app.add_option("--max-pixels", words.max_pixels, cli::kMaxPixels)
      ->check(cli::whole({1, 10'000'000'000}))
      ->type_name("N")
      ->default_str(cli::kMaxPixelsDefault)
      ->group(kGroup);
  app.add_flag("--json", words.json, "print the counts as one JSON object per line");
}

void add_sheet_options(CLI::App& app, InspectWords& words) {
  constexpr const char* kGroup = "Contact sheet";
  app.add_option("--out", words.out, "the file to write")->type_name("FILE")->group(kGroup);
  app.add_option("--samples", words.samples, "how many images to draw; 0 writes no sheet")
      ->check(cli::whole({0, 1'000'000}))
      ->type_name("N")
      ->group(kGroup);
  app.add_option("--columns", words.columns, "images in a row")
      ->check(cli::whole({0, 1'000'000}))
      ->type_name("N")
      ->default_str("about as many as there are rows")
      ->group(kGroup);
  app.add_option("--cell", words.cell, "the longer side of a drawn image, in pixels")
      ->check(cli::whole({16, 2048}))
      ->type_name("N")
      ->group(kGroup);
  app.add_option("--augment", words.augment,
                 "an augmentation and its settings, such as 'rotation degrees=20'; may be given more than once")
      ->allow_extra_args(false)
      ->type_name("STEP")
      ->group(kGroup);
  app.add_option("--epoch", words.epoch, "the epoch whose random numbers the augmentations use")
      ->check(cli::whole({0, 100'000'000}))
      ->type_name("N")
      ->group(kGroup);
  app.add_option("--seed", words.seed, "the seed that chooses the images and the random numbers")
      ->type_name("N")
      ->group(kGroup);
}

}  // namespace

int inspect_data(const Arguments& arguments) {
  InspectWords words;
  CLI::App app;
  cli::prepare(app,
               {.name = "lockstep inspect data",
                .description = "Decode every image of a data set, count its contents, and draw some samples.\n\nThe "
                               "samples are drawn with their labels, boxes and masks into one contact sheet.",
                .examples = {"lockstep inspect data data/bccd --split train --out bccd.png",
                             "lockstep inspect data captcha:digits --set data.train=data/digits --samples 12",
                             "lockstep inspect data data/bccd --augment horizontal_flip --augment 'iou_crop p=1'"}});
  add_data_options(app, words);
  add_sheet_options(app, words);
  if (!cli::parse(app, arguments)) return 0;
  std::size_t number = 0;
  for (const std::string& what : words.what) {
    for (const std::string& word : with_splits(what, words)) show(word, words, number++);
  }
  return 0;
}

}  // namespace lockstep::worker
