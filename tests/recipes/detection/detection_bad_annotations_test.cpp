// SPDX-License-Identifier: Apache-2.0
// Faults in users' annotations: each is an error or a counted note that names the file and entry.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "detection/data/dataset.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/data/contact_sheet.h"
#include "lockstep/data/loader.h"
#include "support/fault_of.h"
#include "support/temp_dir.h"

namespace lockstep::detection {
namespace detection_bad_annotations_test {

using test::fault_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

namespace fs = std::filesystem;

constexpr const char* kImages = R"({"id": 1, "file_name": "a.png", "width": 64, "height": 48},
                                   {"id": 2, "file_name": "b.png", "width": 64, "height": 48})";
constexpr const char* kGood = R"({"id": 1, "image_id": 1, "category_id": 3, "bbox": [1, 2, 10, 12], "area": 99})";

void put(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

/// Two images of 64 x 48 pixels, and classes with the ids 3 and 7.
class BadCoco : public ::testing::Test {
 protected:
  BadCoco() {
    const Image gray{{64, 48}, 3, std::vector<std::uint8_t>(64 * 48 * 3, 128)};
    for (const char* name : {"a.png", "b.png"}) write_png(gray, folder_ / name);
  }

  void write(const std::string& annotations, const std::string& images = kImages) const {
    put(file(), fmt::format(R"({{"images": [{}], "annotations": [{}],
                "categories": [{{"id": 3, "name": "cat"}}, {{"id": 7, "name": "dog"}}]}})",
                            images, annotations));
  }
  /// Writes the good annotation and one with these additional fields.
  void write_one(const std::string& rest, const std::string& head = R"("id": 2, "image_id": 2, )") const {
    write(fmt::format("{}, {{{}{}}}", kGood, head, rest));
  }

  [[nodiscard]] fs::path file() const { return folder_ / "annotations.json"; }
  [[nodiscard]] DatasetOptions options(bool strict = true, std::int64_t classes = 0) const {
    return {.source = {.path = folder_.path().string(), .strict = strict}, .classes = classes, .side = 32};
  }
  [[nodiscard]] std::string fault(std::int64_t classes = 0) const {
    const std::string training = fault_of<DataError>([&] { (void)open_training_set(options(true, classes), {}); });
    const std::string test = fault_of<DataError>([&] { (void)open_test_set(options(true, classes)); });
    EXPECT_EQ(training, test);
    return training;
  }

  struct Opened {
    DetectionSet set;
    std::string note;
  };
  [[nodiscard]] Opened training(bool strict) const {
    ::testing::internal::CaptureStderr();
    try {
      DetectionSet set = open_training_set(options(strict), {.base_size = 32});
      return {std::move(set), ::testing::internal::GetCapturedStderr()};
    } catch (...) {
      (void)::testing::internal::GetCapturedStderr();
      throw;
    }
  }
  [[nodiscard]] static std::size_t objects(const Opened& opened, std::int64_t index) {
    return opened.set.source->get(index).objects.size();
  }

  test::TempDir folder_;
};

TEST_F(BadCoco, GoodOnesSayNothing) {
  write_one(R"("category_id": 7, "bbox": [0, 0, 64, 48])");
  const Opened opened = training(true);
  EXPECT_THAT(opened.note, IsEmpty());
  EXPECT_EQ(objects(opened, 0) + objects(opened, 1), 2U);
}

TEST_F(BadCoco, ABoxOutsideIsLeftOutAndOneAcrossTheBorderIsCut) {
  write(R"({"image_id": 1, "category_id": 3, "bbox": [70, 5, 9, 9]},
           {"image_id": 1, "category_id": 3, "bbox": [-20, 5, 9, 9]},
           {"image_id": 1, "category_id": 7, "bbox": [60, -4, 10, 10]})");
  const Opened opened = training(true);
  EXPECT_THAT(opened.note,
              AllOf(HasSubstr(folder_.path().string() + ": 2 boxes without area"),
                    HasSubstr("object 0 of " + (folder_ / "a.png").string()), HasSubstr("from (70, 5) to (79, 14)")));
  EXPECT_EQ(opened.set.dropped, 2);
  const std::vector<Object> left = opened.set.source->get(0).objects;
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].box, (Box{60, 0, 64, 6}));
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(open_test_set(options()).source->get(0).objects.size(), 3U);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("2 boxes have no area in the image"));
}

