// SPDX-License-Identifier: Apache-2.0
// Image files: which are chosen, their labels and captions, and the meaning of their names.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "data/sources/annotations/list_parse.h"
#include "data/sources/annotations/voc_parse.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/data/image_folder.h"
#include "lockstep/data/png_writer.h"
#include "lockstep/data/sources/coco.h"
#include "lockstep/data/sources/image_files.h"
#include "lockstep/data/sources/mask_folders.h"
#include "lockstep/data/sources/open_source.h"
#include "lockstep/data/sources/tar_shards.h"
#include "lockstep/data/sources/text_files.h"
#include "lockstep/data/sources/voc.h"
#include "support/fault_of.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace sources_lists_test {

namespace fs = std::filesystem;
using test::fault_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const fs::path kGolden = fs::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/data/golden";

void put(const fs::path& file, const std::string& text = "") {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

std::vector<std::string> names_of(const ImageSource& source, const fs::path& root) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < source.size(); ++i) {
    names.push_back(fs::path(source.get(i).name).lexically_relative(root).string());
  }
  return names;
}

TEST(ImageFiles, AreSortedByFolderAndNameAndReadTheFoldersBelowOnRequest) {
  const test::TempDir root;
  for (const char* name : {"b.png", "a/d/x.JPG", "a-b/y.jpeg", "a/x.txt", "c.png"}) put(root / name);
  EXPECT_THAT(names_of(ImageFiles(root.path()), root.path()), ElementsAre("b.png", "c.png"));
  EXPECT_THAT(names_of(ImageFiles(root.path(), {.recursive = true}), root.path()),
              ElementsAre("b.png", "c.png", "a-b/y.jpeg", "a/d/x.JPG"));
}

TEST(ImageFiles, GiveTheFileStillEncodedWithItsIndexAsId) {
  const ImageFiles files = ImageFiles::of({kGolden / "gray.png", kGolden / "rgb.png"});
  AnnotatedImage picture = files.get(1);
  EXPECT_EQ(picture.id, 1);
  EXPECT_TRUE(picture.pixels.encoded());
  EXPECT_EQ(picture.pixels.size(), (ImageSize{23, 17}));
  EXPECT_FALSE(picture.label.has_value());
}

TEST(ClassFolders, LabelBySortedFolderNameAsTorchvision) {
  const test::TempDir root;
  for (const char* name : {"dog/2.png", "cat/9.jpg", "cat/deep/0.png", "Zebra/1.png", "dog/10.png", "stray.png"}) {
    put(root / name);
  }
  const ClassFolders classes(root.path());
  EXPECT_THAT(classes.class_names(), ElementsAre("Zebra", "cat", "dog"));
  EXPECT_THAT(names_of(classes, root.path()),
              ElementsAre("Zebra/1.png", "cat/9.jpg", "cat/deep/0.png", "dog/10.png", "dog/2.png"));
  EXPECT_EQ(classes.get(0).label, 0);
  EXPECT_EQ(classes.get(2).label, 1);
  EXPECT_EQ(classes.get(4).label, 2);
}

TEST(ClassFolders, CountTheImagesOfOtherFormatsThatTheyIgnore) {
  const test::TempDir root;
  for (const char* name : {"cat/1.png", "cat/2.WEBP", "dog/1.png", "dog/deep/2.bmp", "dog/notes.txt"}) put(root / name);
  const auto note_of = [](const auto& open) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(open(), 2);
    return ::testing::internal::GetCapturedStderr();
  };
  const auto expected =
      HasSubstr("2 images ignored, as only PNG and JPEG files are read; the first: " + (root / "cat/2.WEBP").string());
  EXPECT_THAT(note_of([&] { return ClassFolders(root.path()).size(); }), expected);
  EXPECT_THAT(note_of([&] { return ImageFiles(root.path(), {.recursive = true}).size(); }), expected);
}

TEST(ClassFolders, NameAnEmptyClassUnlessItIsAllowed) {
  const test::TempDir root;
  put(root / "full/1.png");
  fs::create_directory(root / "void");
  EXPECT_THAT(fault_of<DataError>([&] { ClassFolders{root.path()}; }),
              AllOf(HasSubstr("void"), HasSubstr("1 of the 2")));
  EXPECT_EQ(ClassFolders(root.path(), {.allow_empty = true}).size(), 1);
  const test::TempDir none;
  EXPECT_THAT(fault_of<DataError>([&] { ClassFolders{none.path()}; }), HasSubstr("contains no folder"));
}

