// SPDX-License-Identifier: Apache-2.0
// Images with captions, and the vocabulary of their words.
#include <ATen/Functions.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "captioning/data/caption_files.h"
#include "captioning/data/collate.h"
#include "captioning/data/dataset.h"
#include "captioning/data/vocabulary.h"
#include "captioning/synthetic/generate.h"
#include "captioning/synthetic/scene.h"
#include "common/scene_set.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/data/loader.h"
#include "support/data_folder.h"
#include "support/fault_of.h"
#include "support/fuzz_seeds.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"

namespace lockstep::captioning {
namespace captioning_dataset_test {

namespace fs = std::filesystem;
using test::fault_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Datasets of images and features with captions: each kind of file, ids, splits, rows of ids, batches. A sample depends
// only on seed, epoch and index.

void put(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::vector<std::string> ids_of(const std::vector<CaptionedImage>& images) {
  std::vector<std::string> ids;
  for (const CaptionedImage& image : images) ids.push_back(image.id);
  return ids;
}

std::shared_ptr<const Vocabulary> words(const std::string& lines) {
  return std::make_shared<const Vocabulary>(Vocabulary::from_text(lines, "words.txt"));
}

std::shared_ptr<const Vocabulary> words_of_set(const SetOptions& options) {
  return std::make_shared<const Vocabulary>(Vocabulary::of(read_captions(options), 1));
}

std::shared_ptr<CaptionDataset> scenes(const SetOptions& options, bool training) {
  return CaptionDataset::open(options, words_of_set(options), training);
}

std::vector<std::int64_t> numbers(const at::Tensor& row) {
  const at::Tensor dense = row.contiguous();
  return {dense.data_ptr<std::int64_t>(), dense.data_ptr<std::int64_t>() + dense.numel()};
}

/// A dataset of two images in memory with captions of one to six words.
std::vector<CaptionedImage> two_images() {
  return {{.id = "000000", .file = {}, .captions = {"a", "a b", "a b c", "a b c d"}},
          {.id = "000001", .file = {}, .captions = {"d c b a e f"}}};
}

class CaptionFiles : public ::testing::Test {
 protected:
  /// Single-color images, and 6 x 4 features.
  void put_pictures(const std::vector<std::string>& names, const std::string& folder = "images") const {
    const test::TempDir drawn;
    generate_captioned_scenes({.out = drawn / "set", .count = 1, .size = 32});
    for (const std::string& name : names) {
      fs::create_directories((folder_ / folder / name).parent_path());
      fs::copy_file(drawn / "set/images/000000.png", folder_ / folder / name);
    }
  }
  void put_features(const std::vector<std::string>& names, const std::string& golden = "f4.npz") const {
    for (const std::string& name : names) {
      fs::create_directories((folder_ / name).parent_path());
      fs::copy_file(test::fuzz_seeds() / "npz" / golden, folder_ / name);
    }
  }
  [[nodiscard]] SetOptions set(const std::string& name = "") const {
    return {.path = (name.empty() ? folder_.path() : folder_ / name).string()};
  }

  test::TempDir folder_;
};

TEST(CaptionRows, AreInputsWithAZeroBeforeAndTargetsWithAZeroAfter) {
  const SetOptions options{.path = "scenes:2:1", .max_words = 4, .captions_per_image = 4, .height = 32, .width = 32};
  const auto set = CaptionDataset::open(options, two_images(), words("a\nb\nc\nd\ne\nf"), true);
  SampleContext context(1, 0, 0);
  const at::Tensor target = set->get(0, context).target;
  ASSERT_EQ(target.sizes(), (std::vector<std::int64_t>{2, 4, 5}));
  std::set<std::vector<std::int64_t>> pairs;
  for (std::int64_t s = 0; s < 4; ++s) {
    std::vector<std::int64_t> both = numbers(target[0][s]);
    for (const std::int64_t id : numbers(target[1][s])) both.push_back(id);
    pairs.insert(both);
  }
  EXPECT_EQ(pairs, (std::set<std::vector<std::int64_t>>{{0, 1, 0, 0, 0, 1, 0, -1, -1, -1},
                                                        {0, 1, 2, 0, 0, 1, 2, 0, -1, -1},
                                                        {0, 1, 2, 3, 0, 1, 2, 3, 0, -1},
                                                        {0, 1, 2, 3, 4, 1, 2, 3, 4, 0}}));
}

TEST(CaptionRows, OfALongerCaptionEndAfterMaxWords) {
  const SetOptions options{.path = "scenes:2:1", .max_words = 4, .captions_per_image = 3, .height = 32, .width = 32};
  ::testing::internal::CaptureStderr();
  const auto set = CaptionDataset::open(options, two_images(), words("a\nb\nc\nd\ne\nf"), true);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("scenes:2:1: 1 of 5 captions are truncated to 4 words"));
  SampleContext context(1, 0, 1);
  const at::Tensor target = set->get(1, context).target;
  // One caption, requested three times.
  for (std::int64_t s = 0; s < 3; ++s) {
    EXPECT_THAT(numbers(target[0][s]), ElementsAre(0, 4, 3, 2, 1));
    EXPECT_THAT(numbers(target[1][s]), ElementsAre(4, 3, 2, 1, 0));
  }
  EXPECT_THAT(set->captions(1).references.front(), ElementsAre(4, 3, 2, 1, 0));
  EXPECT_EQ(set->captions(1).captions.front(), "d c b a e f");
  SetOptions one_more = options;
  one_more.max_words = 5;
  const auto five = CaptionDataset::open(one_more, two_images(), words("a\nb\nc\nd\ne\nf"), false);
  EXPECT_THAT(five->captions(1).references.front(), ElementsAre(4, 3, 2, 1, 5, 0));
}

TEST(CaptionRows, AreDrawnWithoutRepeatsAndAnewEachEpoch) {
  const SetOptions options{.path = "scenes:2:1", .max_words = 4, .captions_per_image = 2, .height = 32, .width = 32};
  const auto set = CaptionDataset::open(options, two_images(), words("a\nb\nc\nd\ne\nf"), true);
  std::set<std::vector<std::int64_t>> drawn;
  for (std::int64_t epoch = 0; epoch < 100; ++epoch) {
    SampleContext context(1, epoch, 0);
    const at::Tensor target = set->get(0, context).target;
    const std::vector<std::int64_t> lengths = numbers(target[0].ne(0).sum(1));
    EXPECT_NE(lengths[0], lengths[1]);
    drawn.insert(lengths);
    SampleContext again(1, epoch, 0);
    EXPECT_TRUE(at::equal(set->get(0, again).target, target));
  }
  EXPECT_EQ(drawn.size(), 12U);  // each of four lengths, then each of the other three
}

TEST(CaptionRows, OfUnknownWordsAreUnkOrNoWordAtAll) {
  const SetOptions options{.path = "scenes:2:1", .max_words = 6, .height = 32, .width = 32};
  ::testing::internal::CaptureStderr();
  const auto with = CaptionDataset::open(options, two_images(), words("a\nb\nc\nd\nUNK"), true);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("scenes:2:1: 2 of 16 words are not in the vocabulary, such as 'e'"));
  EXPECT_THAT(with->captions(1).references.front(), ElementsAre(4, 3, 2, 1, 5, 5, 0));
  const auto without = CaptionDataset::open(options, two_images(), words("a\nb\nc\nd"), false);
  EXPECT_THAT(without->captions(1).references.front(), ElementsAre(4, 3, 2, 1, 5, 5, 0));
  EXPECT_EQ(fault_of<DataError>([&] { (void)CaptionDataset::open(options, two_images(), words("a\nb\nc\nd"), true); }),
            "scenes:2:1: a caption of 000001 has the word 'e', which is not among the 4 in the vocabulary\n  next  add "
            "the word to the vocabulary, or add a last line UNK for all such words");
}

TEST(CaptionDataset, OfScenesHasNormalisedPicturesAndWhatIsSaidAboutThem) {
  const SetOptions options{.path = "scenes:3:7", .height = 48, .width = 64};
  const auto set = scenes(options, false);
  ASSERT_EQ(set->size(), 3);
  SampleContext context(1, 0, 2);
  const Sample sample = set->get(2, context);
  ASSERT_EQ(sample.data.sizes(), (std::vector<std::int64_t>{3, 48, 64}));
  EXPECT_FALSE(sample.target.defined());
  const Image image = paint_scene(make_scene(7, 2), {64, 48});
  const float deviation[] = {0.229F, 0.224F, 0.225F};
  const float mean[] = {0.485F, 0.456F, 0.406F};
  for (std::int64_t c = 0; c < 3; ++c) {
    const double value = image.pixels[static_cast<std::size_t>((10 * 64 + 20) * 3 + c)] / 255.0;
    EXPECT_NEAR(sample.data[c][10][20].item<double>(), (value - mean[c]) / deviation[c], 1e-5);
  }
  const auto said = std::any_cast<std::shared_ptr<const ImageCaptions>>(sample.extra);
  EXPECT_EQ(said->index, 2);
  EXPECT_EQ(said->id, "000002");
  EXPECT_EQ(said->captions, read_captions(options)[2].captions);
  EXPECT_EQ(set->picture(2).pixels, image.pixels);
  EXPECT_EQ(set->describe(2), "scene 000002");
  EXPECT_EQ(set->feature_width(), 0);
}

TEST(CaptionDataset, OfScenesGivesTheSameOnAnyNumberOfWorkersAndFromTheDisk) {
  const test::TempDir folder;
  generate_captioned_scenes({.out = folder / "set", .count = 12, .seed = 3, .size = 48});
  SetOptions options{.path = "scenes:12:3", .height = 48, .width = 48};
  std::vector<at::Tensor> first;
  for (const std::int64_t workers : {0, 3, -1}) {
    if (workers < 0) options.path = (folder / "set").string();
    const auto set = scenes(options, true);
    DataLoader loader(set, {.batch_size = 4,
                            .workers = std::max<std::int64_t>(workers, 0),
                            .shuffle = true,
                            .seed = 5,
                            .collate = collate()});
    std::vector<at::Tensor> all;
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      for (const Batch& batch : loader.epoch(epoch)) {
        EXPECT_EQ(batch.data.sizes(), (std::vector<std::int64_t>{4, 3, 48, 48}));
        EXPECT_EQ(batch.target.sizes(), (std::vector<std::int64_t>{4, 2, 5, 17}));
        const auto& extra = std::any_cast<const CaptionBatch&>(batch.extra);
        EXPECT_TRUE(extra.lengths.empty());
        for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(extra.images[i]->index, batch.indices[i]);
        all.push_back(batch.data.clone());
        all.push_back(batch.target.clone());
      }
    }
    if (first.empty()) first = all;
    ASSERT_EQ(all.size(), 12U);
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(at::equal(all[i], first[i])) << workers << " " << i;
  }
}