TEST_F(BadCoco, ABoxOutsideOfAPictureWhoseSizeIsNotStatedIsLeftOut) {
  write(R"({"image_id": 1, "category_id": 3, "bbox": [70, 5, 9, 9]})", R"({"id": 1, "file_name": "a.png"})");
  EXPECT_EQ(objects(training(true), 0), 0U);
}

TEST_F(BadCoco, ABoxWithoutAreaIsLeftOutAndNamed) {
  write_one(R"("category_id": 7, "bbox": [5, 6, 0, 9])");
  const Opened opened = training(true);
  EXPECT_THAT(opened.note, AllOf(HasSubstr("1 box without area"), HasSubstr("object 0 of"), HasSubstr("b.png")));
  EXPECT_EQ(objects(opened, 1), 0U);
}

TEST_F(BadCoco, WrongBoxesAndAreasNameTheAnnotation) {
  for (const auto& [box, words] : std::vector<std::pair<std::string, std::string>>{
           {R"("bbox": [5, 6, -3, 9])", "a box of -3 x 9 pixels"},
           {R"("bbox": [5, 6, 3])", "no \"bbox\" of 4 numbers"},
           {R"("bbox": [5, 6, "3", 9])", "no \"bbox\" of 4 numbers"},
           {R"("bbox": null)", "no \"bbox\" of 4 numbers"},
           {R"("bbox": [5, 6, 3, 1e300])", "1e+300"},
           {R"("bbox": [-1e9, 6, 3, 4])", "-1000000000"},
           {R"("bbox": [5, 6, 3, 4], "area": -2)", "an area of -2"},
           {R"("bbox": [5, 6, 3, 4], "area": 1e200)", "an area of 1e+200"}}) {
    write_one(R"("category_id": 7, )" + box);
    EXPECT_THAT(fault(), AllOf(HasSubstr(file().string()), HasSubstr("annotations[1]: "), HasSubstr(words))) << box;
    const Opened opened = training(false);
    EXPECT_THAT(opened.note, AllOf(HasSubstr(file().string()), HasSubstr("1 bad annotation skipped"),
                                   HasSubstr("annotations[1]: "), HasSubstr(words)));
    EXPECT_EQ(objects(opened, 0), 1U);
    EXPECT_EQ(objects(opened, 1), 0U);
  }
}

TEST_F(BadCoco, NotANumberIsNoJson) {
  for (const char* value : {"NaN", "Infinity", "1e999"}) {
    write_one(fmt::format(R"("category_id": 7, "bbox": [{}, 6, 3, 4])", value));
    EXPECT_THAT(fault(), HasSubstr(file().string())) << value;
  }
}

TEST_F(BadCoco, AnUnknownClassOrPictureNamesTheAnnotation) {
  write_one(R"("category_id": 4, "bbox": [1, 1, 2, 2])");
  EXPECT_THAT(fault(), AllOf(HasSubstr(file().string()), HasSubstr("annotations[1]: no category has the id 4")));
  EXPECT_THAT(training(false).note, HasSubstr("annotations[1]: no category has the id 4"));
  write_one(R"("bbox": [1, 1, 2, 2])");
  EXPECT_THAT(fault(), HasSubstr("annotations[1]: no \"category_id\""));
  write_one(R"("category_id": 7, "bbox": [1, 1, 2, 2])", R"("id": 2, "image_id": 9, )");
  EXPECT_THAT(fault(), HasSubstr("annotations[1]: no image has the id 9"));
  EXPECT_THAT(training(false).note, HasSubstr("annotations[1]: no image has the id 9"));
}

TEST_F(BadCoco, AClassBeyondTheNetworksNamesTheObject) {
  write_one(R"("category_id": 7, "bbox": [1, 1, 2, 2])");
  EXPECT_THAT(fault(1), AllOf(HasSubstr("object 0 of " + (folder_ / "b.png").string()), HasSubstr("class 1"),
                              HasSubstr("there are 1 classes")));
  EXPECT_EQ(fault(2), "not thrown");
}

TEST_F(BadCoco, IdsThatStandTwiceAreNamed) {
  write(kGood, std::string(kImages) + R"(, {"id": 1, "file_name": "b.png"})");
  EXPECT_THAT(fault(), AllOf(HasSubstr(file().string()), HasSubstr("images[2]: image id 1 occurs twice")));
  write_one(R"("category_id": 7, "bbox": [1, 1, 2, 2])", R"("id": 1, "image_id": 2, )");
  EXPECT_THAT(fault(), AllOf(HasSubstr(file().string()), HasSubstr("annotations[1]: annotation id 1 occurs twice")));
  const Opened opened = training(false);
  EXPECT_THAT(opened.note, HasSubstr("annotations[1]: annotation id 1 occurs twice"));
  EXPECT_EQ(objects(opened, 0), 1U) << "the first one stays";
  EXPECT_EQ(objects(opened, 1), 0U);
}

