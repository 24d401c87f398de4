// SPDX-License-Identifier: Apache-2.0
// Which files count, and what each becomes.
#include "lockstep/data/image_folder.h"

#include <fmt/format.h>

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "lockstep/base/error.h"
#include "support/fault_of.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace image_folder_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using test::fault_of;

namespace fs = std::filesystem;

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
  EXPECT_THAT(fault_of<DataError>([&] { (void)list_files(folder.path() / "file"); }), HasSubstr("is no folder"));
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

}  // namespace image_folder_test
}  // namespace lockstep
