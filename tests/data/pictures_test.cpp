// SPDX-License-Identifier: Apache-2.0
// Images of a dataset: as pixels, in a folder, through a chain of steps, and on a contact sheet.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

#include "data/draw/canvas.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/data/augment/to_tensor.h"
#include "lockstep/data/augment/turn.h"
#include "lockstep/data/compose.h"
#include "lockstep/data/contact_sheet.h"
#include "lockstep/data/draw_boxes.h"
#include "lockstep/data/image_dataset.h"
#include "lockstep/data/image_folder.h"
#include "lockstep/data/picture.h"
#include "lockstep/data/survey.h"
#include "support/fault_of.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace pictures_test {

namespace fs = std::filesystem;
using test::fault_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

// Pixels in their three states: encoded, decoded, and a view of external memory.

EncodedImage golden(const std::string& name) {
  const auto path = std::filesystem::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/data/golden" / name;
  auto bytes = std::make_shared<std::string>(FileSystem::system().read(path));
  return {.owner = bytes, .bytes = *bytes, .name = name};
}

Image counting(ImageSize size, std::int64_t channels) {
  Image image{size, channels, std::vector<std::uint8_t>(static_cast<std::size_t>(size.width * size.height * channels))};
  std::iota(image.pixels.begin(), image.pixels.end(), std::uint8_t{0});
  return image;
}

TEST(Pixels, KnowTheirSizeWithoutBeingDecoded) {
  const Pixels pixels(golden("rgb_420.jpg"));
  EXPECT_EQ(pixels.size(), (ImageSize{23, 17}));
  EXPECT_TRUE(pixels.encoded());
}

TEST(Pixels, DecodeOnceInTheModeThatWasAskedForFirst) {
  Pixels pixels(golden("rgb.png"));
  EXPECT_EQ(pixels.decoded(ColorMode::kGray).channels, 1);
  EXPECT_FALSE(pixels.encoded());
  EXPECT_EQ(pixels.decoded(ColorMode::kRgb).channels, 1);
}

TEST(Pixels, OfAViewAreReadInPlaceAndCopiedToBeChanged) {
  const Image image = counting({3, 2}, 1);
  Pixels pixels(view_of(image));
  EXPECT_EQ(pixels.view().data, image.pixels.data());
  pixels.decoded().pixels[0] = 99;
  EXPECT_EQ(image.pixels[0], 0);
  EXPECT_THAT(pixels.decoded().pixels, ElementsAre(99, 1, 2, 3, 4, 5));
}

TEST(Pixels, OfAViewAreCroppedWithoutACopyAgainAndAgain) {
  const Image image = counting({4, 4}, 2);
  Pixels pixels(view_of(image));
  pixels.crop({1, 1, {3, 3}}, {3, 3});
  pixels.crop({1, 1, {2, 1}}, {2, 1});
  EXPECT_EQ(pixels.size(), (ImageSize{2, 1}));
  EXPECT_EQ(pixels.view().data, image.pixels.data() + (2 * 4 + 2) * 2);
  EXPECT_THAT(pixels.decoded().pixels, ElementsAre(20, 21, 22, 23));
}

TEST(Pixels, OfAnImageKeepOnlyTheRegion) {
  Pixels pixels(counting({4, 3}, 1));
  pixels.crop({1, 1, {2, 2}}, {2, 2});
  EXPECT_THAT(pixels.decoded().pixels, ElementsAre(5, 6, 9, 10));
}

TEST(Pixels, RefuseARegionThatReachesOutside) {
  Pixels pixels(counting({4, 3}, 1));
  for (const Region region :
       {Region{-1, 0, {2, 2}}, Region{3, 0, {2, 2}}, Region{0, 2, {2, 2}}, Region{0, 0, {0, 1}}}) {
    EXPECT_THROW(pixels.crop(region, {1, 1}), UsageError);
  }
}