TEST_F(BadCoco, AMissingPictureIsNamed) {
  write(kGood);
  fs::remove(folder_ / "b.png");
  EXPECT_THAT(fault(), AllOf(HasSubstr(file().string()), HasSubstr((folder_ / "b.png").string())));
  const Opened opened = training(false);
  EXPECT_THAT(opened.note, AllOf(HasSubstr("1 missing image and"), HasSubstr((folder_ / "b.png").string())));
  EXPECT_EQ(opened.set.dataset->size(), 1);
}

TEST_F(BadCoco, ATornPictureIsNamedByTheLoader) {
  write(kGood);
  const std::string bytes = FileSystem::system().read(folder_ / "b.png");
  for (const std::string& torn : {bytes.substr(0, bytes.size() / 2), std::string(), std::string("no picture at all")}) {
    put(folder_ / "b.png", torn);
    for (const bool for_training : {true, false}) {
      const AugmentOptions augment{.base_size = 32};
      const DetectionSet set = for_training ? open_training_set(options(), augment) : open_test_set(options());
      DataLoader loader(set.dataset, {.batch_size = 2, .collate = collate_of(augment)});
      EXPECT_THAT(fault_of<DataError>([&] { (void)loader.epoch(0).next(); }), HasSubstr((folder_ / "b.png").string()));
      DataLoader patient(set.dataset,
                         {.batch_size = 2, .bad_samples = BadSamples::kSkip, .collate = collate_of(augment)});
      auto epoch = patient.epoch(0);
      EXPECT_EQ(epoch.next()->data.size(0), 1) << "the good one is used";
      ASSERT_EQ(patient.bad_samples().size(), 1U);
      EXPECT_THAT(patient.bad_samples()[0].what, HasSubstr("b.png"));
    }
  }
}

TEST_F(BadCoco, APictureOfAnotherSizeThanStatedIsNamed) {
  write(kGood, R"({"id": 1, "file_name": "a.png", "width": 48, "height": 64})");
  for (const DetectionSet& set : {open_training_set(options(), {}), open_test_set(options())}) {
    SampleContext context(0, 0, 0);
    EXPECT_THAT(fault_of<DataError>([&] { (void)set.dataset->get(0, context); }),
                AllOf(HasSubstr((folder_ / "a.png").string()), HasSubstr("64 x 48"), HasSubstr("48 x 64")));
  }
}

TEST_F(BadCoco, AFileThatIsNoCocoIsNamed) {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"", "byte"},
      {"no JSON", "byte"},
      {R"({"images": [)", "byte"},
      {"{}", "no list \"images\""},
      {R"({"images": {}})", ""},
      {R"({"images": 5})", ""},
      {R"({"images": []})", "no list \"images\""},
      {R"({"images": [5]})", "images[0]: not an object"},
      {R"({"images": [{"id": "1", "file_name": "a.png"}]})", "images[0]: an image needs \"id\""},
      {R"({"images": [{"id": 1, "file_name": "a.png", "width": -4, "height": 2}]})", "images[0]: -4 x 2 pixels"},
      {R"({"images": [{"id": 1, "file_name": "a.png"}], "annotations": [7]})", "annotations[0]: not an object"},
      {R"({"images": [{"id": 1, "file_name": "a.png"}], "categories": [{"id": 1}]})", "categories[0]"},
      {"\"text\"", ""},
      {"5", ""},
      {"[1, 2]", ""}};
  for (const auto& [text, words] : wrong) {
    put(file(), text);
    EXPECT_THAT(fault(), AllOf(HasSubstr(file().string()), HasSubstr(words))) << text;
  }
  fs::remove(file());
  fs::remove(folder_ / "a.png");
  fs::remove(folder_ / "b.png");
  EXPECT_THAT(fault(), HasSubstr(folder_.path().string()));
}