TEST_F(CaptionFiles, OfTextBelongTogetherByTheNameBeforeTheNumber) {
  put(folder_ / "captions.txt", "b.png#0\ta cat\r\na.jpg#0\ta dog\n\nb.png#1\tthe cat\na.jpg\ta big dog\n");
  put_pictures({"a.jpg", "b.png"});
  const auto images = read_captions(set());
  EXPECT_THAT(ids_of(images), ElementsAre("b", "a"));
  EXPECT_THAT(images[0].captions, ElementsAre("a cat", "the cat"));
  EXPECT_THAT(images[1].captions, ElementsAre("a dog", "a big dog"));
  EXPECT_EQ(images[0].file, (folder_ / "images/b.png").string());
}

TEST_F(CaptionFiles, HaveAHashInTheirNameWhereNoNumberEndsIt) {
  put(folder_ / "captions.txt", "img#1.png\tone\nimg#2.png#0\ttwo\nimg#2.png#1\tthree\nc#\tfour\n");
  put_pictures({"img#1.png", "img#2.png", "c#"});
  const auto images = read_captions(set());
  EXPECT_THAT(ids_of(images), ElementsAre("img#1", "img#2", "c#"));
  EXPECT_THAT(images[1].captions, ElementsAre("two", "three"));
  EXPECT_EQ(images[0].file, (folder_ / "images/img#1.png").string());
}

