// SPDX-License-Identifier: Apache-2.0
// COCO, Pascal VOC and folders of masks: the marks and their positions, and every error with its location.
#include <fmt/format.h>

#include <array>
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "data/sources/annotations/coco_json.h"
#include "data/sources/annotations/voc_parse.h"
#include "data/sources/files/number_map.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/data/png_writer.h"
#include "lockstep/data/sources/coco.h"
#include "lockstep/data/sources/held_out.h"
#include "lockstep/data/sources/image_files.h"
#include "lockstep/data/sources/mask_folders.h"
#include "lockstep/data/sources/open_source.h"
#include "lockstep/data/sources/voc.h"
#include "support/data_folder.h"
#include "support/fault_of.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace sources_marks_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using test::fault_of;

namespace fs = std::filesystem;

const fs::path kGolden = fs::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/data/golden";

void put(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

Image drawn(const std::vector<double>& polygon, ImageSize size) {
  Image mask{size, 1, std::vector<std::uint8_t>(static_cast<std::size_t>(size.width * size.height))};
  EXPECT_TRUE(data::draw_polygon(polygon, mask).ok());
  return mask;
}

// Computed by hand from COCO's rule: five steps per pixel, columns at their middle, rows starting with the first at or
// below the border.
TEST(Polygon, CoversThePixelsThatCocoGivesIt) {
  EXPECT_THAT(drawn({1, 1, 3, 1, 3, 3, 1, 3}, {4, 4}).pixels,
              ElementsAre(0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0));
  EXPECT_THAT(drawn({0, 0, 4, 0, 0, 4}, {4, 4}).pixels, ElementsAre(1, 1, 1, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(drawn({-5, -5, 50, -5, 50, 50, -5, 50}, {2, 2}).pixels, ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(drawn({1, 1, 1, 1, 1, 1}, {2, 2}).pixels, ElementsAre(0, 0, 0, 0));
}

TEST(Polygon, TwoThatShareABorderShareNoPixelAndLeaveNoneOut) {
  const ImageSize size{40, 30};
  const Image upper = drawn({0, 0, 40, 0, 40, 17.3}, size);
  const Image lower = drawn({0, 0, 40, 17.3, 40, 30, 0, 30}, size);
  for (std::size_t i = 0; i < upper.pixels.size(); ++i) EXPECT_EQ(upper.pixels[i] + lower.pixels[i], 1) << i;
}

TEST(Polygon, ThatIsNoneOrFarOutsideIsRefused) {
  Image mask{{4, 4}, 1, std::vector<std::uint8_t>(16)};
  EXPECT_EQ(data::draw_polygon({1, 1, 2, 2}, mask).error(),
            "a polygon needs x and y of at least 3 corners, not 4 numbers");
  EXPECT_THAT(data::draw_polygon({1, 1, 2, 2, 1e9, 0}, mask).error(), HasSubstr("corner at"));
  EXPECT_THAT(data::draw_polygon({1, 1, 2, 2, std::nan(""), 0}, mask).error(), HasSubstr("corner at"));
  std::vector<double> long_way;
  for (int i = 0; i < 100; ++i) long_way.insert(long_way.end(), {i % 2 == 0 ? -1e5 : 1e5, 0.0});
  EXPECT_THAT(data::draw_polygon(long_way, mask).error(), HasSubstr("outline"));
}

const std::string kCoco = R"({"info": {"x": {"y": 1}}, "annotations": [
  {"id": 1, "image_id": 7, "category_id": 90, "bbox": [1, 2, 3, 4], "area": 5.5, "iscrowd": 0,
   "segmentation": [[1, 1, 3, 1, 3, 3, 1, 3], [0, 0, 1, 0, 1, 1, 0, 1]], "keypoints": [1, 2, 2, 3, 4, 1, 0, 0, 0]},
  {"id": 2, "image_id": 7, "category_id": 3, "bbox": [0, 0, 2, 0], "iscrowd": 1,
   "segmentation": {"counts": [1, 390], "size": [17, 23]}},
  {"id": 3, "image_id": 5, "caption": "a dog"}],
 "images": [{"id": 5, "file_name": "a.png"}, {"id": 7, "file_name": "rgb.png", "width": 23, "height": 17}],
 "categories": [{"id": 90, "name": "dog"}, {"id": 3, "name": "cat"}]})";

TEST(Coco, ReadsBoxesLabelsPointsCrowdsAndCaptions) {
  const auto coco = data::parse_coco(kCoco, {.masks = true});
  ASSERT_TRUE(coco.ok()) << coco.error();
  EXPECT_THAT(coco->class_names, ElementsAre("cat", "dog"));
  EXPECT_THAT(coco->category_ids, ElementsAre(3, 90));
  EXPECT_THAT(coco->images[0].captions, ElementsAre("a dog"));
  const auto& objects = coco->images[1].objects;
  ASSERT_EQ(objects.size(), 2U);
  EXPECT_EQ(objects[0].box, (Box{1, 2, 4, 6}));
  EXPECT_EQ(objects[0].label, 1);
  EXPECT_EQ(objects[0].area, 5.5F);
  EXPECT_THAT(objects[0].points, ElementsAre(Point{1, 2, true}, Point{3, 4, true}, Point{0, 0, false}));
  EXPECT_TRUE(objects[1].crowd);
  EXPECT_EQ(objects[1].area, 0.0F);
  const auto kept = data::parse_coco(kCoco, {.remap = false});
  EXPECT_EQ(kept->images[1].objects[0].label, 90);
  EXPECT_EQ(kept->class_names.at(90), "dog");
}

TEST(Coco, NamesTheAnnotationThatIsWrongOrCountsIt) {
  const auto with = [](const std::string& annotation) {
    return R"({"categories": [{"id": 1, "name": "x"}], "images": [{"id": 1, "file_name": "a", "width": 4, "height": 4}],
      "annotations": [{"image_id": 1, "category_id": 1, "bbox": [0, 0, 1, 1]}, )" +
           annotation + "]}";
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"image_id": 2, "category_id": 1, "bbox": [0, 0, 1, 1]})", "no image has the id 2"},
      {R"({"image_id": 1, "category_id": 9, "bbox": [0, 0, 1, 1]})", "no category has the id 9"},
      {R"({"image_id": 1, "category_id": 1, "bbox": [0, 0, -1, 1]})", "a box of -1 x 1 pixels"},
      {R"({"image_id": 1, "category_id": 1, "bbox": [0, 0, 1]})", "no \"bbox\" of 4 numbers"},
      {R"({"image_id": 1, "category_id": 1, "bbox": [0, 0, 1, 1], "segmentation": {"counts": [16], "size": [3, 4]}})",
       "a mask of 4 x 3 pixels for an image of 4 x 4"},
      {R"({"image_id": 1, "category_id": 1, "bbox": [0, 0, 1, 1], "segmentation": {"counts": "\u007f", "size": [4, 4]}})",
       "character 0 of a mask's counts is invalid"}};
  for (const auto& [annotation, why] : cases) {
    EXPECT_EQ(data::parse_coco(with(annotation), {.masks = true}).error(), "annotations[1]: " + why);
    const auto lenient = data::parse_coco(with(annotation), {.masks = true, .strict = false});
    ASSERT_TRUE(lenient.ok()) << lenient.error();
    EXPECT_EQ(lenient->left_out, 1);
    EXPECT_EQ(lenient->images[0].objects.size(), 1U);
  }
  EXPECT_EQ(data::parse_coco("[1]", {}).error(), "not a JSON object");
  EXPECT_EQ(data::parse_coco("{\"images\": [}", {}).error(), "byte 13: not JSON");
  const std::string huge = "1" + std::string(5000, '0');
  EXPECT_EQ(data::parse_coco("{\"images\": [{\"id\": " + huge + ".5}]}", {}).error(),
            "a number too large for a double");
  EXPECT_EQ(data::parse_coco("{}", {}).error(), "no list \"images\"");
  EXPECT_EQ(data::parse_coco(R"({"images": [{"id": 1, "file_name": "a"}, 5]})", {}).error(),
            "images[1]: not an object");
}

