// SPDX-License-Identifier: Apache-2.0
#include "worker/inspect/inspect_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "captcha/config.h"
#include "captcha/data/dataset.h"
#include "common/cli.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/data/augment/augmentations.h"
#include "lockstep/data/contact_sheet.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/sources/open_source.h"
#include "lockstep/view/progress.h"
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

/// Captchas and the texts in them.
class CaptchaPictures final : public ImageSource {
 public:
  CaptchaPictures(std::shared_ptr<ImageSource> files, const captcha::CaptchaConfig& config)
      : files_(std::move(files)), config_(config), characters_(config.characters()) {}

  [[nodiscard]] std::int64_t size() const override { return files_->size(); }
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override {
    AnnotatedImage image = files_->get(index);
    std::string text;
    for (const std::int64_t letter : captcha::label_of(image.name, config_.labels, characters_)) {
      text += characters_[static_cast<std::size_t>(letter)];
    }
    image.captions = {text};
    return image;
  }

 private:
  std::shared_ptr<ImageSource> files_;
  const captcha::CaptchaConfig& config_;
  std::string characters_;
};

/// What a word names: a recipe with its settings, or a path.
struct Opened {
  std::string name;
  std::unique_ptr<Settings> settings;  ///< outlives the source
  std::shared_ptr<ImageSource> source;
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
    throw UsageError(fmt::format("{} names no training data", word), "--set data.train=FOLDER");
  }
  opened.source = open_path(path, words);
  opened.name = fmt::format("{}, {}", word, path);
  if (const auto* config = dynamic_cast<const captcha::CaptchaConfig*>(&opened.settings->config())) {
    opened.source = std::make_shared<CaptchaPictures>(std::move(opened.source), *config);
  }
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

/// So many different indices, in ascending order.
std::set<std::int64_t> chosen(std::int64_t size, const InspectWords& words) {
  SampleRandom random(words.seed, static_cast<std::uint64_t>(words.epoch));
  std::set<std::int64_t> indices;
  const auto wanted = static_cast<std::size_t>(std::min(size, words.samples));
  while (indices.size() < wanted) {
    indices.insert(static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(size))));
  }
  return indices;
}

/// Pictures that cannot be read were told before, and are left out.
std::vector<AnnotatedImage> some_pictures(const ImageSource& source, const InspectWords& words) {
  Augmentations chain;
  for (const std::string& step : words.augment) chain.add(parse_augmentation(step));
  std::vector<AnnotatedImage> pictures;
  for (const std::int64_t index : chosen(source.size(), words)) {
    try {
      AnnotatedImage image = source.get(index);
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

/// A folder of splits stands for all of them, unless one was asked for.
std::vector<std::string> with_splits(const std::string& word, const InspectWords& words) {
  const bool may_be = !is_recipe(word) && words.type == "auto" && words.split.empty();
  std::vector<std::string> all = may_be ? split_folders(word) : std::vector<std::string>{};
  for (std::string& split : all) split = (std::filesystem::path(word) / split).string();
  return all.empty() ? std::vector<std::string>{word} : all;
}

/// "sheet.png", "sheet-2.png", ...
std::filesystem::path sheet_path(const InspectWords& words, std::size_t number) {
  const std::filesystem::path out = words.out;
  if (number == 0) return out;
  return out.parent_path() / fmt::format("{}-{}{}", out.stem().string(), number + 1, out.extension().string());
}

void show(const std::string& word, const InspectWords& words, std::size_t number) {
  const Opened opened = open(word, words);
  const std::vector<std::string>& names = opened.source->class_names();
  const Survey survey = survey_with_progress(*opened.source, word);
  if (words.json) {
    cli::print_json(survey_json(opened.name, survey, names) + "\n");
  } else {
    cli::print(survey_text(opened.name, survey, names));
  }
  if (words.samples <= 0) return;
  std::vector<AnnotatedImage> pictures = some_pictures(*opened.source, words);
  if (pictures.empty()) throw DataError(fmt::format("{}: none of the pictures can be read", opened.name));
  const std::size_t count = pictures.size();
  const auto path = sheet_path(words, number);
  write_png(contact_sheet(std::move(pictures), {.columns = words.columns, .cell = words.cell, .class_names = names}),
            path);
  if (!words.json) fmt::print("\n{} pictures drawn in {}\n", count, path.string());
}

}  // namespace

int inspect_data(const Arguments& arguments) {
  InspectWords words;
  CLI::App app;
  cli::prepare(app,
               {.name = "lockstep inspect data",
                .description = "Decodes every picture of a set, counts what there is, and draws some with their "
                               "labels, boxes and masks as one picture.",
                .example = "  lockstep inspect data data/bccd --split train --out bccd.png\n"
                           "  lockstep inspect data captcha:digits --set data.train=data/digits --samples 12\n"
                           "  lockstep inspect data data/bccd --augment 'horizontal_flip' --augment 'iou_crop p=1'"});
  app.add_option("what", words.what, "RECIPE[:PRESET], FILE.yml, or paths: folders, lists, COCO, VOC, tar, packed, IDX")
      ->required();
  app.add_option("--set", words.sets, "a setting of the recipe, as key=value; may come again")->allow_extra_args(false);
  app.add_option("--type", words.type,
                 "auto, folder, classes, list, coco, voc, masks, tar, packed or idx (default: auto)");
  app.add_option("--images", words.images, "folder of the pictures, for lists and COCO");
  app.add_option("--split", words.split,
                 "VOC: a list in ImageSets/Main; IDX: the start of the file names; a folder of train, val, ...: one of "
                 "them (default: all)");
  app.add_option("--augment", words.augment, "a step and its settings, such as 'rotation degrees=20'; may come again")
      ->allow_extra_args(false);
  app.add_option("--out", words.out, "the contact sheet (default: contact_sheet.png)");
  app.add_option("--samples", words.samples, "pictures on it; 0: no sheet (default: 36)")
      ->check(cli::whole({0, 1'000'000}));
  app.add_option("--columns", words.columns, "pictures in a row (default: about as many as rows)")
      ->check(cli::whole({0, 1'000'000}));
  app.add_option("--cell", words.cell, "pixels of a picture's longer side (default: 224)")
      ->check(cli::whole({16, 2048}));
  app.add_option("--epoch", words.epoch, "whose random numbers (default: 0)")->check(cli::whole({0, 100'000'000}));
  app.add_option("--seed", words.seed, "which pictures, and of the random numbers (default: 0)");
  app.add_flag("--allow-outside", words.allow_outside, cli::kAllowOutside);
  app.add_option("--max-pixels", words.max_pixels, cli::kMaxPixels)->check(cli::whole({1, 10'000'000'000}));
  app.add_flag("--json", words.json, "the counts as one JSON object a line");
  if (!cli::parse(app, arguments)) return 0;
  std::size_t number = 0;
  for (const std::string& what : words.what) {
    for (const std::string& word : with_splits(what, words)) show(word, words, number++);
  }
  return 0;
}

}  // namespace lockstep::worker
