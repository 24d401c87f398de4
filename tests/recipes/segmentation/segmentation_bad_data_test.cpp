// SPDX-License-Identifier: Apache-2.0
// Faulty datasets: an error, or a single note with a count, that names the file.
#include <fmt/format.h>
#include <spng.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "common/set_files.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "segmentation/data/dataset.h"
#include "segmentation/data/label_file.h"
#include "segmentation/data/masked_pictures.h"
#include "support/fault_of.h"
#include "support/temp_dir.h"

namespace lockstep::segmentation {
namespace segmentation_bad_data_test {

namespace fs = std::filesystem;
using test::fault_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr ImageSize kSize{20, 12};

Image gray_map(std::uint8_t value, ImageSize size = kSize) {
  return {size, 1, std::vector<std::uint8_t>(static_cast<std::size_t>(size.width * size.height), value)};
}

/// A PNG of a kind that write_set_picture() does not write, from the bytes of its rows.
void write_kind(const fs::path& file, spng_color_type color, int depth, const std::vector<std::uint8_t>& rows) {
  const std::unique_ptr<spng_ctx, void (*)(spng_ctx*)> context(spng_ctx_new(SPNG_CTX_ENCODER), spng_ctx_free);
  spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1);
  spng_ihdr header{};
  header.width = kSize.width;
  header.height = kSize.height;
  header.bit_depth = static_cast<std::uint8_t>(depth);
  header.color_type = static_cast<std::uint8_t>(color);
  spng_set_ihdr(context.get(), &header);
  spng_plte palette{};
  palette.n_entries = 1U << std::min(depth, 8);
  for (std::uint32_t i = 0; i < palette.n_entries; ++i)
    palette.entries[i] = {static_cast<std::uint8_t>(255 - i), 7, 9, 255};
  if (color == SPNG_COLOR_TYPE_INDEXED) spng_set_plte(context.get(), &palette);
  ASSERT_EQ(spng_encode_image(context.get(), rows.data(), rows.size(), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE), 0);
  std::size_t size = 0;
  int fault = 0;
  const std::unique_ptr<void, void (*)(void*)> bytes(spng_get_png_buffer(context.get(), &size, &fault), std::free);
  ASSERT_EQ(fault, 0);
  FileSystem::system().create(file)->append(bytes.get(), size);
}

/// Four good images, a .. d, with masks, in plain folders.
class BadSets : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* folder : {"images", "masks"}) FileSystem::system().make_folder(folder_ / folder);
    for (const std::string name : {"a", "b", "c", "d"}) {
      common::write_set_picture({kSize, 3, std::vector<std::uint8_t>(3 * 240, 90)}, picture(name));
      common::write_set_picture(good_mask(), mask(name));
    }
  }
  /// A mask with at least one pixel of each class.
  [[nodiscard]] static Image good_mask() {
    Image map = gray_map(1);
    map.pixels.front() = 0;
    map.pixels.back() = 2;
    return map;
  }
  void write_masks(const Image& map) const {
    for (const std::string name : {"a", "b", "c", "d"}) common::write_set_picture(map, mask(name));
  }
  [[nodiscard]] fs::path picture(const std::string& name) const { return folder_ / "images" / (name + ".png"); }
  [[nodiscard]] fs::path mask(const std::string& name) const { return folder_ / "masks" / (name + ".png"); }
  [[nodiscard]] SetOptions options() const { return {.path = folder_.path().string(), .classes = 3}; }
  [[nodiscard]] std::string fault() const {
    return fault_of<DataError>([&] { (void)open_training_set(options(), {.crop = 8}); });
  }
  /// The notes on a dataset that is opened despite its faults.
  [[nodiscard]] std::string notes(bool strict = true) const {
    SetOptions wanted = options();
    wanted.strict = strict;
    const SegmentationSet set = open_training_set(wanted, {.crop = 8});
    return fmt::format("{} pictures: {}", set.source->size(), set.notes.empty() ? "no note" : set.notes.front());
  }

  test::TempDir folder_;
};

TEST_F(BadSets, WithoutFaultHaveNoNote) { EXPECT_EQ(notes(), "4 pictures: no note"); }

TEST_F(BadSets, MissingMasksAreAllCountedAndTheFirstIsNamed) {
  fs::remove(mask("b"));
  fs::remove(mask("d"));
  EXPECT_THAT(fault(),
              AllOf(HasSubstr("2 of 4 images are incomplete: missing 2 files"), HasSubstr(mask("b").string())));
  EXPECT_THAT(notes(false), AllOf(HasSubstr("2 pictures: "), HasSubstr("skipped"), HasSubstr(mask("b").string())));
}