/// A file with one image, one class and one annotation, in which one string is replaced.
Result<data::Coco> coco_with(const std::string& from, const std::string& to) {
  std::string text = R"({"categories": [{"id": 1, "name": "x"}],
    "images": [{"id": 7, "file_name": "a", "width": 4, "height": 5}],
    "annotations": [{"id": 3, "image_id": 7, "category_id": 1, "bbox": [0, 0, 1, 2], "area": 1.5, "iscrowd": 0}]})";
  text.replace(text.find(from), from.size(), to);
  return data::parse_coco(text, {.masks = false});
}

TEST(Coco, TakesNumbersAndFlagsInEverySpelling) {
  const auto object_with = [](const std::string& from, const std::string& to) {
    const auto coco = coco_with(from, to);
    EXPECT_TRUE(coco.ok()) << coco.error();
    return coco->images.at(0).objects.at(0);
  };
  EXPECT_TRUE(object_with("\"iscrowd\": 0", "\"iscrowd\": true").crowd);
  EXPECT_TRUE(object_with("\"iscrowd\": 0", "\"iscrowd\": 1.0").crowd);
  EXPECT_FALSE(object_with("\"iscrowd\": 0", "\"iscrowd\": false").crowd);
  EXPECT_EQ(object_with("\"category_id\": 1", "\"category_id\": 1.0").label, 0);
  EXPECT_EQ(object_with("\"image_id\": 7", "\"image_id\": 7.0").area, 1.5F);
  EXPECT_EQ(object_with("\"id\": 3", "\"id\": \"3-a\"").area, 1.5F) << "an annotation may be called by a text";
  EXPECT_EQ(object_with("\"area\": 1.5", "\"area\": null").area, 2.0F) << "the box's, if none is given";
  EXPECT_EQ(coco_with("\"width\": 4", "\"width\": 4.0")->images.at(0).size.width, 4);
}

