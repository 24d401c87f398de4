// SPDX-License-Identifier: Apache-2.0
// Every key of every recipe has an effect: settings_changes.txt has a changed value for each, and a run with that value
// has a different outcome. Runs are small, with one process and no GPU; the table marks keys that have no effect there.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "captcha/synthetic/generate.h"
#include "captcha/task.h"
#include "captioning/task.h"
#include "detection/task.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/train/trainer.h"
#include "segmentation/synthetic/generate.h"
#include "segmentation/task.h"
#include "support/alone.h"
#include "support/fuzz_seeds.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace settings_test {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

const fs::path kTable = fs::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/recipes/settings_changes.txt";

/// A line of the table: "recipe | key | value | other=settings; of=both runs | why it cannot be seen".
struct Change {
  std::string recipe;
  std::string key;
  std::string value;
  Words with = {};
  std::string unseen = {};
};

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

Words parts_of(const std::string& text, char separator) {
  Words parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(trimmed(part));
  return parts;
}

/// Returns the changes of one recipe. For the name "RECIPE:", returns the settings of all its runs.
std::vector<Change> table_of(const std::string& recipe) {
  std::vector<Change> changes;
  std::ifstream file(kTable);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.starts_with("#")) continue;
    Words cells = parts_of(line, '|');
    cells.resize(5);
    if (cells[0] == recipe) changes.push_back({cells[0], cells[1], cells[2], parts_of(cells[3], ';'), cells[4]});
  }
  return changes;
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

std::string coco_of(const std::string& file) {
  return fmt::format(R"({{"images": [{{"id": 1, "file_name": "{}", "width": 24, "height": 16}}], "annotations": [], )"
                     R"("categories": [{{"id": 1, "name": "x"}}]}})",
                     file);
}

std::string captions_of(const std::string& file) {
  return fmt::format(R"({{"images": [{{"cocoid": 1, "filename": "{}", "split": "train", )"
                     R"("sentences": [{{"raw": "a red square"}}]}}]}})",
                     file);
}

void make_captchas(const fs::path& folder, std::int64_t count, std::uint64_t seed) {
  captcha::generate_captchas({.out = folder,
                              .count = count,
                              .seed = seed,
                              .charset = "0123",
                              .length = 1,
                              .width = 24,
                              .height = 16,
                              .style = captcha::StyleChoice::kSimple,
                              .threads = 1});
}

/// Makes just enough files for a run to reach the code that reads a setting; after that, the run may end with an error.
void make_files(const fs::path& folder) {
  make_captchas(folder / "train", 13, 1);
  make_captchas(folder / "test", 6, 2);
  fs::copy(folder / "train", folder / "bad");
  write(folder / "bad/0_9999.png", "no picture");
  write(folder / "words.txt", "a\nlarge\nred\n");
  write(folder / "inside.json", coco_of("a.png"));
  write(folder / "outside.json", coco_of("../a.png"));
  const std::string with_a_missing_image =
      std::regex_replace(coco_of("c.png"), std::regex(R"("images": \[)"),
                         R"("images": [{"id": 2, "file_name": "b.png", "width": 24, "height": 16}, )");
  write(folder / "half.json",
        std::regex_replace(with_a_missing_image, std::regex(R"("annotations": \[)"),
                           R"("annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [2, 2, 9, 9]})"));
  fs::copy_file(fs::directory_iterator(folder / "train")->path(), folder / "c.png");
  write(folder / "captions.json", captions_of("a.png"));
  write(folder / "captions_outside.json", captions_of("../a.png"));
  for (const char* name : {"JPEGImages", "Annotations"}) fs::create_directories(folder / "voc" / name);
  write(folder / "voc/ImageSets/Main/train.txt", "a\n");
  const segmentation::GeneratedSet made =
      segmentation::generate_set({.out = folder / "masked", .count = 5, .seed = 1, .size = {48, 48}, .threads = 1});
  ASSERT_EQ(made.train, 4);
  fs::copy(folder / "masked", folder / "odd", fs::copy_options::recursive);
  fs::remove(segmentation::VocFolders{folder / "odd"}.masks() / "000000.png");
  const fs::path golden = test::fuzz_seeds() / "npz";
  for (const char* name : {"features", "wide"}) {
    fs::create_directories(folder / name);
    fs::copy_file(golden / (name == std::string("wide") ? "wide.npz" : "f4.npz"), folder / name / "1.npz");
  }
}

/// Files for all runs in this program.
const fs::path& files() {
  static const test::TempDir kFolder;
  static const bool kMade = (make_files(kFolder.path()), true);
  static const fs::path kPath = kMade ? kFolder.path() : fs::path();
  return kPath;
}

std::string filled_in(std::string text) {
  const std::string name = "FILES";
  for (auto at = text.find(name); at != std::string::npos; at = text.find(name)) {
    text.replace(at, name.size(), files().string());
  }
  return text;
}

/// A log without the parts that differ between runs: time and memory fields, and the report event. (A regular
/// expression would take as long as the runs.)
std::string without_times(const std::string& log) {
  std::string kept;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(R"("event": "report")") != std::string::npos) continue;
    for (const std::string field :
         {R"(, "images_per_s": )", R"(, "data_wait": )", R"(, "seconds": )", R"(, "memory_)"}) {
      for (auto at = line.find(field); at != std::string::npos; at = line.find(field)) {
        line.erase(at, line.find_first_of(",}", at + field.size()) - at);
      }
    }
    kept += line + "\n";
  }
  return kept;
}

/// The outcome of a run with these settings: weights, log, checkpoints, metrics, or its error.
class Runs {
 public:
  Runs(const Recipe& recipe, Words common) : recipe_(recipe), common_(std::move(common)) {}