TEST(Pixels, NameTheFileThatCannotBeRead) {
  EncodedImage torn = golden("rgb.png");
  torn.bytes = torn.bytes.substr(0, 100);
  Pixels pixels(torn);
  try {
    (void)pixels.decoded();
    FAIL() << "no DataError";
  } catch (const DataError& fault) {
    EXPECT_THAT(fault.what(), HasSubstr("rgb.png: truncated PNG (100 bytes)"));
  }
}

// The files that are listed, and the sample from each of them.

const fs::path kGolden = fs::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/data/golden";

TEST(ListFiles, SortsAndCountsWhatItIgnores) {
  const test::TempDir folder;
  for (const char* name : {"b.png", "a.PNG", "notes.txt", "c.jpeg", "png"}) std::ofstream(folder.path() / name);
  fs::create_directory(folder.path() / "folder.png");
  const FileList list = list_files(folder.path());
  EXPECT_THAT(list.paths, ElementsAre(folder.path() / "a.PNG", folder.path() / "b.png", folder.path() / "c.jpeg"));
  EXPECT_EQ(list.ignored, 3);
}

TEST(ListFiles, NamesAFolderWithoutImages) {
  const test::TempDir folder;
  const std::string name = folder.path().string();
  EXPECT_THAT(fault_of<DataError>([&] { (void)list_files(folder.path()); }), AllOf(HasSubstr(name), HasSubstr(".png")));
  EXPECT_THAT(fault_of<DataError>([&] { (void)list_files(folder.path() / "none"); }), HasSubstr("does not exist"));
  std::ofstream(folder.path() / "file");
  EXPECT_THAT(fault_of<DataError>([&] { (void)list_files(folder.path() / "file"); }), HasSubstr("is not a folder"));
}

TEST(ImageFolder, GivesFloatsInChannelsHeightWidth) {
  ImageFolder images(std::vector<fs::path>{kGolden / "rgb.png"}, {.color = ColorMode::kRgb});
  ASSERT_EQ(images.size(), 1);
  SampleContext context(0, 0, 0);
  const Sample sample = images.get(0, context);
  EXPECT_EQ(sample.data.sizes(), (at::IntArrayRef{3, 17, 23}));
  EXPECT_FALSE(sample.target.defined());
  const Image image = read_image(kGolden / "rgb.png", ColorMode::kRgb);
  const auto* values = sample.data.data_ptr<float>();
  EXPECT_EQ(values[0], static_cast<float>(image.pixels[0]) / 255.0F);
  EXPECT_EQ(values[17 * 23 + 1], static_cast<float>(image.pixels[4]) / 255.0F);
}

TEST(ImageFolder, LetsTheCallerWriteTheTarget) {
  ImageFolderOptions options;
  options.target = {{2}, c10::ScalarType::Long, [](const fs::path& file, void* out) {
                      static_cast<std::int64_t*>(out)[0] = std::ssize(file.stem().string());
                      static_cast<std::int64_t*>(out)[1] = -1;
                    }};
  ImageFolder images(std::vector<fs::path>{kGolden / "gray.png", kGolden / "rgba.png"}, options);
  SampleContext context(0, 0, 1);
  const Sample sample = images.get(1, context);
  ASSERT_EQ(sample.target.numel(), 2);
  EXPECT_EQ(sample.target.data_ptr<std::int64_t>()[0], 4);
  EXPECT_EQ(sample.target.data_ptr<std::int64_t>()[1], -1);
}

TEST(ImageFolder, NamesBothSizesWhereAFileHasAnother) {
  ImageFolder images(std::vector<fs::path>{kGolden / "gray.png"}, {.size = {160, 60}});
  SampleContext context(0, 0, 0);
  EXPECT_THAT(fault_of<DataError>([&] { (void)images.get(0, context); }),
              AllOf(HasSubstr("gray.png"), HasSubstr("23 x 17"), HasSubstr("160 x 60")));
}

TEST(ImageFolder, ResizesOnlyWhenAsked) {
  ImageFolder images(std::vector<fs::path>{kGolden / "gray.png"}, {.size = {46, 34}, .resize = true});
  SampleContext context(0, 0, 0);
  EXPECT_EQ(images.get(0, context).data.sizes(), (at::IntArrayRef{1, 34, 46}));
}