TEST_F(CaptionFiles, AListOfIdsIsReadInTheTimeThatItsLengthTakes) {
  std::string text = "\xef\xbb\xbf{";
  for (int i = 0; i < 100'000; ++i)
    fmt::format_to(std::back_inserter(text), "{}\"{}\": \"{}.png\"", i ? "," : "", i, i);
  put(folder_ / "ids.json", text + "}");
  const auto before = std::chrono::steady_clock::now();
  const IdList list = read_ids(folder_ / "ids.json");
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(test::kAnySanitizer ? 30 : 3));
  ASSERT_EQ(list.ids.size(), 100'000U);
  EXPECT_EQ(list.ids[99'999], "99999");
  EXPECT_EQ(list.files[99'999], "99999.png");
}

TEST_F(CaptionFiles, OfIdsMayBeginWithAByteOrderMark) {
  put(folder_ / "ids.json", "\xef\xbb\xbf{\"b\": \"x\", \"a\": \"y\"}");
  EXPECT_THAT(read_ids(folder_ / "ids.json").ids, ElementsAre("b", "a"));
  EXPECT_THAT(read_ids(folder_ / "ids.json").files, ElementsAre("x", "y"));
  put(folder_ / "ids.txt",
      "\xef\xbb\xbf"
      "7\n8\n");
  EXPECT_THAT(read_ids(folder_ / "ids.txt").ids, ElementsAre("7", "8"));
}

TEST_F(CaptionFiles, OfCocoHaveTheirImagesNumbersAndLeaveOutThoseWithoutACaption) {
  put(folder_ / "captions.json", R"({"info": {"year": 2017}, "images": [
      {"id": 42, "file_name": "x.png"}, {"id": 7, "file_name": "y.png"}, {"id": 8, "file_name": "z.png"}],
      "annotations": [{"id": 1, "image_id": 7, "caption": "one"}, {"id": 2, "image_id": 42, "caption": "two"},
      {"id": 3, "image_id": 7, "caption": "three"}]})");
  put_pictures({"x.png", "y.png"}, ".");
  ::testing::internal::CaptureStderr();
  const auto images = read_captions(set());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("captions.json: 1 of 3 images have no caption and are skipped"));
  EXPECT_THAT(ids_of(images), ElementsAre("42", "7"));
  EXPECT_THAT(images[1].captions, ElementsAre("one", "three"));
}

TEST_F(CaptionFiles, OfKarpathyHaveSplitsAndTrainHasRestvalToo) {
  put(folder_ / "dataset_coco.json", R"({"dataset": "coco", "images": [
      {"filepath": "val", "filename": "a.png", "imgid": 0, "cocoid": 391, "split": "test",
       "sentences": [{"raw": "A man.", "tokens": ["a", "man"], "sentid": 1}, {"raw": "A bike"}], "sentids": [1, 2]},
      {"filepath": "val", "filename": "b.png", "cocoid": 392, "split": "restval", "sentences": [{"raw": "A dog"}]},
      {"filepath": "train", "filename": "c.png", "cocoid": 393, "split": "train", "sentences": [{"raw": "A cat"}]}]})");
  put_pictures({"val/a.png", "b.png", "train/c.png"});
  SetOptions options = set("dataset_coco.json");
  EXPECT_THAT(ids_of(read_captions(options)), ElementsAre("391", "392", "393"));
  options.split = "train";
  const auto train = read_captions(options);
  EXPECT_THAT(ids_of(train), ElementsAre("392", "393"));
  // The folder that the file names (`filepath`) is used if it exists.
  EXPECT_EQ(train[0].file, (folder_ / "images/b.png").string());
  EXPECT_EQ(train[1].file, (folder_ / "images/train/c.png").string());
  options.split = "test";
  EXPECT_THAT(read_captions(options)[0].captions, ElementsAre("A man.", "A bike"));
  options.split = "tset";
  EXPECT_THAT(fault_of<DataError>([&] { (void)read_captions(options); }),
              HasSubstr("has no images in the split 'tset' (did you mean 'test'?)\n  next  its splits are restval, "
                        "test, train"));
}

