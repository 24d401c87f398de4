// SPDX-License-Identifier: Apache-2.0
// Texts beside pictures: names with spaces, and encodings that people's tools write.
#include "lockstep/data/sources/text_files.h"

#include <fmt/format.h>

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "data/sources/annotations/voc_parse.h"
#include "lockstep/base/error.h"
#include "lockstep/data/sources/coco.h"
#include "lockstep/data/sources/image_files.h"
#include "lockstep/data/sources/mask_folders.h"
#include "lockstep/data/sources/open_source.h"
#include "lockstep/data/sources/voc.h"
#include "support/fault_of.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace sources_text_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using test::fault_of;

namespace fs = std::filesystem;

// U+72D7, a dog, and "caf\u00e9".
const std::string kDog = "\xe7\x8b\x97";
const std::string kDogInGbk = "\xb9\xb7";
const std::string kCafe = "caf\xc3\xa9";
const std::string kCafeInLatin1 = "caf\xe9";

void put(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

/// ASCII as Windows' "Unicode" has it: with a mark, low byte first.
std::string in_utf16(const std::string& ascii) {
  std::string bytes = "\xff\xfe";
  for (const char letter : ascii) bytes += std::string{letter, '\0'};
  return bytes;
}

std::string box_of(const std::string& name) {
  return "<annotation><size><width>9</width><height>9</height></size><object><name>" + name +
         "</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></object></annotation>";
}

/// Pictures whose names differ in what is behind a space.
class SpacedNames : public ::testing::Test {
 protected:
  SpacedNames() {
    for (const char* name : {"img", "img 1", "img 2"}) {
      put(root_ / "JPEGImages" / (std::string(name) + ".jpg"), "unused");
      put(root_ / "Annotations" / (std::string(name) + ".xml"), box_of(name));
      put(root_ / "SegmentationClass" / (std::string(name) + ".png"), "unused");
    }
  }
  [[nodiscard]] std::vector<std::string> pictures_of(const std::string& list) const {
    put(root_ / "ImageSets/Main/train.txt", list);
    put(root_ / "ImageSets/Segmentation/train.txt", list);
    const VocImages set(root_.path(), {.split = "train"});
    const MaskFolders masks(root_ / "JPEGImages", root_ / "SegmentationClass",
                            {.list = root_ / "ImageSets/Segmentation/train.txt"});
    EXPECT_EQ(masks.size(), set.size());
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < set.size(); ++i) names.push_back(fs::path(set.describe(i)).stem().string());
    return names;
  }
  test::TempDir root_;
};

TEST_F(SpacedNames, OfAListAreReadWhole) {
  const auto all = ElementsAre("img", "img 1", "img 2");
  EXPECT_THAT(pictures_of("img\nimg 1\nimg 2\n"), all);
  EXPECT_THAT(pictures_of("\xef\xbb\xbfimg  \r\n\r\n img 1\t\r\nimg 2"), all) << "as Windows writes it";
  EXPECT_THAT(pictures_of(in_utf16("img\r\nimg 1\r\nimg 2\r\n")), all);
}

TEST_F(SpacedNames, MayHaveTheColumnOfAListForOneClass) {
  EXPECT_THAT(pictures_of("img -1\nimg 1  0\nimg 2  1\n"), ElementsAre("img", "img 1", "img 2"));
  EXPECT_THAT(pictures_of("img  1\nimg 1 -1\n"), ElementsAre("img", "img 1"));
  EXPECT_THAT(fault_of<DataError>([&] { (void)pictures_of("img\nimg 3\n"); }), HasSubstr("img 3.xml does not exist"));
}

TEST(ClassNames, MayHaveSpacesAndAMark) {
  const test::TempDir root;
  put(root / "classes.txt",
      "\xef\xbb\xbf"
      "ground\r\nred cell \r\n");
  EXPECT_THAT(mask_class_names(root.path()), ElementsAre("ground", "red cell"));
}

