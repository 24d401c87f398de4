// SPDX-License-Identifier: Apache-2.0
// Faults in users' caption datasets: each is an error that names the file and the line, or the id.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "captioning/data/caption_files.h"
#include "captioning/data/dataset.h"
#include "captioning/synthetic/generate.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "support/fault_of.h"
#include "support/fuzz_seeds.h"
#include "support/temp_dir.h"

namespace lockstep::captioning {
namespace captioning_bad_data_test {

using test::fault_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

/// A folder with captions.txt or captions.json, images/ and att/.
class BadCaptions : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  void put_features(const std::string& name, const std::string& golden) const {
    fs::create_directories((folder_ / name).parent_path());
    fs::copy_file(test::fuzz_seeds() / "npz" / golden, folder_ / name);
  }
  [[nodiscard]] SetOptions set() const { return {.path = folder_.path().string()}; }
  [[nodiscard]] SetOptions feature_set() const {
    SetOptions options = set();
    options.features = "att";
    return options;
  }
  [[nodiscard]] std::string at(const std::string& name) const { return (folder_ / name).string(); }

  [[nodiscard]] static std::string fault(const SetOptions& options) {
    return fault_of<DataError>([&] { (void)read_captions(options); });
  }
  /// The error from reading a sample, as in a run.
  [[nodiscard]] static std::string fault_of_sample(const SetOptions& options, std::int64_t index = 0) {
    const auto vocabulary = std::make_shared<const Vocabulary>(Vocabulary::from_text("a\nUNK\n", ""));
    return fault_of<DataError>([&] {
      const auto set = CaptionDataset::open(options, vocabulary, true);
      SampleContext context(0, 0, index);
      (void)set->get(index, context);
    });
  }
  [[nodiscard]] std::string fault_of_text(const std::string& text) const {
    put("captions.txt", text);
    return fault(set());
  }
  [[nodiscard]] std::string fault_of_json(const std::string& text) const {
    put("captions.json", text);
    return fault(set());
  }

  test::TempDir folder_;
};

constexpr const char* kLineHint = "\n  next  each line must be FILE<TAB>CAPTION or FILE#NUMBER<TAB>CAPTION";

TEST_F(BadCaptions, AnEmptyCaptionIsNamedByItsLineOrItsImage) {
  EXPECT_EQ(fault_of_text("a.png#0\ta dog\na.png#1\t \n"),
            at("captions.txt") + ": line 2: the caption of a.png#1 is empty" + kLineHint);
  EXPECT_EQ(fault_of_text("a.png\t. !\n"), at("captions.txt") + ": line 1: the caption of a.png is empty" + kLineHint);
  fs::remove(folder_ / "captions.txt");
  EXPECT_EQ(fault_of_json(R"({"images": [{"id": 42, "file_name": "a.png"}], "annotations": [
                {"image_id": 42, "caption": "a dog"}, {"image_id": 42, "caption": ""}]})"),
            at("captions.json") + ": caption 2 of image 42 is empty\n  next  correct the caption, or remove it");
}

TEST_F(BadCaptions, IdsWithoutFeaturesOrPicturesAreCountedAndTheFirstIsNamed) {
  put("captions.txt", "1.jpg\ta\n2.jpg\ta\n3.jpg\ta\n");
  put_features("att/1.npz", "f4.npz");
  const std::string hint =
      "\n  next  add the files, set the folder that contains them, or pass a list of the ids to use";
  EXPECT_EQ(fault(feature_set()), at("captions.txt") + ": 2 of 3 ids have no features: the first is 2, expected at " +
                                      at("att/2.npz") + hint);
  fs::create_directories(folder_ / "images");
  EXPECT_EQ(fault(set()), at("captions.txt") + ": 3 of 3 ids have no image: the first is 1, expected at " +
                              at("images/1.jpg") + hint);
}