TEST_F(CaptionFiles, AreChosenByAListOfIdsInItsOrder) {
  put(folder_ / "captions.txt", "a.png\tone\nb.png\ttwo\nc.png\tthree\n");
  put_pictures({"a.png", "b.png", "c.png"});
  put(folder_ / "ids.txt", "c\na\n");
  SetOptions options = set();
  options.ids = "ids.txt";
  EXPECT_THAT(ids_of(read_captions(options)), ElementsAre("c", "a"));
  put(folder_ / "ids.json", R"({"b": "c.png", "a": "a.png"})");
  options.ids = (folder_ / "ids.json").string();
  const auto images = read_captions(options);
  EXPECT_THAT(ids_of(images), ElementsAre("b", "a"));
  EXPECT_EQ(images[0].file, (folder_ / "images/c.png").string());
  put(folder_ / "scenes.txt", "000007\n000002\n");
  EXPECT_THAT(ids_of(read_captions({.path = "scenes:9:1", .ids = (folder_ / "scenes.txt").string()})),
              ElementsAre("000007", "000002"));
}

TEST_F(CaptionFiles, OfFeaturesArePaddedInABatch) {
  put(folder_ / "captions.txt", "1.png\ta\n2.png\ta b\n3.png\tb\n");
  put_features({"att/1.npz", "att/2.npz", "att/3.npz"});
  SetOptions options = set();
  options.features = "att";
  const auto vocabulary = words("a\nb");
  const auto whole = CaptionDataset::open(options, vocabulary, true);
  EXPECT_EQ(whole->feature_width(), 4);
  SampleContext context(1, 0, 0);
  const at::Tensor six = whole->get(0, context).data;
  ASSERT_EQ(six.sizes(), (std::vector<std::int64_t>{6, 4}));
  EXPECT_EQ(six[5][3].item<float>(), 18.5F);
  options.max_features = 2;
  const auto two = CaptionDataset::open(options, vocabulary, true);
  SampleContext other(1, 0, 1);
  std::vector<Sample> samples{whole->get(0, context), two->get(1, other)};
  const Batch batch = collate()(std::move(samples), {});
  ASSERT_EQ(batch.data.sizes(), (std::vector<std::int64_t>{2, 6, 4}));
  EXPECT_TRUE(at::equal(batch.data[0], six));
  EXPECT_TRUE(at::equal(batch.data[1].narrow(0, 0, 2), six.narrow(0, 0, 2)));
  EXPECT_EQ(batch.data[1].narrow(0, 2, 4).abs().sum().item<float>(), 0.0F);
  EXPECT_THAT(std::any_cast<const CaptionBatch&>(batch.extra).lengths, ElementsAre(6, 2));
  EXPECT_EQ(std::any_cast<const CaptionBatch&>(batch.extra).words,
            batch.target.select(1, 1).ge(0).any(0).any(0).sum().item<std::int64_t>());
  EXPECT_THAT(fault_of<DataError>([&] { (void)whole->picture(0); }), HasSubstr("has features, not images"));
}