TEST(Coco, RefusesByItsNameWhatIsNoNumber) {
  const auto error = [](const std::string& from, const std::string& to) { return coco_with(from, to).error(); };
  EXPECT_EQ(error("\"iscrowd\": 0", "\"iscrowd\": \"1\""),
            "annotations[0]: \"iscrowd\" is the text \"1\", must be 0, 1, true or false");
  EXPECT_EQ(error("\"category_id\": 1", "\"category_id\": \"1\""),
            "annotations[0]: \"category_id\" is the text \"1\", must be a whole number");
  EXPECT_EQ(error("\"category_id\": 1", "\"category_id\": 1.5"),
            "annotations[0]: \"category_id\" is 1.5, must be a whole number");
  EXPECT_EQ(error("\"image_id\": 7", "\"image_id\": \"7\""),
            "annotations[0]: \"image_id\" is the text \"7\", must be a whole number");
  EXPECT_EQ(error("\"image_id\": 7", "\"other\": 7"), "annotations[0]: no \"image_id\"");
  EXPECT_EQ(error("\"area\": 1.5", "\"area\": \"big\""),
            "annotations[0]: \"area\" is the text \"big\", must be a number");
  EXPECT_EQ(error("\"area\": 1.5", "\"area\": -1"), "annotations[0]: an area of -1 pixels");
  EXPECT_THAT(error("\"area\": 1.5", "\"area\": NaN"), HasSubstr("not JSON (NaN is not a JSON number)"));
  EXPECT_EQ(error("\"id\": 7", "\"id\": \"7\""),
            "images[0]: an image needs \"id\" and \"file_name\": \"id\" is the text \"7\", must be a whole number");
  EXPECT_EQ(error("\"width\": 4", "\"width\": \"4\""),
            "images[0]: \"width\" is the text \"4\", must be a whole number");
  EXPECT_EQ(error("\"width\": 4", "\"width\": -4"), "images[0]: -4 x 5 pixels");
  EXPECT_EQ(error("\"id\": 1,", "\"id\": \"1\","),
            "categories[0]: a category needs \"id\" and \"name\": \"id\" is the text \"1\", must be a whole number");
}