TEST_F(BadSets, AMaskWithoutAnImageCountsAsIncomplete) {
  fs::rename(picture("b"), folder_ / "images/b.webp");
  fs::remove(picture("d"));
  EXPECT_THAT(fault(), AllOf(HasSubstr("2 of 4 images are incomplete: missing 2 files, the first: images of "),
                             HasSubstr("images/b.webp as a PNG or JPEG file")));
  EXPECT_THAT(notes(false), AllOf(HasSubstr("2 pictures: "), HasSubstr("skipped")));
  SetOptions shared = options();
  shared.masks = "masks";
  EXPECT_EQ(open_training_set(shared, {.crop = 8}).source->size(), 2) << "given masks may belong to several sets";
}

TEST_F(BadSets, MissingMapsOfAPlaneAreNamedWithTheirPlane) {
  FileSystem::system().make_folder(folder_ / "pseudo_labels");
  SetOptions wanted = options();
  wanted.planes = {.pseudo_labels = true};
  EXPECT_THAT(fault_of<DataError>([&] { (void)open_training_set(wanted, {.crop = 8}); }),
              AllOf(HasSubstr("4 of 4 images are incomplete: missing 4 files"), HasSubstr("pseudo-labels of"),
                    HasSubstr("pseudo_labels/a.png")));
  wanted.strict = false;
  EXPECT_THAT(fault_of<DataError>([&] { (void)open_training_set(wanted, {.crop = 8}); }),
              HasSubstr("no image of the set is complete"));
}

TEST_F(BadSets, AMaskOfAnotherSizeNamesBothFilesAndSizes) {
  common::write_set_picture(gray_map(1, {21, 12}), mask("c"));
  EXPECT_THAT(fault(),
              AllOf(HasSubstr(mask("c").string() + " is 21 x 12"), HasSubstr(picture("c").string() + " is 20 x 12")));
}

TEST_F(BadSets, AnUnknownClassNamesFileValueAndPixel) {
  Image bad = gray_map(2);
  bad.pixels[3 * 20 + 7] = 9;
  common::write_set_picture(bad, mask("b"));
  EXPECT_THAT(fault(),
              AllOf(HasSubstr(mask("b").string()), HasSubstr("class 9 at pixel (7, 3)"), HasSubstr("3 classes")));
}

TEST_F(BadSets, AnUnlabelledPixelIsNoClass) {
  Image some = gray_map(2);
  some.pixels[5] = kUnlabelled;
  common::write_set_picture(some, mask("b"));
  EXPECT_EQ(notes(), "4 pictures: no note");
}

TEST_F(BadSets, AMaskOf16BitsIsRefusedWithWhatToDo) {
  write_kind(mask("a"), SPNG_COLOR_TYPE_GRAYSCALE, 16, std::vector<std::uint8_t>(2 * 240, 0));
  EXPECT_THAT(fault(), AllOf(HasSubstr(mask("a").string()), HasSubstr("16 bits"), HasSubstr("instances")));
}

TEST_F(BadSets, AMapOfInstancesMayHave16Bits) {
  std::vector<std::uint8_t> rows(2 * 240, 0);
  rows[2 * 30] = 1;  // 256, whose lower byte is 0
  fs::rename(folder_ / "masks", folder_ / "instances");
  for (const std::string name : {"a", "b", "c", "d"}) {
    write_kind(folder_ / "instances" / (name + ".png"), SPNG_COLOR_TYPE_GRAYSCALE, 16, rows);
  }
  const SegmentationSet set = open_test_set(options());
  EXPECT_EQ(set.source->get(0).maps.front().image.pixels[30], 1);
  EXPECT_EQ(set.source->get(0).maps.front().image.pixels[31], 0);
}

TEST_F(BadSets, APictureOf16BitsIsUsedAndNoted) {
  std::vector<std::uint8_t> rows(6 * 240);
  for (std::size_t i = 0; i < rows.size(); i += 2) rows[i] = 200;  // the upper byte comes first
  for (const std::string name : {"b", "c"}) write_kind(picture(name), SPNG_COLOR_TYPE_TRUECOLOR, 16, rows);
  EXPECT_THAT(notes(), AllOf(HasSubstr("2 of the 4 images"), HasSubstr("16 bits"), HasSubstr(picture("b").string())));
}