TEST_F(CaptionFiles, OfPicturesAreScaledToTheWantedSize) {
  put(folder_ / "captions.txt", "a.png\tone\n");
  put_pictures({"a.png"});
  SetOptions options = set();
  options.height = 24;
  options.width = 40;
  const auto set = CaptionDataset::open(options, words("one"), false);
  SampleContext context(1, 0, 0);
  EXPECT_EQ(set->get(0, context).data.sizes(), (std::vector<std::int64_t>{3, 24, 40}));
  EXPECT_EQ(set->picture(0).size, (ImageSize{32, 32}));
  EXPECT_EQ(set->describe(0), (folder_ / "images/a.png").string());
}

std::string nlvr_line(const std::string& sentence, const std::string& identifier, const std::string& label) {
  return fmt::format(R"({{"sentence": "{}", "label": "{}", "identifier": "{}", "directory": "0"}})", sentence, label,
                     identifier) +
         "\n";
}

TEST_F(CaptionFiles, OfNlvrAreTheTrueSentencesAndASplitKeepsASentenceTogether) {
  std::string lines = nlvr_line("A false one", "7-0", "false");
  std::vector<std::string> names;
  for (int sentence = 1; sentence <= 10; ++sentence) {
    for (int picture = 0; picture < 2; ++picture) {
      const std::string id = fmt::format("{}-{}", sentence * 7, picture);
      lines += nlvr_line(fmt::format("Sentence {}", sentence), id, "true");
      names.push_back("0/dev-" + id + "-0.png");
    }
  }
  lines += nlvr_line("Sentence 11", "99-0", "false") + nlvr_line("Another one", "7-0", "true") +
           nlvr_line("A wrong one", "7-1", "false");
  put(folder_ / "dev.json", lines);
  put_pictures(names);
  SetOptions options = set();
  ::testing::internal::CaptureStderr();
  const auto all = read_captions(options);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("dev.json: 1 of 21 images have no true sentence and are skipped"));
  ASSERT_EQ(all.size(), 20U);
  EXPECT_EQ(all[0].file, (folder_ / "images/0/dev-7-0-0.png").string());
  EXPECT_THAT(all[0].captions, ElementsAre("Sentence 1", "Another one"));
  EXPECT_THAT(all[1].captions, ElementsAre("Sentence 1"));
  options.split = "test";
  EXPECT_THAT(ids_of(read_captions(options)), ElementsAre("35-0", "35-1", "70-0", "70-1"));
  options.split = "train";
  EXPECT_EQ(read_captions(options).size(), 16U);
  options.split = "val";
  EXPECT_THAT(fault_of<UsageError>([&] { (void)read_captions(options); }), HasSubstr("NLVR has no split 'val'"));
}