TEST_F(BadCoco, ATrainingSetWithoutBoxesIsAnErrorAndATestSetANote) {
  put(file(), R"({"images": [{"id": 1, "file_name": "a.png"}]})");
  for (const std::int64_t classes : {0, 3}) {
    EXPECT_THAT(fault_of<DataError>([&] { (void)open_training_set(options(true, classes), {}); }),
                HasSubstr(folder_.path().string() + " has no boxes"));
  }
  EXPECT_THAT(fault_of<UsageError>([&] { (void)open_test_set(options()); }), HasSubstr("names no classes"));
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(open_test_set(options(true, 3)).dataset->size(), 1);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("has no box to find"));
}

std::string voc(const std::string& objects) {
  return "<annotation><size><width>64</width><height>48</height></size>" + objects + "</annotation>";
}
std::string voc_box(const std::string& name, const std::array<int, 4>& box) {
  return fmt::format(
      "<object><name>{}</name><bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax><ymax>{}</ymax></bndbox></object>",
      name, box[0], box[1], box[2], box[3]);
}

class BadVoc : public ::testing::Test {
 protected:
  BadVoc() {
    const Image gray{{64, 48}, 3, std::vector<std::uint8_t>(64 * 48 * 3, 128)};
    fs::create_directories(root_ / "JPEGImages");
    for (const char* name : {"a.png", "b.png"}) write_png(gray, root_.path() / "JPEGImages" / name);
    put(root_ / "ImageSets/Main/trainval.txt", "a\nb\n");
    put(xml("a"), voc(voc_box("cat", {1, 1, 9, 9})));
  }

  [[nodiscard]] fs::path xml(const std::string& name) const { return root_ / ("Annotations/" + name + ".xml"); }
  [[nodiscard]] DetectionSet open(bool strict = true) const {
    return open_training_set({.source = {.path = root_.path().string(), .strict = strict}}, {});
  }
  [[nodiscard]] std::string fault() const {
    return fault_of<DataError>([&] { (void)open(); });
  }
  [[nodiscard]] std::string note(bool strict) const {
    ::testing::internal::CaptureStderr();
    (void)open(strict);
    return ::testing::internal::GetCapturedStderr();
  }

  test::TempDir root_;
};

TEST_F(BadVoc, XmlThatIsNoneNamesFileAndPlace) {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"", "byte"},
      {"no XML", ""},
      {"<annotation><object></annotation>", "byte"},
      {"<other/>", "no <annotation>"},
      {voc("<object><name>cat</name></object>"), "object 0 has no bndbox"},
      {voc(voc_box("cat", {1, 1, 9, 9}) + voc_box("cat", {9, 1, 3, 9})), "object 1 has a box from (9, 1) to (3, 9)"},
      {voc(voc_box("", {1, 1, 9, 9})), "object 0 has no name"},
      {voc("<object><name>cat</name><bndbox><xmin>nan</xmin><ymin>1</ymin><xmax>2</xmax><ymax>3</ymax></bndbox></"
           "object>"),
       "object 0 has no bndbox of four numbers"}};
  for (const auto& [text, words] : wrong) {
    put(xml("b"), text);
    EXPECT_THAT(fault(), AllOf(HasSubstr(xml("b").string()), HasSubstr(words))) << text;
    EXPECT_THAT(note(false), AllOf(HasSubstr("1 of 2 images skipped"), HasSubstr(xml("b").string())));
  }
}

TEST_F(BadVoc, BoxesOutsideOrWithoutAreaAreCountedAndNamed) {
  put(xml("b"), voc(voc_box("cat", {70, 5, 80, 15}) + voc_box("cat", {5, 5, 5, 9}) + voc_box("dog", {60, 40, 70, 60})));
  EXPECT_THAT(note(true), AllOf(HasSubstr("2 boxes without area"), HasSubstr("object 0 of"), HasSubstr("b.png")));
  EXPECT_EQ(open().source->get(1).objects.size(), 1U);
  EXPECT_EQ(open().source->get(1).objects[0].box, (Box{59, 39, 64, 48}));
}

TEST_F(BadVoc, AMissingPictureOrFileIsNamed) {
  EXPECT_THAT(fault(), HasSubstr(xml("b").string())) << "no XML";
  put(xml("b"), voc(""));
  fs::remove(root_ / "JPEGImages/b.png");
  EXPECT_THAT(fault(), HasSubstr("JPEGImages/b"));
  EXPECT_THAT(note(false), AllOf(HasSubstr("1 of 2 images skipped"), HasSubstr("JPEGImages/b")));
  fs::remove(root_ / "ImageSets/Main/trainval.txt");
  EXPECT_THAT(fault(), HasSubstr("trainval.txt"));
}

}  // namespace detection_bad_annotations_test
}  // namespace lockstep::detection