TEST(CocoImages, DrawMasksOverTheirPictures) {
  const test::TempDir folder;
  put(folder / "c.json", kCoco);
  fs::copy_file(kGolden / "rgb.png", folder / "rgb.png");
  EXPECT_THAT(fault_of<DataError>([&] { CocoImages(folder / "c.json"); }),
              AllOf(HasSubstr("1 of the 2 images"), HasSubstr("a.png")));
  const CocoImages coco(folder / "c.json", {.masks = true, .strict = false});
  EXPECT_EQ(coco.left_out(), 1 + 0);
  ASSERT_EQ(coco.size(), 1);
  const AnnotatedImage picture = coco.get(0);
  EXPECT_EQ(picture.id, 7);
  const Image& mask = *picture.objects[0].mask;
  EXPECT_EQ(mask.size, (ImageSize{23, 17}));
  EXPECT_EQ(std::count(mask.pixels.begin(), mask.pixels.end(), 1), 5);
  EXPECT_EQ(std::count(picture.objects[1].mask->pixels.begin(), picture.objects[1].mask->pixels.end(), 1), 390);
  EXPECT_EQ(detect_source((folder / "c.json").string()), SourceKind::kCoco);
}

std::string voc(const std::string& object) {
  return "<annotation><size><width>10</width><height>8</height></size>" + object + "</annotation>";
}
std::string voc_box(const std::string& name, const std::array<int, 4>& corners, int difficult = 0) {
  return fmt::format(
      "<object><name>{}</name><difficult>{}</difficult><bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax>"
      "<ymax>{}</ymax></bndbox></object>",
      name, difficult, corners[0], corners[1], corners[2], corners[3]);
}

TEST(Voc, CountsPixelsFromOneAndCutsAtTheBorder) {
  const auto picture = data::parse_voc(
      voc(voc_box("cat", {1, 2, 10, 8}, 1) + voc_box("dog", {0, 0, 12, 9}) + voc_box("x", {3, 3, 3, 5})));
  ASSERT_TRUE(picture.ok()) << picture.error();
  EXPECT_EQ(picture->objects[0].box, (Box{0, 1, 10, 8}));
  EXPECT_TRUE(picture->objects[0].difficult);
  EXPECT_EQ(picture->objects[1].box, (Box{0, 0, 10, 8}));
  EXPECT_EQ(picture->objects[2].box.area(), 0.0F);
}

TEST(Voc, NamesTheByteOrObjectThatIsWrong) {
  EXPECT_THAT(data::parse_voc("<annotation><a></annotation>").error(), HasSubstr("byte 1"));
  EXPECT_EQ(data::parse_voc("<x/>").error(), "no <annotation>");
  EXPECT_THAT(data::parse_voc(voc(voc_box("a", {5, 1, 4, 2}))).error(),
              HasSubstr("object 0 has a box from (5, 1) to (4, 2)"));
  EXPECT_THAT(data::parse_voc(voc("<object><name>a</name></object>")).error(), HasSubstr("has no bndbox"));
  EXPECT_THAT(data::parse_voc(voc("<object/>")).error(), HasSubstr("has no name"));
}

/// Two images, one with a cat and an empty box, one with a difficult dog; a third without XML.
class VocFolder : public ::testing::Test {
 protected:
  VocFolder() {
    for (const char* name : {"a", "b", "c"}) put(root_ / (std::string("JPEGImages/") + name + ".jpg"), "unused");
    put(root_ / "Annotations/a.xml", voc(voc_box("cat", {1, 1, 2, 2}) + voc_box("cat", {4, 4, 4, 4})));
    put(root_ / "Annotations/b.xml", voc(voc_box("dog", {1, 1, 2, 2}, 1)));
    put(root_ / "ImageSets/Main/train.txt", "b -1\na 1\n");
    put(root_ / "ImageSets/Main/all.txt", "a\nb\nc\n");
  }
  test::TempDir root_;
};

TEST_F(VocFolder, GivesASplitWithTheClassesOfAll) {
  const VocImages train(root_.path(), {.split = "train", .difficult_is_crowd = true});
  ASSERT_EQ(train.size(), 2);
  EXPECT_THAT(train.class_names(), ElementsAre("cat", "dog"));
  EXPECT_EQ(train.get(0).objects[0].label, 1);
  EXPECT_TRUE(train.get(0).objects[0].crowd);
  EXPECT_EQ(train.get(1).objects.size(), 2U);
  EXPECT_EQ(train.empty_boxes(), 1);
  EXPECT_EQ(VocImages(root_.path(), {.split = "train", .drop_empty_boxes = true}).get(1).objects.size(), 1U);
}