  const std::string& outcome(const Words& sets) {
    const auto [entry, is_new] = known_.try_emplace(text::join(sets, ";"));
    if (is_new) entry->second = run(sets);
    return entry->second;
  }

 private:
  [[nodiscard]] std::unique_ptr<TrainConfig> config_of(const Words& sets) const {
    auto config = recipe_.make_config();
    ConfigFields fields;
    config->describe(fields);
    ConfigTree tree;
    for (const std::string& set : common_) tree.set(filled_in(set), "common");
    for (const std::string& set : sets) tree.set(filled_in(set), "set");
    fields.bind(tree);
    config->validate();  // an error here would not demonstrate an effect
    return config;
  }

  std::string run(const Words& sets) {
    const test::TempDir folder;
    const auto config = config_of(sets);
    at::globalContext().setAllowTF32CuBLAS(false);  // as at program start; tf32=default leaves it unchanged
    at::globalContext().setAllowTF32CuDNN(true);
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    std::string said;
    try {
      const auto task = recipe_.make_task(*config);
      recipe_.settle(*task, *config);
      const TrainResult result =
          Trainer(testing::alone(), *task, *config, {.recipe = recipe_.name(), .run_dir = folder / "run"}).fit();
      said = text_of(result, folder / "run");
    } catch (const std::exception& error) {
      said = std::regex_replace(error.what(), std::regex(folder.path().string()), "");
    }
    (void)::testing::internal::GetCapturedStdout();
    (void)::testing::internal::GetCapturedStderr();
    return said;
  }

  static std::string text_of(const TrainResult& result, const fs::path& run) {
    std::string text = without_times(FileSystem::system().read(run / "log.jsonl"));
    text +=
        fmt::format("steps {} best {} threads {} tf32 {}{}\n", result.steps, result.best_step, at::get_num_threads(),
                    at::globalContext().allowTF32CuBLAS(), at::globalContext().allowTF32CuDNN());
    for (const Metric& metric : result.metrics) text += fmt::format("{} {}\n", metric.name, metric.value);
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(run)) {
      const std::string name = fs::relative(entry.path(), run).string();
      names.insert(name.substr(0, name.find("tfevents.")));  // the name ends with the time
    }
    for (const std::string& name : names) {
      if (name.find(".lock") == std::string::npos) text += name + "\n";
    }
    return text + checkpoint_digest(load_checkpoint(run.string()));
  }

  const Recipe& recipe_;
  Words common_;
  std::map<std::string, std::string> known_;
};

struct Named {
  const char* name;
  std::unique_ptr<Recipe> (*make)();
};

class Settings : public ::testing::TestWithParam<Named> {};

TEST_P(Settings, EveryKeyStandsInTheTable) {
  std::set<std::string> keys;
  for (const Change& change : table_of(GetParam().name)) {
    if (change.key.empty()) continue;
    EXPECT_TRUE(keys.insert(change.key).second) << change.key << " is there twice";
  }
  const auto config = GetParam().make()->make_config();
  const TrainConfig base;
  std::set<std::string> of_all;
  if (std::string(GetParam().name) != "captcha") {  // captcha's runs cover the settings that all recipes share
    const ConfigFields rows = base.rows();
    for (const auto& field : rows.fields()) of_all.insert(field.key);
    of_all.erase("data.allow_outside");  // read by the recipe
  }
  const ConfigFields rows = config->rows();
  for (const auto& field : rows.fields()) {
    if (of_all.contains(field.key)) continue;
    EXPECT_EQ(keys.erase(field.key), 1U) << field.key << " has no changed value in " << kTable;
  }
  for (const std::string& key : keys) ADD_FAILURE() << key << " is not a setting of " << GetParam().name;
}

TEST_P(Settings, EveryWholeNumberHasARange) {
  const auto config = GetParam().make()->make_config();
  const ConfigFields rows = config->rows();
  for (const auto& field : rows.fields()) {
    const bool whole =
        std::holds_alternative<std::int64_t*>(field.target) || std::holds_alternative<AutoInt*>(field.target);
    if (!whole || field.key == "seed") continue;
    ASSERT_TRUE(field.range.has_value()) << field.key;
    // A layer index may count from the end.
    EXPECT_GE(field.range->least, field.key == "dfine.eval_idx" ? -100 : -1) << field.key;
    EXPECT_LE(field.range->most, 1e15) << field.key;
  }
}

TEST_P(Settings, AChangedValueIsSeen) {
  const auto recipe = GetParam().make();
  const std::vector<Change> table = table_of(GetParam().name);
  Words common;
  for (const Change& change : table) {
    if (change.key.empty()) common.insert(common.end(), change.with.begin(), change.with.end());
  }
  ASSERT_FALSE(common.empty()) << kTable;
  Runs runs(*recipe, common);
  for (const Change& change : table) {
    if (change.key.empty()) continue;
    Words sets = change.with;
    try {
      const std::string before = runs.outcome(sets);
      sets.push_back(change.key + "=" + change.value);
      const std::string now = runs.outcome(sets);
      if (change.unseen.empty()) {
        EXPECT_NE(now, before) << change.key << "=" << change.value << " has no effect";
      } else {
        EXPECT_EQ(now, before) << change.key << "=" << change.value << " has an effect, but the table says otherwise";
      }
    } catch (const Error& error) {
      ADD_FAILURE() << change.key << "=" << change.value << ": " << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Settings,
                         ::testing::Values(Named{"captcha", captcha::make_recipe},
                                           Named{"detection", detection::make_recipe},
                                           Named{"segmentation", segmentation::make_recipe},
                                           Named{"captioning", captioning::make_recipe}),
                         [](const auto& named) { return named.param.name; });

}  // namespace settings_test
}  // namespace lockstep