TEST(Nlvr, ItsRealDevelopmentSetIsRead) {
  LOCKSTEP_DATA_OR_SKIP(folder, "nlvr/dev");
  SetOptions options{.path = folder.string(), .height = 50, .width = 200};
  ::testing::internal::CaptureStderr();
  const auto all = read_captions(options);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("442 of 989 images have no true sentence"));
  EXPECT_EQ(all.size(), 547U);
  std::vector<std::string> files[2];
  for (const bool training : {true, false}) {
    options.split = training ? "train" : "test";
    for (const CaptionedImage& image : read_captions(options)) files[training].push_back(image.file);
    std::ranges::sort(files[training]);
  }
  EXPECT_EQ(files[0].size() + files[1].size(), 547U);
  std::vector<std::string> both;
  std::ranges::set_intersection(files[0], files[1], std::back_inserter(both));
  EXPECT_TRUE(both.empty());
  const auto set = CaptionDataset::open(options, std::make_shared<Vocabulary>(Vocabulary::of(all, 1)), false);
  SampleContext context(1, 0, 0);
  EXPECT_EQ(set->get(0, context).data.sizes(), (std::vector<std::int64_t>{3, 50, 200}));
  EXPECT_EQ(set->picture(0).size, (ImageSize{400, 100}));
}