TEST_F(VocFolder, NamesWhatIsMissingOrCountsIt) {
  EXPECT_THAT(fault_of<DataError>([&] { VocImages(root_.path(), {.split = "all"}); }),
              HasSubstr("c.xml does not exist"));
  EXPECT_EQ(VocImages(root_.path(), {.split = "all", .strict = false}).left_out(), 1);
  EXPECT_THAT(fault_of<DataError>([&] { VocImages(root_.path(), {.split = "val"}); }),
              HasSubstr("available splits: all, train"));
  EXPECT_THAT(fault_of<DataError>([&] { VocImages(root_.path(), {.split = "train", .class_names = {"cat"}}); }),
              AllOf(HasSubstr("b.xml"), HasSubstr("'dog'")));
  std::filesystem::remove(root_ / "JPEGImages/b.jpg");
  EXPECT_THAT(fault_of<DataError>([&] { VocImages(root_.path(), {.split = "train"}); }),
              AllOf(HasSubstr("Annotations/b.xml belongs to no image: "),
                    HasSubstr("JPEGImages/b (.jpg, .jpeg or .png) does not exist")));
}

/// As written by labelling tools: no lists, other folder names, and paths from the tool's machine.
void write_plain_voc(const std::filesystem::path& root) {
  for (const char* name : {"one.png", "two.JPG", "3.jpeg"}) put(root / "images" / name, "unused");
  const std::string elsewhere =
      "<folder>photos</folder><filename>C:\\work\\photos\\3.jpeg</filename><path>/home/ann/3.jpeg</path>";
  put(root / "annotations/one.xml", voc(voc_box("mug", {1, 1, 2, 2})));
  put(root / "annotations/two.xml", voc(voc_box("mug", {1, 1, 2, 2})));
  put(root / "annotations/three.xml", voc(elsewhere + voc_box("mug", {1, 1, 2, 2})));
}

TEST(VocImages, NeedNeitherListsNorTheNamesOfItsFolders) {
  const test::TempDir root;
  write_plain_voc(root.path());
  EXPECT_EQ(detect_source(root.path().string()), SourceKind::kVoc);
  const auto set = open_source({.path = root.path().string()});
  ASSERT_EQ(set->size(), 3);
  EXPECT_THAT(set->class_names(), ElementsAre("mug"));
  EXPECT_EQ(set->describe(0), (root / "images/one.png").string());
  EXPECT_EQ(set->describe(1), (root / "images/3.jpeg").string()) << "the name in the XML, without its folders";
  EXPECT_EQ(set->describe(2), (root / "images/two.JPG").string());
  EXPECT_THAT(fault_of<DataError>([&] { (void)open_source({.path = root.path().string(), .split = "train"}); }),
              AllOf(HasSubstr("contains no split lists"), HasSubstr("data.val_fraction")));
}

TEST(VocImages, MayLieBesideTheirXml) {
  const test::TempDir root;
  put(root / "a.jpg", "unused");
  put(root / "a.xml", voc(voc_box("mug", {1, 1, 2, 2})));
  EXPECT_EQ(detect_source(root.path().string()), SourceKind::kVoc);
  EXPECT_EQ(open_source({.path = root.path().string()})->size(), 1);
}

TEST(VocImages, HaveTheLabelsOfAGivenListOfNames) {
  const test::TempDir root;
  write_plain_voc(root.path());
  const auto set = open_source({.path = root.path().string(), .class_names = {"cup", "mug"}});
  EXPECT_EQ(std::dynamic_pointer_cast<VocImages>(set)->objects(0)[0].label, 1);
  EXPECT_THAT(fault_of<DataError>([&] {
                (void)open_source({.path = root.path().string(), .class_names = {"cup", "jug"}});
              }),
              AllOf(HasSubstr("'mug'"), HasSubstr("cup, jug")));
}