// Compose takes every kind of step; image_dataset() builds samples in the batch's own memory.

class Ramps final : public ImageSource {
 public:
  [[nodiscard]] std::int64_t size() const override { return 5; }
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override {
    AnnotatedImage image;
    const auto shade = static_cast<std::uint8_t>(51 * index);
    image.pixels = Image{{2, 1}, 1, {0, shade}};
    image.label = index;
    return image;
  }
};

struct Darken {
  std::uint8_t divisor = 1;
  void operator()(AnnotatedImage& image) const {
    for (std::uint8_t& value : image.pixels.decoded().pixels) value = static_cast<std::uint8_t>(value / divisor);
  }
};

std::vector<float> values(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), tensor.data_ptr<float>() + tensor.numel()};
}

TEST(Compose, ChainsClassesAndLambdasByValueAndByReference) {
  const Compose chain{Darken{2},
                      [](AnnotatedImage image) {
                        image.pixels.decoded().pixels[0] = 255;
                        return image;
                      },
                      [](const AnnotatedImage& image) { EXPECT_EQ(image.label, 1); },
                      ToTensor{},
                      [](Sample sample) {
                        sample.data.mul_(2);
                        return sample;
                      },
                      [](Sample& sample, SampleContext& context) { sample.extra = context.index; }};
  SampleContext context(0, 0, 1);
  const Sample sample = chain(Ramps().get(1), context);
  EXPECT_THAT(values(sample.data), ElementsAre(2.0F, 25 * 2 / 255.0F));
  EXPECT_EQ(std::any_cast<std::int64_t>(sample.extra), 1);
  EXPECT_EQ(sample.target.item<std::int64_t>(), 1);
}

TEST(Compose, IsItselfAStep) {
  const Compose inner{Darken{5}, HorizontalFlip{.p = 1.0}};
  const Compose chain{inner, ToTensor{}};
  SampleContext context(0, 0, 5);
  EXPECT_THAT(values(chain(Ramps().get(5), context).data), ElementsAre(51 / 255.0F, 0.0F));
}

TEST(Compose, DrawsFromTheSamplesOwnRandomNumbers) {
  std::vector<double> drawn;
  const Compose chain{[&](AnnotatedImage&, SampleRandom& random) { drawn.push_back(random.uniform()); },
                      [&](AnnotatedImage&, SampleContext& context) { drawn.push_back(context.random.uniform()); }};
  SampleContext context(7, 1, 3);
  (void)chain(AnnotatedImage{}, context);
  SampleRandom expected(7, 1, 3);
  for (const double value : drawn) EXPECT_EQ(value, expected.uniform());
  EXPECT_EQ(drawn.size(), 2U);
}

TEST(ImageDataset, GivesASampleForEachPicture) {
  const auto dataset = image_dataset(std::make_shared<Ramps>(), Compose{ToTensor{}});
  EXPECT_EQ(dataset->size(), 5);
  SampleContext context(0, 0, 2);
  const Sample sample = dataset->get(2, context);
  EXPECT_THAT(sample.data.sizes(), ElementsAre(1, 1, 2));
  EXPECT_THAT(values(sample.data), ElementsAre(0.0F, 0.4F));
  EXPECT_EQ(sample.target.item<std::int64_t>(), 2);
}

TEST(ImageDataset, WritesIntoTheRowOfTheBatch) {
  std::array<float, 2> row{};
  std::int64_t label = 0;
  const SampleSpec spec{.data_shape = {1, 1, 2}, .target_shape = {}, .target_type = c10::ScalarType::Long};
  SampleContext context(0, 0, 4);
  context.spec = &spec;
  context.slot = {row.data(), &label};
  const auto dataset = image_dataset(std::make_shared<Ramps>(), Compose{ToTensor{}});
  (void)dataset->get(4, context);
  EXPECT_THAT(row, ElementsAre(0.0F, 0.8F));
  EXPECT_EQ(label, 4);
}