TEST(Csv, ReadsQuotesLineEndsAndCommasAsRfc4180) {
  const auto rows = data::parse_csv(
      "\xEF\xBB\xBF"
      "a,b\r\n\"x,\"\"y\"\"\nz\",\"\"\r\n\n1,");
  ASSERT_TRUE(rows.ok()) << rows.error();
  ASSERT_EQ(rows->size(), 3U);
  EXPECT_THAT((*rows)[1].fields, ElementsAre("x,\"y\"\nz", ""));
  EXPECT_THAT((*rows)[2].fields, ElementsAre("1", ""));
  EXPECT_EQ((*rows)[2].line, 5);
}

TEST(Csv, NamesTheLineOfABadQuote) {
  EXPECT_EQ(data::parse_csv("a\n\"b\nc").error(), "line 2: a quote is never closed");
  EXPECT_EQ(data::parse_csv("a\n\"b\"c").error(), "line 2: text after a closing quote");
}

TEST(CsvList, TakesNumbersAsValuesTextsAsCaptionsAndNamesAsLabels) {
  const auto list = data::parse_csv_list("path,age,label,words\na.png,1.5,dog,\"old, tired\"\nb.png,2,cat,7\n");
  ASSERT_TRUE(list.ok()) << list.error();
  EXPECT_THAT(list->classes, ElementsAre("cat", "dog"));
  EXPECT_THAT(list->value_names, ElementsAre("age"));
  EXPECT_EQ(list->entries[0].label, 1);
  EXPECT_THAT(list->entries[0].values, ElementsAre(1.5F));
  EXPECT_THAT(list->entries[1].captions, ElementsAre("7"));
  const auto numbers = data::parse_csv_list("label,path\n7,a.png\n0,b.png\n");
  EXPECT_THAT(numbers->classes, IsEmpty());
  EXPECT_EQ(numbers->entries[0].label, 7);
}

TEST(CsvList, NamesTheLineOfWhatDoesNotFit) {
  EXPECT_THAT(data::parse_csv_list("").error(), HasSubstr("no header row"));
  EXPECT_THAT(data::parse_csv_list("file,label\na,1\n").error(), HasSubstr("line 1"));
  EXPECT_THAT(data::parse_csv_list("path,label\na,1\nb\n").error(), HasSubstr("line 3: 1 fields"));
  EXPECT_THAT(data::parse_csv_list("path,label\n,1\n").error(), HasSubstr("line 2: the path is empty"));
}

/// The labels of a column, or the reason why it is rejected.
std::vector<std::int64_t> labels_of(const std::vector<std::string>& column) {
  std::string text = "path, label\n";
  for (const std::string& label : column) text += "a.png," + label + "\n";
  const auto list = data::parse_csv_list(text);
  EXPECT_TRUE(list.ok()) << list.error();
  std::vector<std::int64_t> labels;
  for (const data::ListEntry& entry : list->entries) labels.push_back(entry.label.value());
  return labels;
}

TEST(CsvList, LabelsThatAreNumbersAreThoseNumbers) {
  EXPECT_THAT(labels_of({"0.0", "1.0", "2.0", "10.0"}), ElementsAre(0, 1, 2, 10));
  EXPECT_THAT(labels_of({" 2", "\"10\"", "+1", "1e1"}), ElementsAre(2, 10, 1, 10));
  EXPECT_THAT(labels_of({"b", "7", "a", "0"}), ElementsAre(3, 1, 2, 0)) << "characters";
  EXPECT_THAT(labels_of({"none", "cat"}), ElementsAre(1, 0)) << "names, all of them";
}

TEST(CsvList, WhatIsNoClassIsRefusedWithItsLine) {
  const auto error = [](const std::string& first, const std::string& second) {
    return data::parse_csv_list("path,label\na," + first + "\nb," + second + "\n").error();
  };
  EXPECT_THAT(error("1.0", "0.5"), HasSubstr("line 3: '0.5' in the column 'label' is not a class"));
  EXPECT_THAT(error("-1", "0"), HasSubstr("line 2: '-1'"));
  EXPECT_THAT(error("1", "nan"), AllOf(HasSubstr("line 3: 'nan'"), HasSubstr("such as '1' in line 2")));
  EXPECT_THAT(error("", "1"), HasSubstr("line 2: ''"));
  EXPECT_THAT(error("cat", ""), HasSubstr("line 3: ''"));
  EXPECT_THAT(error("cat", "10"), HasSubstr("line 2: 'cat'")) << "10 would come before 2";
}