TEST(SceneSets, AreNamedByCountSeedAndKind) {
  EXPECT_TRUE(common::names_scenes("scenes:5"));
  EXPECT_FALSE(common::names_scenes("data/scenes:5"));
  EXPECT_EQ(common::parse_scene_set("scenes:200:7").count, 200);
  EXPECT_EQ(common::parse_scene_set("scenes:200:7").seed, 7U);
  EXPECT_EQ(common::parse_scene_set("scenes:200").seed, 0U);
  EXPECT_FALSE(common::parse_scene_set("scenes:200:7").few);
  EXPECT_TRUE(common::parse_scene_set("scenes:200:7:few").few);
  for (const char* path : {"scenes:200:7:easy", "scenes:200:7:few:1", "scenes:200:7:"}) {
    EXPECT_THAT(fault_of<UsageError>([&] { (void)common::parse_scene_set(path); }), HasSubstr("is not 'few'")) << path;
  }
  EXPECT_THAT(fault_of<UsageError>([] { (void)read_captions({.path = "scenes:5:1:few"}); }),
              HasSubstr("have no easy variant"));
  EXPECT_THAT(fault_of<UsageError>([] { (void)common::parse_scene_set("scenes:x"); }),
              HasSubstr("'scenes:x' is not a valid set of scenes: 'x' is not a number"));
  EXPECT_THAT(fault_of<UsageError>([] { (void)common::parse_scene_set("scenes:0"); }),
              HasSubstr("must be 1 .. 10000000"));
  EXPECT_THAT(fault_of<UsageError>([] { (void)read_captions({.path = "scenes:5", .split = "train"}); }),
              HasSubstr("'scenes:5' is drawn in memory and has no 'train'"));
}

// Words and ids: the same vocabulary from the same captions, files in the original format, errors that name the line.

std::vector<CaptionedImage> images() {
  return {{.id = "1", .file = {}, .captions = {"A dog runs.", "a cat sits, a dog runs"}},
          {.id = "2", .file = {}, .captions = {"The zebra eats a cat!"}}};
}

std::string fault_of_text(const std::string& text) {
  return fault_of<DataError>([&] { (void)Vocabulary::from_text(text, "words.txt"); });
}

TEST(Vocabulary, HasFrequentWordsFirstAndEqualOnesByTheirBytes) {
  // Counts: 4 of a; 2 each of cat, dog and runs; 1 each of eats, sits, the and zebra.
  EXPECT_EQ(Vocabulary::of(images(), 1).to_text(), "a\ncat\ndog\nruns\neats\nsits\nthe\nzebra\n");
}

TEST(Vocabulary, PutsRareWordsTogetherUnderTheLastId) {
  const Vocabulary vocabulary = Vocabulary::of(images(), 2);
  EXPECT_EQ(vocabulary.to_text(), "a\ncat\ndog\nruns\nUNK\n");
  EXPECT_EQ(vocabulary.size(), 6);
  EXPECT_THAT(vocabulary.ids_of({"a", "zebra", "runs"}), ElementsAre(1, 5, 4));
  EXPECT_FALSE(vocabulary.has("zebra"));
  EXPECT_TRUE(vocabulary.has("dog"));
}

TEST(Vocabulary, IsTheSameOfTheSameCaptionsInAnyOrder) {
  std::vector<CaptionedImage> turned = images();
  std::swap(turned[0], turned[1]);
  EXPECT_EQ(Vocabulary::of(turned, 1).difference(Vocabulary::of(images(), 1)), "");
}

TEST(Vocabulary, CountsIdsFromOneAndEndsSentencesWithZero) {
  const Vocabulary vocabulary = Vocabulary::from_text("dog\ncat\n", "words.txt");
  EXPECT_EQ(vocabulary.size(), 3);
  EXPECT_EQ(vocabulary.word(0), ".");
  EXPECT_EQ(vocabulary.word(1), "dog");
  EXPECT_EQ(vocabulary.find("cat"), 2);
  EXPECT_EQ(vocabulary.find("cow"), std::nullopt);
  const Ids ids{2, 1, 1, 0, 2};
  EXPECT_EQ(vocabulary.text_of(ids.data(), 5), "cat dog dog");
  EXPECT_EQ(vocabulary.text_of(ids.data(), 2), "cat dog");
  EXPECT_EQ(vocabulary.text_of(ids.data() + 3, 2), "");
  EXPECT_EQ(fault_of<UsageError>([&] { (void)vocabulary.word(3); }), "word id 3 is outside a vocabulary of 3 ids");
  EXPECT_EQ(fault_of<UsageError>([&] { (void)vocabulary.word(-1); }), "word id -1 is outside a vocabulary of 3 ids");
}