TEST(HoldOut, DependsOnSeedAndNamesAlone) {
  std::vector<std::filesystem::path> here;
  std::vector<std::filesystem::path> there;
  for (int i = 0; i < 20; ++i) {
    here.push_back(fmt::format("a/{}.png", i));
    there.insert(there.begin(), fmt::format("b/c/{}.jpg", i));
  }
  const auto names = [](const std::vector<std::filesystem::path>& files, const std::vector<std::int64_t>& indices) {
    std::set<std::string> stems;
    for (const std::int64_t i : indices) stems.insert(files[static_cast<std::size_t>(i)].stem().string());
    return stems;
  };
  const HeldOut one = hold_out(ImageFiles::of(here), 0.25, 7);
  const HeldOut other = hold_out(ImageFiles::of(there), 0.25, 7);
  EXPECT_EQ(one.held_out.size(), 5U);
  EXPECT_EQ(one.rest.size(), 15U);
  EXPECT_EQ(names(here, one.held_out), names(there, other.held_out));
  EXPECT_NE(one.held_out, hold_out(ImageFiles::of(here), 0.25, 8).held_out);
  EXPECT_EQ(hold_out(ImageFiles::of({"a.png", "b.png"}), 0.01, 0).held_out.size(), 1U);
  EXPECT_THROW((void)hold_out(ImageFiles::of({"a.png"}), 0.5, 0), DataError);
}

TEST(VocImages, ReadTheBloodCells) {
  LOCKSTEP_DATA_OR_SKIP(bccd, "bccd");
  std::int64_t boxes = 0;
  std::int64_t empty = 0;
  std::int64_t pictures = 0;
  for (const char* split : {"trainval", "test"}) {
    const VocImages cells(bccd, {.split = split});
    EXPECT_THAT(cells.class_names(), ElementsAre("Platelets", "RBC", "WBC"));
    empty += cells.empty_boxes();
    pictures += cells.size();
    for (std::int64_t i = 0; i < cells.size(); ++i) boxes += std::ssize(cells.get(i).objects);
  }
  EXPECT_EQ(pictures, 364);
  EXPECT_EQ(boxes, 4888);
  EXPECT_EQ(empty, 2);
  EXPECT_EQ(detect_source(bccd.string()), SourceKind::kVoc);
}

TEST(MaskFolders, GiveClassesOrInstances) {
  const test::TempDir root;
  put(root / "p/a.png", encode_png(view_of(Image{{3, 2}, 3, std::vector<std::uint8_t>(18, 9)})));
  put(root / "m/a.png", encode_png(view_of(Image{{3, 2}, 1, {0, 7, 7, 0, 0, 2}})));
  const MaskFolders classes(root / "p", root / "m");
  EXPECT_THAT(classes.get(0).maps[0].image.pixels, ElementsAre(0, 7, 7, 0, 0, 2));
  EXPECT_THAT(classes.get(0).objects, IsEmpty());
  const AnnotatedImage picture = MaskFolders(root / "p", root / "m", {.meaning = MaskMeaning::kInstances}).get(0);
  EXPECT_THAT(picture.maps[0].image.pixels, ElementsAre(0, 1, 1, 0, 0, 1));
  ASSERT_EQ(picture.objects.size(), 2U);
  EXPECT_EQ(picture.objects[0].box, (Box{2, 1, 3, 2}));
  EXPECT_EQ(picture.objects[1].box, (Box{1, 0, 3, 1}));
  EXPECT_EQ(picture.objects[1].area, 2.0F);
  EXPECT_THAT(picture.objects[1].mask->pixels, ElementsAre(0, 1, 1, 0, 0, 0));
}

TEST(MaskFolders, NameWhatDoesNotFit) {
  const test::TempDir root;
  put(root / "p/a.png", encode_png(view_of(Image{{3, 3}, 3, std::vector<std::uint8_t>(27, 9)})));
  put(root / "m/a.png", encode_png(view_of(Image{{3, 2}, 1, std::vector<std::uint8_t>(6)})));
  EXPECT_THAT(fault_of<DataError>([&] { (void)MaskFolders(root / "p", root / "m").get(0); }),
              AllOf(HasSubstr("m/a.png"), HasSubstr("3 x 2 pixels for an image of 3 x 3")));
  put(root / "m/b.png", "");
  EXPECT_THAT(fault_of<DataError>([&] { MaskFolders(root / "p", root / "m"); }), HasSubstr("has no image"));
}