TEST(ToTensor, NormalisesInTheSamePassWithTheSameBits) {
  Image image{{5, 3}, 3, {}};
  for (int i = 0; i < 45; ++i) image.pixels.push_back(static_cast<std::uint8_t>(i * 37));
  AnnotatedImage first{.pixels = image};
  AnnotatedImage second{.pixels = image};
  SampleContext context(0, 0, 0);
  const Sample fused = ToTensor{.normalize = Normalize{}}(first, context);
  const Sample separate = Normalize{}(ToTensor{}(second, context));
  EXPECT_EQ(values(fused.data), values(separate.data));
  EXPECT_FALSE(fused.target.defined());
}

TEST(ToTensor, RefusesOtherNumbersOfChannels) {
  AnnotatedImage image{.pixels = Image{{4, 4}, 2, std::vector<std::uint8_t>(32)}};
  SampleContext context(0, 0, 0);
  EXPECT_THROW((void)ToTensor{}(image, context), UsageError);
}

TEST(ToTensor, TakesTheTargetThatItIsTold) {
  AnnotatedImage image{.pixels = Image{{10, 20}, 1, std::vector<std::uint8_t>(200)}};
  image.objects = {{.box = {1, 2, 5, 12}, .label = 3, .crowd = true, .area = 40}};
  image.maps = {{Image{{10, 20}, 1, std::vector<std::uint8_t>(200, 7)}}};
  SampleContext context(0, 0, 0);
  const Sample map = ToTensor{.target = MapTarget{}}(image, context);
  EXPECT_THAT(map.target.sizes(), ElementsAre(20, 10));
  EXPECT_EQ(map.target.sum().item<std::int64_t>(), 1400);
  const Sample boxes = ToTensor{.target = DetectionTarget{.centered = true}}(image, context);
  const auto& found = std::any_cast<const Detections&>(boxes.extra);
  EXPECT_THAT(values(found.boxes), ElementsAre(0.3F, 0.35F, 0.4F, 0.5F));
  EXPECT_EQ(found.labels.item<std::int64_t>(), 3);
  EXPECT_TRUE(found.crowd.item<bool>());
  EXPECT_THROW((void)ToTensor{.target = ClassTarget{}}(image, context), DataError);
}

// How a dataset is shown: the grid with marks, and the counts.

data::Ink pixel(const Image& image, std::int64_t x, std::int64_t y) {
  const auto at = static_cast<std::size_t>((y * image.size.width + x) * 3);
  return {image.pixels[at], image.pixels[at + 1], image.pixels[at + 2]};
}

AnnotatedImage gray(std::int64_t label) {
  AnnotatedImage image{.pixels = Image{{20, 10}, 1, std::vector<std::uint8_t>(200, 100)}};
  image.label = label;
  return image;
}

TEST(ContactSheet, LaysPicturesInAGridWithTheirMarks) {
  AnnotatedImage marked = gray(0);
  marked.objects = {{.box = {5, 2, 15, 8}, .label = 1}};
  const Image sheet = contact_sheet({gray(0), marked, gray(1)}, {.columns = 2, .cell = 40});
  EXPECT_EQ(sheet.size.width, 2 * 46 + 6);
  EXPECT_EQ(sheet.size.height, 2 * (20 + 18 + 6) + 6 + (data::Pen(12).width("1") > 0 ? 6 + 18 : 0)) << "and a legend";
  EXPECT_EQ(pixel(sheet, 6, 6), (data::Ink{100, 100, 100}));
  EXPECT_EQ(pixel(sheet, 5, 6), pixel(sheet, 0, 0));
  EXPECT_EQ(pixel(sheet, 52 + 10, 6 + 4), data::ink_of(1));   // a corner of the box, scaled by 2
  EXPECT_EQ(pixel(sheet, 52 + 29, 6 + 15), data::ink_of(1));  // the opposite corner
  EXPECT_EQ(pixel(sheet, 52 + 20, 6 + 10), (data::Ink{100, 100, 100}));
}