TEST(CsvList, AColumnOfNumbersWithAGapIsNoCaption) {
  EXPECT_THAT(data::parse_csv_list("path,age\na,1.5\nb,nan\n").error(), HasSubstr("line 3: 'nan' in the column 'age'"));
  EXPECT_THAT(data::parse_csv_list("path,age\na,1.5\nb,\n").error(), HasSubstr("line 3: ''"));
  EXPECT_THAT(data::parse_csv_list("path,age\na,1e39\n").error(), HasSubstr("too large for a float"));
  const auto list = data::parse_csv_list("path,age,words\na, 1.5,7\nb,+2,seven\n");
  ASSERT_TRUE(list.ok()) << list.error();
  EXPECT_THAT(list->entries[0].values, ElementsAre(1.5F));
  EXPECT_THAT(list->entries[1].values, ElementsAre(2.0F));
  EXPECT_THAT(list->entries[0].captions, ElementsAre("7"));
}

TEST(ClassFolders, ThatAreNumbersKeepTorchvisionsOrderAndSayIt) {
  const test::TempDir root;
  for (const char* name : {"0/a.png", "2/a.png", "10/a.png"}) put(root / name);
  ::testing::internal::CaptureStderr();
  const ClassFolders classes(root.path());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("sorted as text, as in torchvision: '10' is class 1"));
  EXPECT_THAT(classes.class_names(), ElementsAre("0", "10", "2"));
}

TEST(JsonList, TakesWholeNumbersInEverySpelling) {
  const auto list = data::parse_json_list(R"([{"path": "a", "label": 1.0}, {"path": "b", "label": 10}])");
  ASSERT_TRUE(list.ok()) << list.error();
  EXPECT_EQ(list->entries[0].label, 1);
  EXPECT_THAT(data::parse_json_list(R"([{"path": "a", "label": 0.5}])").error(), HasSubstr("0.5"));
  EXPECT_THAT(data::parse_json_list(R"([{"path": "a", "label": true}])").error(), HasSubstr("true"));
  EXPECT_THAT(data::parse_json_list("{\"path\": \"a\", \"values\": [NaN]}").error(),
              HasSubstr("NaN is not a JSON number"));
}

TEST(JsonList, ReadsAnArrayAndLinesAlike) {
  const std::string a = R"({"path": "a.png", "label": 3, "caption": "one"})";
  const std::string b = R"({"path": "b.png", "captions": ["x", "y"], "values": [0.5, 2]})";
  for (const std::string& text : {"[" + a + ",\n" + b + "]", a + "\n\n" + b}) {
    const auto list = data::parse_json_list(text);
    ASSERT_TRUE(list.ok()) << list.error();
    ASSERT_EQ(list->entries.size(), 2U);
    EXPECT_EQ(list->entries[0].label, 3);
    EXPECT_THAT(list->entries[1].captions, ElementsAre("x", "y"));
    EXPECT_THAT(list->entries[1].values, ElementsAre(0.5F, 2.0F));
  }
}

TEST(JsonList, GivesBoxesTheirLabels) {
  const auto list =
      data::parse_json_list(R"([{"path": "a", "boxes": [[1, 2, 3, 5], [0, 0, 1, 1]], "labels": ["x", "b"]}])");
  ASSERT_TRUE(list.ok()) << list.error();
  const auto& objects = list->entries[0].objects;
  EXPECT_EQ(objects[0].box, (Box{1, 2, 3, 5}));
  EXPECT_EQ(objects[0].area, 6.0F);
  EXPECT_EQ(objects[0].label, 1);
  EXPECT_EQ(objects[1].label, 0);
}