TEST_F(BadCaptions, CaptionsWithoutSpacesGetOneWarning) {
  put("images/a.png", "");
  const auto warning_for = [&](const std::string& caption, bool training) {
    put("captions.txt", "a.png\t" + caption + "\na.png\t" + caption + "\n");
    const auto vocabulary = std::make_shared<const Vocabulary>(Vocabulary::from_text("a\nUNK\n", ""));
    ::testing::internal::CaptureStderr();
    (void)CaptionDataset::open(set(), vocabulary, training);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(warning_for("一只狗在草地上", true),
              HasSubstr("2 words have more than 4 Chinese characters or hiragana, such as '一只狗在草地上': segment"));
  EXPECT_THAT(warning_for("一只狗在草地上", false), ::testing::Not(HasSubstr("segment")));
  EXPECT_THAT(warning_for("一只 狗 在 草地 上", true), ::testing::Not(HasSubstr("segment")));
}

TEST_F(BadCaptions, FilesThatLeadOutOfTheirFolderAreRefusedUnlessTheyMay) {
  put("secret.png", "");
  put("images/inside.png", "");
  put("captions.txt", "../secret.png\ta dog\n");
  SetOptions options = set();
  EXPECT_THAT(fault(options), AllOf(HasSubstr(at("captions.txt") + " names '../secret.png', which lies outside of"),
                                    HasSubstr("data.allow_outside=true")));
  options.allow_outside = true;
  EXPECT_EQ(fault(options), "not thrown");
  options.allow_outside = false;
  put("captions.txt", "images/../inside.png\ta dog\n");
  EXPECT_EQ(fault(options), "not thrown");
  put("captions.txt", "1.jpg\ta\n");
  put("ids.txt", R"({"1": "/etc/hostname"})");
  options.ids = "ids.txt";
  EXPECT_THAT(fault(options), AllOf(HasSubstr(at("ids.txt")), HasSubstr("lies outside of")));
}

TEST_F(BadCaptions, IdsWithoutCaptionsAreCountedAndTheFirstIsNamed) {
  put("captions.txt", "1.jpg\ta\n");
  put("ids.txt", "1\n9\n8\n");
  SetOptions options = set();
  options.ids = "ids.txt";
  EXPECT_EQ(fault(options), at("ids.txt") +
                                ": 2 of 3 ids have no captions: the first is 9\n  next  remove them from "
                                "the list, or add their captions");
  put("ids.txt", "1\n1\n");
  EXPECT_EQ(fault(options), at("ids.txt") + " has the id 1 twice");
  put("ids.txt", "\n");
  EXPECT_EQ(fault(options), at("ids.txt") + " holds no ids\n  next  write one id per line");
  put("ids.txt", "{\"1\": 5}");
  EXPECT_EQ(fault(options), at("ids.txt") + ": the value of id 1 is not a path");
  put("ids.txt", "{\n\"1\": ");
  EXPECT_THAT(fault(options), HasSubstr(at("ids.txt") + ": line 2 is not JSON"));
}

TEST_F(BadCaptions, AFeatureOfAnotherWidthIsNamed) {
  put("captions.txt", "1.jpg\ta\n");
  put_features("att/1.npz", "f4.npz");
  SetOptions options = feature_set();
  options.feature_width = 2048;
  EXPECT_EQ(fault_of_sample(options), "features " + at("att/1.npz") +
                                          ": array 'feat' is 4 wide, must be 2048\n  next  feature_width sets the "
                                          "expected width");
}

TEST_F(BadCaptions, AFeatureOfAnotherWidthThanTheFirstIsNamed) {
  put("captions.txt", "1.jpg\ta\n2.jpg\ta\n");
  put_features("att/1.npz", "f4.npz");
  put_features("att/2.npz", "wide.npz");
  EXPECT_EQ(fault_of_sample(feature_set(), 0), "not thrown");
  EXPECT_EQ(
      fault_of_sample(feature_set(), 1),
      "features " + at("att/2.npz") + ": array 'feat' is 6 wide, must be 4\n  next  " + at("att/1.npz") + " has 4");
}

TEST_F(BadCaptions, TextThatIsNoUtf8IsNamedByItsLine) {
  const std::string hint = "\n  next  convert the file, for example with iconv -f latin1 -t utf8";
  EXPECT_EQ(fault_of_text("a.png\ta dog\nb.png\ta caf\xe9\n"), at("captions.txt") + ": line 2 is not UTF-8" + hint);
  fs::remove(folder_ / "captions.txt");
  EXPECT_EQ(fault_of_json("{\"images\": [],\n\n\"annotations\": [{\"caption\": \"\xff\"}]}"),
            at("captions.json") + ": line 3 is not UTF-8" + hint);
}

TEST_F(BadCaptions, AnAbsurdHeaderOfFeaturesIsNamedByFileAndField) {
  put("captions.txt", "1.jpg\ta\n");
  const std::string hint =
      "\n  next  write features with numpy.savez(file, feat=array), where array holds (rows, width) floats";
  put_features("att/1.npz", "absurd.npz");
  EXPECT_EQ(fault_of_sample(feature_set()), "features " + at("att/1.npz") +
                                                ": array 'feat': its shape (4611686018427387904, 4) has more than the "
                                                "maximum of 16777216 values" +
                                                hint);
  put("att/1.npz", "no zip");
  EXPECT_EQ(fault_of_sample(feature_set()),
            "features " + at("att/1.npz") + ": it is not a zip file, or is truncated: it has no end record" + hint);
}

TEST_F(BadCaptions, LinesThatAreNoneAreNamed) {
  EXPECT_EQ(fault_of_text("image,caption\n"), at("captions.txt") + ": line 1 has no tab" + kLineHint);
  EXPECT_EQ(fault_of_text("\ta dog\n"), at("captions.txt") + ": line 1 has no file name before the tab" + kLineHint);
  EXPECT_EQ(fault_of_text("#1\ta dog\n"), at("captions.txt") + ": line 1 has no file name before the tab" + kLineHint);
  EXPECT_EQ(fault_of_text("a.png#0\ta\na.png#0\tb\n"),
            at("captions.txt") + ": line 2 has a second caption called a.png#0");
  EXPECT_EQ(fault_of_text("x/a.png\ta\ny/a.png\tb\n"),
            at("captions.txt") +
                ": line 2: x/a.png and y/a.png have the same id a\n  next  an id is a file name "
                "without folder and extension: rename one");
  EXPECT_EQ(fault_of_text("\n"), at("captions.txt") + " holds no captions" + kLineHint);
}

TEST_F(BadCaptions, JsonThatIsNoneIsNamedByItsLine) {
  const std::string hint = "\n  next  captions must be COCO's or Karpathy's JSON";
  EXPECT_EQ(fault_of_json("{\n\"images\": [\n,]}"), at("captions.json") + ": line 3 is not JSON (byte 15)" + hint);
  EXPECT_EQ(fault_of_json("[]"), at("captions.json") + " has no list \"images\"" + hint);
  EXPECT_EQ(fault_of_json(R"({"images": []})"), at("captions.json") + " has no images with captions");
  EXPECT_THAT(fault_of_json(std::string(100'000, '[')),
              HasSubstr("line 1 (byte 65): lists and objects are nested more than 64 deep"));
}

TEST_F(BadCaptions, ANumberThatNoDoubleHoldsNamesTheFile) {
  EXPECT_THAT(fault_of_json(R"({"images": [{"id": 1e999}]})"),
              AllOf(HasSubstr(at("captions.json") + ": "), HasSubstr("a number too large for a double")));
  const std::string huge = fault_of_json("{\"images\": [{\"id\": 1" + std::string(100'000, '0') + ".5}]}");
  EXPECT_THAT(huge, HasSubstr(at("captions.json") + ": "));
  EXPECT_LT(huge.size(), 400U);
  put("ids.json", "{\"a\":\n1e999}");
  EXPECT_EQ(fault_of<DataError>([&] { (void)read_ids(at("ids.json")); }),
            at("ids.json") +
                ": line 2 is not JSON (byte 11)\n  next  ids must be one per line, or a JSON object from ids to paths");
}

TEST_F(BadCaptions, AListOfIdsHasEachOnceAndNothingButPaths) {
  const auto fault_of_ids = [&](const std::string& text) {
    put("ids.json", text);
    return fault_of<DataError>([&] { (void)read_ids(at("ids.json")); });
  };
  EXPECT_EQ(fault_of_ids(R"({"a": "x", "b": "y", "a": "z"})"), at("ids.json") + " has the id a twice");
  for (const char* value : {"[]", "[\"x\"]", "{}", "{\"b\": \"x\"}", "null", "true", "-1", "1", "1.5"}) {
    EXPECT_EQ(fault_of_ids(fmt::format(R"({{"z": "x", "a": {}}})", value)),
              at("ids.json") + ": the value of id a is not a path");
  }
  EXPECT_EQ(fault_of_ids("{}"), at("ids.json") + " holds no ids\n  next  write one id per line");
  EXPECT_THAT(fault_of_ids("{\"a\": \"x\"}\n{"), HasSubstr("line 2 is not JSON (byte 12)"));
}

TEST_F(BadCaptions, ANameThatNoFileCanHaveIsAFileThatIsNotThere) {
  const std::string name(300, 'x');
  const std::string text = fault_of_text(name + "\ta dog\n");
  EXPECT_THAT(text, HasSubstr(at("captions.txt") + ": 1 of 1 ids have no image: the first is " + name.substr(0, 40) +
                              "..., expected at "));
  EXPECT_LT(text.size(), 800U);
  SetOptions options = set();
  options.images = name;
  EXPECT_THAT(fault(options), HasSubstr("1 of 1 ids have no image"));
  options = feature_set();
  EXPECT_THAT(fault(options), HasSubstr("1 of 1 ids have no features"));
  EXPECT_THAT(fault({.path = at(name)}), HasSubstr("is missing"));
}

/// Root may read everything, so as root, the test switches to user 65534.
TEST_F(BadCaptions, AFolderThatMayNotBeEnteredIsAnIoError) {
  put("shut/captions.txt", "a.png\ta dog\n");
  fs::permissions(folder_ / "shut", fs::perms::none);
  const bool root = geteuid() == 0;
  if (root) {
    fs::permissions(folder_.path(), fs::perms::all);
    ASSERT_EQ(seteuid(65534), 0);
  }
  const std::string refused = fault_of<IoError>([&] { (void)read_captions({.path = at("shut")}); });
  if (root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  fs::permissions(folder_ / "shut", fs::perms::owner_all);
  EXPECT_THAT(refused, HasSubstr("cannot search for " + at("shut/captions.txt") + ": Permission denied"));
}

TEST_F(BadCaptions, AMessageIsNoLongerForAFileOfLongNames) {
  const std::string name(100'000, 'x');
  EXPECT_EQ(fault_of_text(name + "\t\n"),
            at("captions.txt") + ": line 1: the caption of " + name.substr(0, 40) + "... is empty" + kLineHint);
  EXPECT_THAT(fault_of_text("a\x1b[2J#1\ta\na\x1b[2J#1\tb\n"), HasSubstr("a second caption called a?[2J#1"));
  EXPECT_LT(fault_of_text("a/" + name + "\ta\nb/" + name + "\tb\n").size(), 500U);
  fs::remove(folder_ / "captions.txt");
  EXPECT_LT(fault_of_json("{\"images\": [{\"id\": \"" + name + "\"}]}").size(), 400U);
}

TEST_F(BadCaptions, EntriesOfJsonThatLackSomethingAreNamed) {
  const std::string file = at("captions.json");
  EXPECT_EQ(fault_of_json(R"({"images": [{"id": 1, "file_name": "a"}, {"id": 1, "file_name": "b"}]})"),
            file + ": two images have the id 1");
  EXPECT_EQ(fault_of_json(R"({"images": [{"file_name": "a"}]})"), file + ": image 1 in the list has no id");
  EXPECT_EQ(fault_of_json(R"({"images": [7]})"), file + ": image 1 in the list is not an object");
  EXPECT_EQ(fault_of_json(R"({"images": [{"id": 1}]})"), file + ": image 1 has no \"file_name\"");
  const std::string image = R"({"images": [{"id": 1, "file_name": "a"}], "annotations": )";
  EXPECT_EQ(fault_of_json(image + R"([{"image_id": 2, "caption": "a"}]})"),
            file + ": annotation 1 is for image 2, which is not in the list");
  EXPECT_EQ(fault_of_json(image + R"([{"caption": "a"}]})"), file + ": annotation 1 has no \"image_id\"");
  EXPECT_EQ(fault_of_json(image + R"([{"image_id": 1, "bbox": [1, 2, 3, 4]}]})"),
            file +
                ": caption 1 of image 1 has no \"caption\"\n  next  object and keypoint files have no captions: "
                "use captions_*.json");
  EXPECT_EQ(fault_of_json(image + "5}"), file + ": \"annotations\" is not a list");
}

TEST_F(BadCaptions, IdsThatAreNoneAreNamedAndNotPassedOver) {
  const std::string file = at("captions.json");
  EXPECT_EQ(fault_of_json(R"({"images": [{"cocoid": 1.5, "id": 7, "file_name": "a"}]})"),
            file + ": \"cocoid\" of image 1 in the list is 1.5, must be a whole number or a string");
  EXPECT_EQ(fault_of_json(R"({"images": [{"id": true, "file_name": "a"}]})"),
            file + ": \"id\" of image 1 in the list is true, must be a whole number or a string");
  EXPECT_EQ(fault_of_json(R"({"images": [{"id": 1, "file_name": "a", "split": 3}]})"),
            file + ": \"split\" of image 1 in the list is 3, must be a string");
  EXPECT_EQ(fault_of_json(R"({"images": [{"id": 1.0, "file_name": "a"}], "annotations": [{"image_id": [1]}]})"),
            file + ": \"image_id\" of annotation 1 is [1], must be a whole number or a string");
  const CaptionTable table = parse_caption_json(
      R"({"images": [{"id": 1, "file_name": "a"}], "annotations": [{"image_id": 1.0, "caption": "a dog"}]})", file, "");
  EXPECT_EQ(table.images.at(0).captions.at(0), "a dog");
}

TEST_F(BadCaptions, LinesOfNlvrThatLackSomethingAreNamed) {
  const std::string good = R"({"sentence": "A", "label": "true", "identifier": "1-0"})";
  const auto fault_of_second = [&](const std::string& line) {
    put("dev.json", good + "\n" + line + "\n");
    return fault(set());
  };
  EXPECT_EQ(fault_of_second("{"),
            at("dev.json") + ": line 2 is not a JSON object\n  next  NLVR's files have one per line");
  EXPECT_EQ(fault_of_second(R"({"label": "true", "identifier": "1-0"})"),
            at("dev.json") + ": line 2 has no string \"sentence\"\n  next  NLVR's files have one object per line");
  EXPECT_EQ(fault_of_second(R"({"sentence": "A", "label": "yes", "identifier": "1-0"})"),
            at("dev.json") + ": line 2 has the label 'yes', must be true or false");
  EXPECT_EQ(fault_of_second(R"({"sentence": "A", "label": "true", "identifier": "x"})"),
            at("dev.json") + ": line 2 has the identifier 'x', must be NUMBER-NUMBER");
  EXPECT_EQ(fault_of_second(R"({"sentence": "", "label": "true", "identifier": "2-1"})"),
            at("dev.json") + ": line 2 has an empty sentence about 2-1");
  EXPECT_THAT(fault_of_second(""), HasSubstr("1 of 1 ids have no image: the first is 1-0"));
}

TEST_F(BadCaptions, ASetThatIsNotThereOrIsNoneIsNamed) {
  EXPECT_EQ(fault({.path = at("nowhere")}),
            at("nowhere") + " is missing\n  next  pass a caption file, or a folder with captions.txt or captions.json");
  EXPECT_EQ(fault(set()), folder_.path().string() +
                              " has neither captions.txt nor captions.json, nor an NLVR file\n  next  name the file");
  const std::string nlvr = R"({"sentence": "A", "label": "true", "identifier": "1-0"})";
  put("dev.json", nlvr);
  put("test.json", nlvr);
  EXPECT_EQ(fault(set()), folder_.path().string() + " has 2 NLVR files\n  next  name the file");
}

TEST_F(BadCaptions, ATornPictureIsNamed) {
  generate_captioned_scenes({.out = folder_ / "set", .count = 1, .size = 32});
  const std::string file = at("set/images/000000.png");
  const std::string bytes = FileSystem::system().read(file);
  std::ofstream(file, std::ios::binary) << bytes.substr(0, bytes.size() / 2);
  EXPECT_THAT(fault_of_sample({.path = at("set"), .height = 32, .width = 32}), HasSubstr(file));
}

TEST_F(BadCaptions, OptionsOutOfRangeAreRefused) {
  const auto usage = [](const SetOptions& options) {
    return fault_of<UsageError>([&] { (void)read_captions(options); });
  };
  EXPECT_EQ(usage({.path = ""}),
            "the path of the caption set is empty\n  next  pass a folder, a file, or scenes:COUNT");
  EXPECT_EQ(usage({.path = "scenes:2", .max_words = 0}), "max_words is 0, must be 1 .. 1000");
  EXPECT_EQ(usage({.path = "scenes:2", .captions_per_image = 0}), "captions_per_image is 0, must be 1 .. 1000");
  EXPECT_EQ(usage({.path = "scenes:2", .max_features = 0}), "max_features is 0, must be at least 1, or -1 for all");
  EXPECT_EQ(usage({.path = "scenes:2", .width = 99999}), "width is 99999, must be 1 .. 8192");
  EXPECT_EQ(usage({.path = "scenes:2", .height = 8193}), "height is 8193, must be 1 .. 8192");
  EXPECT_EQ(usage({.path = "scenes:2", .max_words = 1001}), "max_words is 1001, must be 1 .. 1000");
  EXPECT_EQ(usage({.path = "scenes:2", .height = 31}), "data.height is 31 pixels, must be 32 .. 4096 for scenes");
  EXPECT_EQ(usage({.path = "scenes:2", .width = 4097}), "data.width is 4097 pixels, must be 32 .. 4096 for scenes");
  EXPECT_EQ(usage({.path = "scenes:2", .height = 32, .width = 4096}), "not thrown");
  put("captions.txt", "a.png\ta\n");
  SetOptions options = set();
  options.split = "train";
  EXPECT_THAT(usage(options), HasSubstr("captions.txt has no split 'train'"));
}

TEST_F(BadCaptions, WhoseCaptionsAreNoneAreRefusedBeforeTheirWordsAreCounted) {
  const std::string novel(100'000, 'a');
  EXPECT_THAT(fault_of_text("a.jpg\t" + novel + "\n"),
              HasSubstr("has a caption of 100.0 kB; captions must be at most"));
  fs::remove(at("captions.txt"));
  put("captions.json", R"({"images": [{"id": 1, "file_name": "a.jpg"}], "annotations": [{"image_id": 1, "caption": ")" +
                           novel + "\"}]}");
  EXPECT_THAT(fault(set()), HasSubstr("caption 1 of image 1 has a caption of 100.0 kB"));
  put("captions.json", R"({"images": )" + std::string(200'000, '[') + std::string(200'000, ']') + "}");
  EXPECT_THAT(fault(set()), HasSubstr("nested more than 64 deep"));
}

}  // namespace captioning_bad_data_test
}  // namespace lockstep::captioning