TEST(ContactSheet, TintsMasksAndMaps) {
  AnnotatedImage image = gray(0);
  image.maps = {{Image{{20, 10}, 1, std::vector<std::uint8_t>(200, 0)}}};
  image.maps[0].image.pixels[0] = 3;
  image.maps[0].image.pixels[1] = 255;
  const Image sheet = contact_sheet({image}, {.cell = 20});
  EXPECT_NE(pixel(sheet, 6, 6), (data::Ink{100, 100, 100}));
  EXPECT_EQ(pixel(sheet, 7, 6), (data::Ink{100, 100, 100}));
}

TEST(ContactSheet, WritesClassNamesWhereThereIsAFont) {
  const data::Pen pen(12);
  if (pen.width("RBC") == 0) GTEST_SKIP() << "fonts-dejavu-core is not installed";
  EXPECT_GT(pen.width("RBC WBC"), pen.width("RBC"));
  const Image named = contact_sheet({gray(1)}, {.class_names = {"WBC", "RBC"}});
  const Image other = contact_sheet({gray(0)}, {.class_names = {"WBC", "RBC"}});
  EXPECT_NE(named.pixels, other.pixels);
}

/// Text on an image would cover it.
TEST(ContactSheet, NamesClassesInALegendAndNotOnThePicture) {
  if (data::Pen(12).width("RBC") == 0) GTEST_SKIP() << "fonts-dejavu-core is not installed";
  AnnotatedImage marked = gray(0);
  marked.label.reset();
  marked.objects = {{.box = {0, 0, 20, 10}, .label = 1}};
  const Image sheet = contact_sheet({marked}, {.cell = 200, .class_names = {"WBC", "RBC"}});
  for (std::int64_t y = 7; y < 105; ++y) {
    for (std::int64_t x = 7; x < 205; ++x) ASSERT_EQ(pixel(sheet, x, y), (data::Ink{100, 100, 100})) << x << ", " << y;
  }
  bool swatch = false;
  for (std::int64_t y = 106 + 18 + 6; y < sheet.size.height; ++y) {
    for (std::int64_t x = 6; x < 16; ++x) swatch = swatch || pixel(sheet, x, y) == data::ink_of(1);
  }
  EXPECT_TRUE(swatch) << "the colour of its frame is explained";
  const Image other = contact_sheet({marked}, {.cell = 200, .class_names = {"WBC", "Platelets"}});
  EXPECT_NE(sheet.pixels, other.pixels);
}