TEST(JsonList, SaysWhichEntryIsWrongAndWhy) {
  const auto error = [](const std::string& text) { return data::parse_json_list(text).error(); };
  EXPECT_EQ(error("[{\"path\": \"a\"},\n {\"path\": }]"), "line 2: not JSON (byte 27)");
  EXPECT_EQ(error("{\"path\": \"a\"}\n{"), "line 2: not a JSON object");
  const std::string huge = "1" + std::string(5000, '0') + ".5";
  EXPECT_EQ(error("[{\"path\": \"a\", \"values\": [" + huge + "]}]"), "a number too large for a double");
  EXPECT_EQ(error("{\"path\": \"a\", \"values\": [" + huge + "]}"), "line 1: a number too large for a double");
  EXPECT_EQ(error("{\"path\": " + std::string(100, '[')),
            "line 1: lists and objects are nested more than 64 deep (byte 73)");
  EXPECT_EQ(error(R"([{"path": "a"}, {"label": 1}])"), "entry 1: an entry needs a string \"path\"");
  EXPECT_EQ(error(R"([{"path": "a", "boxes": [[1, 2, 0, 5]]}])"), "entry 0: box [1,2,0,5] ends before it begins");
  EXPECT_EQ(error(R"([{"path": "a", "boxes": [[1, 2, 3, 5]], "labels": [1, 2]}])"), "entry 0: 2 labels for 1 boxes");
  EXPECT_EQ(error(R"([{"path": "a", "label": 1}, {"path": "b", "label": "x"}])"),
            "some labels are numbers and others names");
  EXPECT_THAT(error(R"([{"path": "a", "labels": [1048576]}])"), HasSubstr("at most 1048575"));
}

TEST(ImageList, ReadsFilesBesideItAndWritesSeveralLabelsAsZeroAndOne) {
  const test::TempDir root;
  fs::copy_file(kGolden / "gray.png", root / "a.png");
  put(root / "list.json", R"([{"path": "a.png", "labels": [0, 2]}])");
  const ImageList list(root / "list.json");
  AnnotatedImage picture = list.get(0);
  EXPECT_THAT(picture.values, ElementsAre(1.0F, 0.0F, 1.0F));
  EXPECT_EQ(picture.pixels.decoded(ColorMode::kGray).channels, 1);
}

TEST(ImageList, NamesAMissingFileWhenItIsRead) {
  const test::TempDir root;
  put(root / "list.csv", "path\nnone.png\n");
  const ImageList list(root / "list.csv");
  EXPECT_THAT(fault_of<DataError>([&] { (void)list.get(0); }), HasSubstr((root / "none.png").string()));
}

TEST(OpenSource, TellsFoldersClassesAndListsApart) {
  const test::TempDir root;
  put(root / "plain/a.png");
  put(root / "classes/x/a.png");
  put(root / "list.csv", "path\na.png\n");
  fs::create_directory(root / "empty");
  EXPECT_EQ(detect_source((root / "plain").string()), SourceKind::kFolder);
  EXPECT_EQ(detect_source((root / "classes").string()), SourceKind::kClasses);
  EXPECT_EQ(detect_source((root / "list.csv").string()), SourceKind::kList);
  EXPECT_EQ(open_source({.path = (root / "classes").string()})->get(0).label, 0);
  EXPECT_THAT(fault_of<DataError>([&] { (void)detect_source((root / "empty").string()); }), HasSubstr("--type"));
  EXPECT_THAT(fault_of<DataError>([&] { (void)detect_source((root / "none").string()); }), HasSubstr("does not exist"));
  EXPECT_THAT(fault_of<UsageError>([&] { (void)parse_source_kind("clases"); }), HasSubstr("did you mean 'classes'"));
}

TEST(OpenSource, TakesNoFoldersOfADetectionSetForClasses) {
  const test::TempDir root;
  put(root / "coco/train2017/a.png");
  for (const char* name : {"captions_train2017.json", "instances_train2017.json"})
    put(root / "coco/annotations" / name);
  try {
    (void)detect_source((root / "coco").string());
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_THAT(error.message(), HasSubstr("holds a folder annotations, so its folders are not classes"));
    EXPECT_THAT(error.hint(), HasSubstr(fmt::format(
                                  "data.train={0}/annotations/instances_train2017.json data.train_images={0}/train2017",
                                  (root / "coco").string())));
  }
  put(root / "yolo/images/a.png");
  put(root / "yolo/labels/a.txt");
  EXPECT_THAT(fault_of<DataError>([&] { (void)detect_source((root / "yolo").string()); }),
              HasSubstr("holds a folder labels, so its folders are not classes"));
  put(root / "roboflow/a.png");
  put(root / "roboflow/_annotations.coco.json",
      R"({"images": [{"id": 1, "file_name": "a.png"}], "annotations": [], "categories": []})");
  EXPECT_EQ(detect_source((root / "roboflow").string()), SourceKind::kCoco);
  EXPECT_EQ(open_source({.path = (root / "roboflow").string()})->size(), 1);
  put(root / "roboflow/annotations.json",
      R"({"images": [{"id": 1, "file_name": "a.png"}], "annotations": [], "categories": [{"id": 1, "name": "own"}]})");
  EXPECT_EQ(open_source({.path = (root / "roboflow").string()})->class_names(), (std::vector<std::string>{"own"}))
      << "a user's own annotations come before the export's";
}

}  // namespace sources_lists_test