TEST(Vocabulary, NamesAWordThatItDoesNotHave) {
  const Vocabulary vocabulary = Vocabulary::from_text("dog\ncat\n", "words.txt");
  EXPECT_EQ(fault_of<DataError>([&] {
              (void)vocabulary.ids_of({"dog", "cow"});
            }),
            "the word 'cow' is not among the 2 in the vocabulary\n  next  add the word to the vocabulary, or add a "
            "last line UNK for all such words");
}

TEST(Vocabulary, ReadsWhatItWritesAndFilesOfOtherSystems) {
  const Vocabulary vocabulary = Vocabulary::of(images(), 2);
  EXPECT_EQ(Vocabulary::from_text(vocabulary.to_text(), "").difference(vocabulary), "");
  EXPECT_EQ(Vocabulary::from_text("\xef\xbb\xbf"
                                  "caf\xc3\xa9\r\ndog",
                                  "")
                .to_text(),
            "caf\xc3\xa9\ndog\n");
  const test::TempDir folder;
  std::ofstream(folder / "words.txt") << vocabulary.to_text();
  EXPECT_EQ(Vocabulary::from_file(folder / "words.txt").difference(vocabulary), "");
}

TEST(Vocabulary, SaysHowAnotherDiffers) {
  const Vocabulary one = Vocabulary::from_text("dog\ncat\n", "");
  EXPECT_EQ(one.difference(one), "");
  EXPECT_EQ(one.difference(Vocabulary::from_text("dog\ncow\n", "")), "word 2 is 'cat' instead of 'cow'");
  EXPECT_EQ(one.difference(Vocabulary::from_text("dog\ncat\ncow\n", "")),
            "2 words instead of 3: word 3 is none instead of 'cow'");
}

TEST(Vocabulary, RefusesFilesThatAreNone) {
  EXPECT_EQ(fault_of_text(""), "vocabulary words.txt is empty\n  next  write one word per line");
  EXPECT_EQ(fault_of_text("a\n\nb\n"),
            "vocabulary words.txt: line 2 is blank\n  next  a vocabulary has one word per line, and each word once");
  EXPECT_THAT(fault_of_text("a\nb\na\n"), HasSubstr("vocabulary words.txt: line 3 is 'a', which is already line 1"));
  EXPECT_THAT(fault_of_text("a\r\r\nb\n"), HasSubstr("line 1 is 'a?': more than one word"));
  EXPECT_THAT(fault_of_text("a\nbig dog\n"), HasSubstr("line 2 is 'big dog': more than one word"));
  EXPECT_EQ(fault_of_text("a\nb\xff\n"), "vocabulary words.txt: line 2 is not UTF-8");
  EXPECT_THAT(fault_of<DataError>([] { (void)Vocabulary::from_file("/nowhere/words.txt"); }),
              HasSubstr("/nowhere/words.txt"));
}

TEST(Vocabulary, ShowsNoMoreOfABadFileThanALine) {
  const std::string line(1'000'000, 'x');
  EXPECT_THAT(fault_of_text(line + " " + line), HasSubstr("line 1 is '" + line.substr(0, 40) + "...': more than one"));
  EXPECT_THAT(fault_of_text(line + "\n" + line),
              HasSubstr("line 2 is '" + line.substr(0, 40) + "...', which is already line 1"));
  EXPECT_THAT(fault_of_text("a\x1b[2J b"), HasSubstr("line 1 is 'a?[2J b': more than one word"));
}

TEST(Vocabulary, RefusesCaptionsThatLeaveNoWord) {
  EXPECT_THAT(fault_of<DataError>([] { (void)Vocabulary::of(images(), 5); }),
              HasSubstr("no word occurs 5 times in the captions of 2 images"));
}

}  // namespace captioning_dataset_test
}  // namespace lockstep::captioning