TEST(DrawBoxes, WordsOfOneBoxLeaveThoseOfAnotherToBeRead) {
  if (data::Pen(11).width("x") == 0) GTEST_SKIP() << "fonts-dejavu-core is not installed";
  const Image picture{{100, 100}, 1, std::vector<std::uint8_t>(10'000, 100)};
  const BoxMark one{.box = {30, 30, 70, 70}, .ink = {1, 200, 2}, .text = "one", .plate = true};
  BoxMark other = one;
  other.ink = {200, 1, 2};
  const Image drawn = draw_boxes(view_of(picture), picture.size, {one, other});
  EXPECT_EQ(pixel(drawn, 31, 18), (data::Ink{200, 1, 2})) << "above: the last one is drawn over the others";
  EXPECT_EQ(pixel(drawn, 31, 71), (data::Ink{1, 200, 2})) << "below";
}

TEST(ContactSheet, AFrameEndsAtItsPicturesEdge) {
  AnnotatedImage marked = gray(0);
  marked.objects = {{.box = {-9, -9, 90, 90}, .label = 1, .points = {{50, 5}}}};
  const Image sheet = contact_sheet({marked, gray(0)}, {.columns = 2, .cell = 40});
  EXPECT_EQ(pixel(sheet, 6, 6), data::ink_of(1));
  EXPECT_EQ(pixel(sheet, 45, 25), data::ink_of(1));
  for (std::int64_t y = 6; y < 26; ++y) {
    for (std::int64_t x = 46; x < 92; ++x) EXPECT_NE(pixel(sheet, x, y), data::ink_of(1)) << x << ", " << y;
  }
}

TEST(ContactSheet, ExplainsFramesInItsLegend) {
  if (data::Pen(12).width("x") == 0) GTEST_SKIP() << "fonts-dejavu-core is not installed";
  const data::Ink ink{1, 200, 2};
  const BoxMark missed{.ink = ink, .thick = 3, .corners = true, .text = "missed"};
  const Image plain = contact_sheet({gray(0)}, {.cell = 200});
  const Image sheet = contact_sheet({gray(0)}, {.cell = 200, .legend = {missed}});
  EXPECT_GT(sheet.size.height, plain.size.height);
  std::int64_t of_ink = 0;
  for (std::int64_t y = plain.size.height - 6; y < sheet.size.height; ++y) {
    for (std::int64_t x = 0; x < 40; ++x) of_ink += pixel(sheet, x, y) == ink ? 1 : 0;
  }
  EXPECT_EQ(of_ink, 4 * (3 * 6)) << "four corners of 6 x 3 pixels";
}

TEST(ContactSheet, IsWrittenAsAPngThatReadsBack) {
  const test::TempDir folder;
  const Image sheet = contact_sheet({gray(0)});
  write_png(sheet, folder.path() / "sheet.png");
  EXPECT_EQ(read_image(folder.path() / "sheet.png", ColorMode::kRgb).pixels, sheet.pixels);
  EXPECT_THROW((void)contact_sheet({}), UsageError);
}

class Masked final : public ImageSource {
 public:
  [[nodiscard]] std::int64_t size() const override { return 2; }
  [[nodiscard]] AnnotatedImage get(std::int64_t) const override {
    AnnotatedImage image = gray(0);
    image.maps = {{Image{{20, 10}, 1, std::vector<std::uint8_t>(200, 0)}}};
    image.maps[0].image.pixels[7] = 255;
    return image;
  }
};

TEST(Survey, CountsThePixelsOfMapsByTheirValue) {
  EXPECT_THAT(survey_source(Masked()).pixels, ElementsAre(Pair(0, 398), Pair(255, 2)));
}

class Mixed final : public ImageSource {
 public:
  [[nodiscard]] std::int64_t size() const override { return 5; }
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override {
    if (index == 0) return gray(2);
    AnnotatedImage image{.pixels = golden(index == 1 ? "rgba.png" : index == 2 ? "gray.jpg" : "part_420.jpg")};
    image.name = index == 4 ? "torn.jpg" : "whole.jpg";
    image.objects = {{.box = {1, 1, 5, 5}, .label = 1}, {.box = {3, 3, 3, 9}, .label = 0}};
    if (index == 4) image.pixels = EncodedImage{nullptr, std::string_view("\xff\xd8\xff\xe0 and no more"), "torn.jpg"};
    return image;
  }
};

TEST(Survey, CountsWhatCanBeReadAndSaysWhatCannot) {
  std::vector<std::int64_t> steps;
  const Survey survey = survey_source(Mixed(), [&](std::int64_t done) { steps.push_back(done); });
  EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(survey.pictures, 5);
  EXPECT_THAT(survey.sizes, ElementsAre(ImageSize{20, 10}, ImageSize{23, 17}, ImageSize{23, 17}, ImageSize{93, 75}));
  EXPECT_THAT(survey.formats, ElementsAre(Pair("JPEG", 2), Pair("PNG", 1), Pair("decoded", 1)));
  EXPECT_THAT(survey.channels, ElementsAre(Pair(1, 2), Pair(3, 1), Pair(4, 1)));
  EXPECT_THAT(survey.classes, ElementsAre(Pair(2, 1)));
  EXPECT_EQ(survey.unlabelled, 3);
  EXPECT_THAT(survey.objects, ElementsAre(Pair(0, 3), Pair(1, 3)));
  EXPECT_EQ(survey.empty_boxes, 3);
  ASSERT_EQ(survey.unreadable.size(), 1U);
  EXPECT_EQ(survey.unreadable[0].name, "torn.jpg");
  EXPECT_THAT(survey.unreadable[0].reason, AllOf(HasSubstr("torn.jpg"), Not(HasSubstr("\n"))));
}

}  // namespace pictures_test
}  // namespace lockstep