TEST(MaskFolders, AreFoundUnderTheNamesOfVocAndOfPlainFolders) {
  for (const auto& [pictures, masks] : {std::pair{"JPEGImages", "SegmentationClass"},
                                        {"JPEGImages", "SegmentationClassAug"},
                                        {"images", "masks"},
                                        {"images", "instances"}}) {
    const test::TempDir root;
    put(root / pictures / "a.png", encode_png(view_of(Image{{2, 1}, 3, {1, 2, 3, 4, 5, 6}})));
    put(root / masks / "a.png", encode_png(view_of(Image{{2, 1}, 1, {0, 3}})));
    const auto source = open_source({.path = root.path().string()});
    ASSERT_EQ(source->size(), 1) << masks;
    const std::uint8_t second = std::string(masks) == "instances" ? 1 : 3;
    EXPECT_THAT(source->get(0).maps.at(0).image.pixels, ElementsAre(0, second)) << masks;
  }
}

TEST(OpenSource, TellsAFolderOfSplitsFromAFolderOfClasses) {
  const test::TempDir root;
  const std::string picture = encode_png(view_of(Image{{2, 1}, 3, {1, 2, 3, 4, 5, 6}}));
  const std::string mask = encode_png(view_of(Image{{2, 1}, 1, {0, 3}}));
  for (const char* split : {"train", "val"}) {
    put(root / "set" / split / "images/a.png", picture);
    put(root / "set" / split / "masks/a.png", mask);
  }
  put(root / "set/classes.txt", "ground\nroad\ncar\nman\n");
  const std::string set = (root / "set").string();
  EXPECT_THAT(split_folders(set), ElementsAre("train", "val"));
  EXPECT_THAT(fault_of<DataError>([&] { (void)open_source({.path = set}); }), HasSubstr("holds splits: train, val"));
  const auto val = open_source({.path = set, .split = "val"});
  EXPECT_EQ(val->get(0).maps.size(), 1U);
  EXPECT_THAT(val->class_names(), ElementsAre("ground", "road", "car", "man"));
  for (const char* vehicle : {"train", "car"}) put(root / "vehicles" / vehicle / "a.png", picture);
  EXPECT_TRUE(split_folders((root / "vehicles").string()).empty()) << "a train is also a vehicle";
  EXPECT_EQ(detect_source((root / "vehicles").string()), SourceKind::kClasses);
}

TEST(MaskFolders, ReadTheNucleiOfSixteenBits) {
  LOCKSTEP_DATA_OR_SKIP(nuclei, "nuclei");
  const auto source = open_source({.path = (nuclei / "val").string(), .masks = true});
  ASSERT_EQ(source->size(), 40);
  std::int64_t objects = 0;
  for (std::int64_t i = 0; i < source->size(); ++i) {
    const AnnotatedImage picture = source->get(i);
    std::vector<std::uint8_t> together(picture.maps.at(0).image.pixels.size());
    for (const Object& object : picture.objects) {
      for (std::size_t p = 0; p < together.size(); ++p)
        together[p] = static_cast<std::uint8_t>(together[p] + object.mask->pixels[p]);
    }
    EXPECT_EQ(together, picture.maps[0].image.pixels);
    objects += std::ssize(picture.objects);
  }
  EXPECT_GT(objects, 100);
}

TEST(Numbers, OfSmallDepthsAndPalettesAreReadAsStored) {
  const auto palette = data::decode_numbers(FileSystem::system().read(kGolden / "palette4.png"));
  ASSERT_TRUE(palette.ok()) << palette.error();
  EXPECT_LT(*std::max_element(palette->values.begin(), palette->values.end()), 16);
  const auto bits = data::decode_numbers(FileSystem::system().read(kGolden / "one_bit.png"));
  const Image gray = read_image(kGolden / "one_bit.png", ColorMode::kGray);
  ASSERT_EQ(bits->values.size(), gray.pixels.size());
  for (std::size_t i = 0; i < gray.pixels.size(); ++i) EXPECT_EQ(bits->values[i] * 255, gray.pixels[i]);
  EXPECT_THAT(data::decode_numbers(FileSystem::system().read(kGolden / "rgb.png")).error(), HasSubstr("one channel"));
}

}  // namespace sources_marks_test
}  // namespace lockstep