TEST(Text, IsUtf8WhateverItsMarkSays) {
  EXPECT_EQ(utf8_text("\xef\xbb\xbf" + kDog).value(), kDog);
  EXPECT_EQ(utf8_text(std::string("\xfe\xff\x72\xd7", 4)).value(), kDog);
  EXPECT_EQ(utf8_text(std::string("\xff\xfe\0\0\xd7\x72\0\0", 8)).value(), kDog);
  EXPECT_EQ(utf8_text("a\nb" + kDogInGbk).error(), "line 2 is no UTF-8");
  EXPECT_THAT(utf8_text(in_utf16("ab").substr(2)).error(), HasSubstr("looks like UTF-16"));
  EXPECT_EQ(converted_text(kDogInGbk, "GB2312").value(), kDog);
  EXPECT_EQ(converted_text(kCafeInLatin1, "ISO-8859-1").value(), kCafe);
  EXPECT_EQ(converted_text(kCafeInLatin1, "windows-1252").value(), kCafe);
  EXPECT_EQ(converted_text("\xff", "GBK").error(), "byte 0 belongs to no letter of GB18030");
  EXPECT_EQ(converted_text("a", "../x").error(), "the encoding '../x' is not known here");
}

TEST(VocEncodings, AreConvertedOrRefusedByTheirNames) {
  const auto name_in = [](const std::string& xml) {
    const Result<data::VocPicture> picture = data::parse_voc(xml);
    return picture ? picture->objects.at(0).name : picture.error();
  };
  const auto declared = [](const std::string& encoding, const std::string& name) {
    return fmt::format("<?xml version=\"1.0\" encoding=\"{}\"?>\n{}", encoding, box_of(name));
  };
  EXPECT_EQ(name_in(declared("GB2312", kDogInGbk)), kDog);
  EXPECT_EQ(name_in(declared("gbk", kDogInGbk)), kDog);
  EXPECT_EQ(name_in(declared("ISO-8859-1", kCafeInLatin1)), kCafe);
  EXPECT_EQ(name_in(declared("utf-8", kDog)), kDog);
  EXPECT_EQ(name_in(in_utf16(declared("UTF-16", "cat"))), "cat");
  EXPECT_EQ(name_in("\xef\xbb\xbf" + declared("utf-8", kDog)), kDog);
  EXPECT_THAT(name_in(box_of(kDogInGbk)), AllOf(HasSubstr("a name that is no UTF-8"), HasSubstr("line 1")));
  EXPECT_THAT(name_in(declared("x-mine", kDogInGbk)), HasSubstr("the encoding 'x-mine' is not known here"));
  EXPECT_EQ(name_in(declared("x-mine", "cat")), "cat") << "only letters matter";
  std::string foreign = box_of("cat");
  foreign.insert(foreign.find("<size>"), "<path>C:\\" + kDogInGbk + "\\a.jpg</path>");
  EXPECT_EQ(name_in(foreign), "cat") << "the path of another machine is not looked at";
}

TEST(VocFlags, AreNumbersOrWords) {
  for (const auto& [word, is_difficult] : {std::pair{"1", true}, {"true", true}, {"True", true}, {"0", false}}) {
    std::string xml = box_of("cat");
    xml.insert(xml.find("<bndbox>"), fmt::format("<difficult>{}</difficult>", word));
    EXPECT_EQ(data::parse_voc(xml)->objects.at(0).difficult, is_difficult) << word;
  }
  std::string xml = box_of("cat");
  xml.replace(xml.find("<width>9"), 8, "<width>nine");
  EXPECT_EQ(data::parse_voc(xml).error(), "a width of 'nine'");
}

TEST(Lists, MayBeInUtf16AndAreRefusedInOtherEncodings) {
  const test::TempDir root;
  put(root / "a.csv", in_utf16("path,label\r\na.png,3\r\n"));
  EXPECT_EQ(ImageList(root / "a.csv").size(), 1);
  put(root / "a.json", in_utf16(R"([{"path": "a.png", "label": 3}])"));
  EXPECT_EQ(detect_source((root / "a.json").string()), SourceKind::kList);
  EXPECT_EQ(ImageList(root / "a.json").size(), 1);
  put(root / "b.csv", "path,label\na.png," + kCafeInLatin1 + "\n");
  EXPECT_THAT(fault_of<DataError>([&] { ImageList{root / "b.csv"}; }),
              AllOf(HasSubstr("b.csv"), HasSubstr("line 2 is no UTF-8")));
  put(root / "c.json", R"({"images": [], "categories": [{"id": 1, "name": ")" + kCafeInLatin1 + "\"}]}");
  EXPECT_THAT(fault_of<DataError>([&] { CocoImages{root / "c.json"}; }),
              AllOf(HasSubstr("c.json"), HasSubstr("line 1 is no UTF-8")));
}

}  // namespace sources_text_test
}  // namespace lockstep