TEST_F(BadSets, AMapWithoutAnyLabelIsNoted) {
  common::write_set_picture(gray_map(kUnlabelled), mask("c"));
  EXPECT_THAT(notes(), AllOf(HasSubstr("1 map without any labelled pixel among the 4"), HasSubstr(mask("c").string())));
}

/// Masks from drawing programs: 255 means no class, so such a dataset would have nothing to train on.
TEST_F(BadSets, MasksOf0And255AreNoTwoClassesUnlessSaidSo) {
  Image map = gray_map(0);
  for (std::size_t i = 0; i < 50; ++i) map.pixels[i] = 255;
  write_masks(map);
  SetOptions two = options();
  two.classes = 2;
  const auto open_two = [&] { (void)open_training_set(two, {.crop = 8}); };
  EXPECT_THAT(fault_of<DataError>(open_two),
              AllOf(HasSubstr("the labels of all 4 images contain only the values 0, 255"),
                    HasSubstr("255 means that a pixel has no class")));
  two.mask_values[255] = 1;
  const SegmentationSet set = open_training_set(two, {.crop = 8});
  EXPECT_TRUE(set.notes.empty());
  EXPECT_EQ(set.source->get(0).maps.front().image.pixels[3], 1);
  EXPECT_EQ(set.source->get(0).maps.front().image.pixels[60], 0);
  EXPECT_EQ(open_test_set(two).source->get(0).maps.front().image.pixels[3], 1);
  two.classes = 0;
  EXPECT_EQ(classes_of(two).count, 2);
}

TEST_F(BadSets, AValueThatMaskValuesLeavesOutIsNamedIfTheNumberOfClassesIsUnknown) {
  Image map = gray_map(0);
  map.pixels[0] = 255;
  map.pixels[1] = map.pixels[2] = 254;
  write_masks(map);
  SetOptions some = options();
  some.classes = 0;
  some.mask_values[255] = 1;
  some.listed_values = {255};
  EXPECT_THAT(fault_of<DataError>([&] { (void)classes_of(some); }),
              AllOf(HasSubstr(mask("a").string() + " has the value 254 in 2 pixels"), HasSubstr("data.mask_values")));
  map.pixels[1] = map.pixels[2] = 0;
  write_masks(map);
  EXPECT_EQ(classes_of(some).count, 2) << "0 is the background even if it is not listed";
}

TEST_F(BadSets, AMaskOfOneValueHasNothingToLearn) {
  write_masks(gray_map(0));
  EXPECT_THAT(fault(), AllOf(HasSubstr("only the value 0"), HasSubstr("nothing to distinguish")));
}

TEST_F(BadSets, AClassThatNoPixelIsOfIsNamedWithTheValues) {
  Image map = gray_map(2);
  map.pixels[7] = 0;
  map.pixels[8] = kUnlabelled;
  write_masks(map);
  EXPECT_THAT(notes(),
              HasSubstr("no pixel has class 1 in the labels of the 4 images checked, which contain 0, 2, 255"));
}

TEST_F(BadSets, ClassesHaveTheNamesOfTheFolder) {
  EXPECT_EQ(classes_of({.path = folder_.path().string(), .classes = 0}).count, 3);
  EXPECT_TRUE(classes_of({.path = folder_.path().string(), .classes = 0}).names.empty());
  std::ofstream(folder_ / "labelmap.txt") << "# label:color_rgb:parts:actions\nground:0,0,0::\nred cell:1,1,1::\n";
  EXPECT_THAT(classes_of(options()).names, ElementsAre("ground", "red cell"));
  std::ofstream(folder_ / "classes.txt") << "ground\r\ncell\nplatelet \n\n";
  EXPECT_THAT(classes_of(options()).names, ElementsAre("ground", "cell", "platelet"));
  EXPECT_THAT(open_training_set(options(), {.crop = 8}).source->class_names(),
              ElementsAre("ground", "cell", "platelet"));
}

/// The files of BadSets; opening the dataset checks only a and c.
class LargeSets : public BadSets {
 protected:
  [[nodiscard]] std::unique_ptr<MaskedPictures> pictures() const {
    std::vector<SampleFiles> files;
    for (const std::string name : {"a", "b", "c", "d"}) files.push_back({picture(name), {mask(name)}});
    return std::make_unique<MaskedPictures>(std::move(files),
                                            MaskedPicturesOptions{.meanings = {MapMeaning::kClasses}, .classes = 3});
  }
  /// The output while all images are being read, twice.
  static std::string said_by(const MaskedPictures& pictures) {
    ::testing::internal::CaptureStderr();
    for (std::int64_t i = 0; i < 8; ++i) (void)pictures.get(i % 4);
    return ::testing::internal::GetCapturedStderr();
  }
};