namespace sources_text_test {

namespace fs = std::filesystem;
using test::fault_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Captions of images: names with spaces, and the encodings of common tools.

// U+72D7, a dog, and "caf\u00e9".
const std::string kDog = "\xe7\x8b\x97";
const std::string kDogInGbk = "\xb9\xb7";
const std::string kCafe = "caf\xc3\xa9";
const std::string kCafeInLatin1 = "caf\xe9";

void put(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

/// ASCII in Windows' "Unicode": with a byte order mark, low byte first.
std::string in_utf16(const std::string& ascii) {
  std::string bytes = "\xff\xfe";
  for (const char letter : ascii) bytes += std::string{letter, '\0'};
  return bytes;
}

std::string box_of(const std::string& name) {
  return "<annotation><size><width>9</width><height>9</height></size><object><name>" + name +
         "</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></object></annotation>";
}

/// Images whose names differ only after a space.
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
  EXPECT_EQ(utf8_text("a\nb" + kDogInGbk).error(), "line 2 is not UTF-8");
  EXPECT_THAT(utf8_text(in_utf16("ab").substr(2)).error(), HasSubstr("looks like UTF-16"));
  EXPECT_EQ(converted_text(kDogInGbk, "GB2312").value(), kDog);
  EXPECT_EQ(converted_text(kCafeInLatin1, "ISO-8859-1").value(), kCafe);
  EXPECT_EQ(converted_text(kCafeInLatin1, "windows-1252").value(), kCafe);
  EXPECT_EQ(converted_text("\xff", "GBK").error(), "byte 0 is not part of a valid GB18030 character");
  EXPECT_EQ(converted_text("a", "../x").error(), "the encoding '../x' is not supported");
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
  EXPECT_THAT(name_in(box_of(kDogInGbk)), AllOf(HasSubstr("a name that is not UTF-8"), HasSubstr("line 1")));
  EXPECT_THAT(name_in(declared("x-mine", kDogInGbk)), HasSubstr("the encoding 'x-mine' is not supported"));
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
              AllOf(HasSubstr("b.csv"), HasSubstr("line 2 is not UTF-8")));
  put(root / "c.json", R"({"images": [], "categories": [{"id": 1, "name": ")" + kCafeInLatin1 + "\"}]}");
  EXPECT_THAT(fault_of<DataError>([&] { CocoImages{root / "c.json"}; }),
              AllOf(HasSubstr("c.json"), HasSubstr("line 1 is not UTF-8")));
}

}  // namespace sources_text_test

namespace sources_names_test {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Names: extensions in upper and lower case, and names that begin with a dot, the leftovers of other programs.

const std::string kPicture = encode_png(view_of(Image{{2, 1}, 1, {0, 1}}));
const std::string kXml =
    "<annotation><object><name>cat</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox>"
    "</object></annotation>";

void put(const fs::path& file, const std::string& bytes) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << bytes;
}

class Names : public ::testing::Test {
 protected:
  const test::TempDir folder_;
};

TEST_F(Names, OfMasksAndTheirPicturesEndInAnyCase) {
  for (const char* ending : {".png", ".PNG", ".Png", ".jpg", ".JPG", ".Jpg", ".jpeg", ".JPEG", ".JPeG"}) {
    for (const char* mask : {".png", ".PNG", ".pNg"}) {
      const fs::path set = folder_ / (std::string("set") + ending + mask);
      put(set / (std::string("images/a.b") + ending), kPicture);
      put(set / (std::string("masks/a.b") + mask), kPicture);
      put(set / "list.txt", "a.b\n");
      EXPECT_EQ(open_source({.path = set.string()})->get(0).maps.size(), 1U) << set;
      const MaskFolders listed(set / "images", set / "masks", {.list = set / "list.txt"});
      EXPECT_EQ(listed.get(0).maps.size(), 1U) << set;
    }
  }
}