TEST_F(LargeSets, SayOnceWhatOpeningDidNotMeet) {
  for (const std::string name : {"b", "d"}) {
    common::write_set_picture(gray_map(kUnlabelled), mask(name));
    write_kind(picture(name), SPNG_COLOR_TYPE_TRUECOLOR, 16, std::vector<std::uint8_t>(6 * 240, 7));
  }
  const auto set = pictures();
  EXPECT_TRUE(set->survey(2).empty());
  EXPECT_EQ(said_by(*set),
            fmt::format("note: {} has no labelled pixel; others like it are not reported\n"
                        "note: {} has 16 bits per channel, of which the upper 8 are used; others like it "
                        "are not reported\n",
                        mask("b").string(), picture("b").string()));
}

TEST_F(LargeSets, SayNothingAgainThatOpeningSaid) {
  common::write_set_picture(gray_map(kUnlabelled), mask("c"));
  const auto set = pictures();
  EXPECT_THAT(set->survey(2), ElementsAre(HasSubstr("1 map without any labelled pixel among the 2")));
  EXPECT_EQ(said_by(*set), "");
}

TEST_F(BadSets, TwoPicturesOfOneNameAreBothNamed) {
  fs::copy_file(picture("b"), folder_ / "images/b.JPG");
  EXPECT_THAT(fault(), AllOf(HasSubstr("two files for 1 name,"), HasSubstr("b.JPG and b.png")));
  EXPECT_THAT(notes(false), AllOf(HasSubstr("4 pictures: "), HasSubstr("b.JPG and b.png")));
}

TEST_F(BadSets, TwoMasksOfOneNameAreBothNamed) {
  fs::copy_file(mask("c"), folder_ / "masks/c.PNG");
  EXPECT_THAT(fault(), AllOf(HasSubstr("masks has two files"), HasSubstr("c.PNG and c.png")));
}

TEST_F(BadSets, AMaskMayBeNamedInCapitals) {
  fs::rename(mask("c"), folder_ / "masks/c.PNG");
  EXPECT_EQ(notes(), "4 pictures: no note");
}

TEST_F(BadSets, APaletteIsReadByItsIndices) {
  std::vector<std::uint8_t> rows(240, 2);
  rows[0] = kUnlabelled;
  write_kind(mask("a"), SPNG_COLOR_TYPE_INDEXED, 8, rows);
  const SegmentationSet set = open_test_set(options());
  EXPECT_EQ(set.source->get(0).maps.front().image.pixels, rows);
  write_kind(mask("a"), SPNG_COLOR_TYPE_INDEXED, 2, std::vector<std::uint8_t>(12 * 5, 0b01100001));
  const Image packed = read_map(mask("a"), MapMeaning::kClasses);
  EXPECT_THAT(std::vector(packed.pixels.begin(), packed.pixels.begin() + 4), ElementsAre(1, 2, 0, 1));
}

TEST_F(BadSets, AColourMaskIsRefused) {
  common::write_set_picture({kSize, 3, std::vector<std::uint8_t>(3 * 240, 1)}, mask("a"));
  EXPECT_THAT(fault(), AllOf(HasSubstr(mask("a").string()), HasSubstr("colour image")));
}

TEST_F(BadSets, ATornMaskAndATornPictureAreNamed) {
  const std::string whole = FileSystem::system().read(mask("d"));
  FileSystem::system().create(mask("d"))->append(whole.data(), whole.size() - 20);
  EXPECT_THAT(fault(), AllOf(HasSubstr(mask("d").string()), HasSubstr("PNG")));
  FileSystem::system().create(mask("d"))->append(whole.data(), 10);
  EXPECT_THAT(fault(), HasSubstr(mask("d").string()));
  FileSystem::system().create(mask("d"))->append(whole.data(), whole.size());
  const std::string seen = FileSystem::system().read(picture("a"));
  FileSystem::system().create(picture("a"))->append(seen.data(), seen.size() - 20);
  const SegmentationSet set = open_training_set(options(), {.crop = 8});
  EXPECT_THAT(fault_of<DataError>([&] {
                SampleContext context(0, 0, 0);
                (void)set.dataset->get(0, context);
              }),
              HasSubstr(picture("a").string()));
}