TEST_F(Names, OfVocEndInAnyCase) {
  for (const char* ending : {".jpg", ".JPG", ".Jpeg", ".pnG"}) {
    for (const char* xml : {".xml", ".XML", ".Xml"}) {
      const fs::path set = folder_ / (std::string("set") + ending + xml);
      put(set / (std::string("JPEGImages/a") + ending), kPicture);
      put(set / (std::string("Annotations/a") + xml), kXml);
      EXPECT_EQ(VocImages(set).get(0).objects.size(), 1U) << set;
      put(set / "ImageSets/Main/trainval.txt", "a\n");
      EXPECT_EQ(VocImages(set).get(0).objects.size(), 1U) << set << " by its list";
    }
  }
}

TEST_F(Names, OfOtherSourcesEndInAnyCase) {
  put(folder_ / "classes/cat/a.PNG", kPicture);
  EXPECT_EQ(detect_source((folder_ / "classes").string()), SourceKind::kClasses);
  put(folder_ / "list/a.PNG", kPicture);
  put(folder_ / "list/all.CSV", "path,label\na.PNG,cat\n");
  EXPECT_EQ(open_source({.path = (folder_ / "list/all.CSV").string()})->get(0).label, 0);
  fs::create_directory(folder_ / "shards");
  TarWriter writer(folder_ / "shards/a.TAR");
  writer.add({.pixels = Image{{2, 1}, 1, {0, 1}}});
  writer.finish();
  EXPECT_EQ(open_source({.path = (folder_ / "shards").string()})->size(), 1);
}

TEST_F(Names, ThatBeginWithADotAreNoClass) {
  put(folder_ / "cat/a.png", kPicture);
  put(folder_ / "dog/b.png", kPicture);
  put(folder_ / ".ipynb_checkpoints/a-checkpoint.png", kPicture);
  put(folder_ / "cat/.ipynb_checkpoints/a-checkpoint.png", kPicture);
  put(folder_ / ".git/x", "");
  const auto source = open_source({.path = folder_.path().string()});
  EXPECT_THAT(source->class_names(), ElementsAre("cat", "dog"));
  EXPECT_EQ(source->size(), 2);
}

TEST_F(Names, ThatBeginWithADotAreNoSplit) {
  put(folder_ / "train/a.png", kPicture);
  put(folder_ / "test/b.png", kPicture);
  put(folder_ / ".ipynb_checkpoints/a-checkpoint.png", kPicture);
  EXPECT_THAT(split_folders(folder_.path().string()), ElementsAre("test", "train"));
}

TEST_F(Names, ThatBeginWithADotAreNoImageNoMaskAndNoAnnotation) {
  put(folder_ / "files/a.png", kPicture);
  put(folder_ / "files/._a.png", "what macOS leaves beside a file");
  EXPECT_EQ(list_files(folder_ / "files").paths.size(), 1U);
  EXPECT_EQ(ImageFiles(folder_ / "files").size(), 1);
  EXPECT_EQ(ImageFiles(folder_ / "files", {.recursive = true}).size(), 1);
  put(folder_ / "masked/images/a.png", kPicture);
  put(folder_ / "masked/masks/a.png", kPicture);
  put(folder_ / "masked/masks/._a.png", "x");
  EXPECT_EQ(open_source({.path = (folder_ / "masked").string()})->size(), 1);
  put(folder_ / "voc/JPEGImages/a.png", kPicture);
  put(folder_ / "voc/Annotations/a.xml", kXml);
  put(folder_ / "voc/Annotations/._a.xml", "x");
  EXPECT_EQ(VocImages(folder_ / "voc").size(), 1);
}

TEST_F(Names, OfAFolderThatWasNamedMayBeginWithADot) {
  put(folder_ / ".cache/set/cat/a.png", kPicture);
  EXPECT_EQ(open_source({.path = (folder_ / ".cache/set").string()})->size(), 1);
  EXPECT_EQ(ImageFiles(folder_ / ".cache", {.recursive = true}).size(), 1);
}

}  // namespace sources_names_test
}  // namespace lockstep