TEST_F(BadSets, AJpegIsNoMask) {
  FileSystem::system().create(mask("a"))->append("no picture at all, but longer than a header of 33 bytes", 50);
  EXPECT_THAT(fault(), AllOf(HasSubstr(mask("a").string()), HasSubstr("neither a PNG nor a JPEG")));
}

/// The same four images in VOC's layout, with a list.
class BadLists : public BadSets {
 protected:
  void SetUp() override {
    BadSets::SetUp();
    FileSystem::system().make_folder(folder_ / "ImageSets/Segmentation");
  }
  void list(const std::string& text) const {
    write_file_atomically(FileSystem::system(), folder_ / "ImageSets/Segmentation/train.txt", text);
  }
};

TEST_F(BadLists, ANameThatStandsTwiceIsNamedWithItsList) {
  list("a\nb\na\nb\nc\n");
  EXPECT_THAT(fault(), AllOf(HasSubstr("train.txt names 2 images more than once, the first: a")));
  EXPECT_THAT(notes(false), AllOf(HasSubstr("3 pictures: "), HasSubstr("used once")));
}

TEST_F(BadLists, ANameMayHaveDotsAndBlanks) {
  for (const auto& [from, to] : {std::pair("a", "s.1"), std::pair("b", "b c"), std::pair("d", "b c 1")}) {
    fs::rename(picture(from), picture(to));
    fs::rename(mask(from), mask(to));
  }
  const auto opened = [&](const std::string& text) {
    list(text);
    std::string names;
    const SegmentationSet set = open_training_set(options(), {.crop = 8});
    for (std::int64_t i = 0; i < set.source->size(); ++i) {
      names += fs::path(set.source->describe(i)).filename().string() + ";";
    }
    return names;
  };
  EXPECT_EQ(opened("s.1\nb c\n"), "s.1.png;b c.png;");
  EXPECT_EQ(opened("  s.1.PNG \r\n\timages/b c.png\r\n"), "s.1.png;b c.png;");
  EXPECT_EQ(opened("s.1 1\nc -1\nb c 1\n"), "s.1.png;c.png;b c 1.png;");
  EXPECT_EQ(opened("/images/s.1.png /masks/c.png\n"), "s.1.png;") << "the picture, not its mask";
  EXPECT_EQ(opened("images/b c 1.png masks/c.png\n"), "b c 1.png;");
  list("s.1\nb c 2\n");
  EXPECT_THAT(fault(), HasSubstr("images of")) << "no other picture whose name begins so";
}

TEST_F(BadLists, TwoPicturesOfOneNameDoNotMatterWhereTheListNamesNeither) {
  fs::copy_file(picture("b"), folder_ / "images/b.jpeg");
  list("a\nc\n");
  EXPECT_EQ(notes(), "2 pictures: no note");
}

TEST_F(BadLists, AnEmptyListIsNamed) {
  list("\n  \n");
  EXPECT_THAT(fault(), HasSubstr("train.txt names no image"));
}

TEST_F(BadLists, ANameWithoutAPictureIsMissing) {
  list("a\nz\n");
  EXPECT_THAT(fault(), AllOf(HasSubstr("1 of 2 images are incomplete: missing 2 files"), HasSubstr("images of"),
                             HasSubstr("images/z")));
}

TEST_F(BadSets, AFolderThatIsNoSetSaysWhatItLooksFor) {
  EXPECT_THAT(fault_of<DataError>([&] { (void)open_test_set({.path = (folder_ / "masks").string()}); }),
              AllOf(HasSubstr("has no images"), HasSubstr("JPEGImages, images")));
  EXPECT_THAT(fault_of<DataError>([&] { (void)open_test_set({.path = (folder_ / "nothing").string()}); }),
              AllOf(HasSubstr("data set "), HasSubstr("nothing does not exist")));
  EXPECT_THAT(fault_of<DataError>([&] { (void)open_test_set({.path = mask("a").string()}); }),
              HasSubstr("a.png is not a folder"));
  SetOptions scribbles = options();
  scribbles.supervision = Supervision::kScribbles;
  EXPECT_THAT(fault_of<DataError>([&] { (void)open_training_set(scribbles, {.crop = 8}); }),
              AllOf(HasSubstr("has no scribbles"), HasSubstr("weak-labels")));
}

}  // namespace segmentation_bad_data_test
}  // namespace lockstep::segmentation
