// SPDX-License-Identifier: Apache-2.0
// Tar shards, and hostile data.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "data/sources/annotations/coco_json.h"
#include "data/sources/annotations/list_parse.h"
#include "data/sources/annotations/rle.h"
#include "data/sources/annotations/voc_parse.h"
#include "data/sources/archives/tar_marks_json.h"
#include "data/sources/archives/tar_parse.h"
#include "data/sources/files/numbers.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/signal_guard.h"
#include "lockstep/data/sources/image_files.h"
#include "lockstep/data/sources/inside.h"
#include "lockstep/data/sources/open_source.h"
#include "lockstep/data/sources/pack.h"
#include "lockstep/data/sources/packed.h"
#include "lockstep/data/sources/tar_shards.h"
#include "support/fault_of.h"
#include "support/fuzz_seeds.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace sources_tar_test {

namespace fs = std::filesystem;
using test::fault_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Tar shards: names and headers from other programs, samples in WebDataset's groups, and commands.

const fs::path kGolden = fs::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/data/golden";
const std::string kEnd(1024, '\0');

std::string golden(const char* name) { return FileSystem::system().read(kGolden / name); }
void put(const fs::path& file, const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }
int shell(const std::string& command) { return std::system(command.c_str()); }  // NOLINT(cert-env33-c)

/// A tar header of the given type, with its checksum.
std::string header(char type, const std::string& name, std::uint64_t size) {
  std::string block = data::tar_member(name, "").substr(0, 512);
  block[156] = type;
  block.replace(124, 11, fmt::format("{:011o}", size));
  block.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char letter : block) sum += static_cast<unsigned char>(letter);
  block.replace(148, 6, fmt::format("{:06o}", sum));
  block[154] = '\0';
  return block;
}

std::string padded(std::string bytes) {
  bytes.resize(data::tar_padded(bytes.size()), '\0');
  return bytes;
}

TEST(TarName, IsCutAtTheFirstDotOfTheBaseNameAsWebDatasetDoes) {
  const std::vector<std::array<const char*, 3>> cases = {
      {"a.jpg", "a", "jpg"},       {"./d.x/b.seg.PNG", "d.x/b", "seg.png"},
      {"d/.hidden.png", "", ""},   {"d/none", "", ""},
      {"__keys__.json__", "", ""}, {"x/n01/a.b.c", "x/n01/a", "b.c"}};
  for (const auto& [name, key, extension] : cases) {
    EXPECT_EQ(data::split_tar_name(name).key, key) << name;
    EXPECT_EQ(data::split_tar_name(name).extension, extension) << name;
  }
}

TEST(Tar, GroupsNeighboursIntoSamples) {
  const auto index = data::parse_tar(data::tar_member("b.jpg", "1") + data::tar_member("b.cls", "22") +
                                     data::tar_member("a.jpg", "") + data::tar_member("README", "x") + kEnd);
  ASSERT_TRUE(index.ok()) << index.error();
  ASSERT_EQ(index->samples.size(), 2U);
  EXPECT_EQ(index->samples[0].key, "b");
  EXPECT_EQ(index->samples[0].parts[1].extension, "cls");
  EXPECT_EQ(index->samples[0].parts[1].offset, 1536U);
  EXPECT_EQ(index->samples[0].parts[1].size, 2U);
}

TEST(Tar, ReadsLongNamesOfPaxAndGnu) {
  const std::string name = std::string(150, 'n') + ".jpg";
  const std::string record = fmt::format("{} path={}\n", name.size() + 10, name);
  for (const std::string& before : {header('x', "pax", record.size()) + padded(record),
                                    header('L', "././@LongLink", name.size() + 1) + padded(name + '\0')}) {
    const auto index =
        data::parse_tar(before + data::tar_member("short.png", "abc") + data::tar_member("b.jpg", "") + kEnd);
    ASSERT_TRUE(index.ok()) << index.error();
    ASSERT_EQ(index->samples.size(), 2U);
    EXPECT_EQ(index->samples[0].key, std::string(150, 'n'));
    EXPECT_EQ(index->samples[1].key, "b");
  }
}

TEST(Tar, ReadsWhatGnuTarWritesInAllItsFormats) {
  const test::TempDir folder;
  const std::string deep = "d/" + std::string(80, 'l') + "/" + std::string(80, 'm');
  fs::create_directories(folder / deep);
  for (const std::string& name : {std::string("d/a.jpg"), deep + "/b.jpg"}) put(folder / name, "xy");
  for (const char* format : {"gnu", "pax", "ustar", "oldgnu"}) {
    const fs::path tar = folder / (std::string(format) + ".tar");
    ASSERT_EQ(shell(fmt::format("cd {} && tar --format={} --sort=name -cf {} d", folder.path().string(), format,
                                tar.string())),
              0);
    const auto index = data::parse_tar(FileSystem::system().read(tar));
    ASSERT_TRUE(index.ok()) << format << ": " << index.error();
    ASSERT_EQ(index->samples.size(), 2U) << format;
    EXPECT_EQ(index->samples[0].key, "d/a");
    EXPECT_EQ(index->samples[1].key, deep + "/b");
  }
}

TEST(Tar, GnuTarReadsWhatItWrites) {
  const test::TempDir folder;
  TarWriter writer(folder / "a.tar");
  writer.add(ImageFiles::of({kGolden / "rgb.png"}).get(0));
  writer.finish();
  ASSERT_EQ(shell(fmt::format("cd {} && tar -xf a.tar", folder.path().string())), 0);
  EXPECT_EQ(FileSystem::system().read(folder / "00000000.png"), golden("rgb.png"));
}

TEST(Tar, NamesTheByteOfWhatIsWrong) {
  const std::string good = data::tar_member("a.jpg", "abc") + kEnd;
  const auto error = [](const std::string& bytes) { return data::parse_tar(bytes).error(); };
  EXPECT_EQ(error(""), "byte 0: empty file");
  EXPECT_EQ(error(good.substr(0, 600)), "byte 600: cut short: no end of the archive");
  EXPECT_EQ(error(good.substr(0, 514)), "byte 0: cut short: 'a.jpg' has 3 bytes");
  EXPECT_EQ(error(good.substr(0, 1024)), "byte 1024: cut short: no end of the archive");
  EXPECT_EQ(error(good + good), "byte 2048: more data after the end of the archive: several archives in one file?");
  std::string flipped = good;
  flipped[3] ^= 1;
  EXPECT_EQ(error(flipped), "byte 0: not a tar header: its checksum is wrong");
  EXPECT_EQ(error(data::tar_member("a.jpg", "") + good), "byte 512: sample 'a' has two files '.jpg'");
  EXPECT_EQ(error(header('S', "a", 0) + kEnd), "byte 0: a sparse file, which is not supported");
  EXPECT_EQ(error(header('x', "a", 4) + padded("9 ab") + kEnd), "byte 0: a pax record of the wrong length");
  EXPECT_EQ(error(header('L', "a", 2'000'000)), "byte 0: a name of 2000000 bytes");
}

TEST(Braces, ExpandToAllCombinations) {
  EXPECT_THAT(expand_braces("a-{008..011}.tar"), ElementsAre("a-008.tar", "a-009.tar", "a-010.tar", "a-011.tar"));
  EXPECT_THAT(expand_braces("{x,y}{1..2}"), ElementsAre("x1", "x2", "y1", "y2"));
  EXPECT_THAT(expand_braces("plain"), ElementsAre("plain"));
  EXPECT_THAT(expand_braces("{a,}b"), ElementsAre("ab", "b"));
  for (const char* bad : {"a{1..2", "a{2..1}", "a{x}", "{1..x}", "{0..9999999}", "{0..9999}{0..9999}"}) {
    EXPECT_THAT(fault_of<UsageError>([&] { (void)expand_braces(bad); }), HasSubstr(bad));
  }
}

/// Shards with images and all kinds of marks.
class Shards : public ::testing::Test {
 protected:
  Shards() {
    std::string first;
    for (int i = 0; i < 3; ++i) {
      first += data::tar_member(fmt::format("n{}.jpg", i), golden("rgb_420.jpg")) +
               data::tar_member(fmt::format("n{}.cls", i), fmt::format("{}\n", i));
    }
    put(folder_ / "s-0.tar", first + kEnd);
    put(folder_ / "s-1.tar", data::tar_member("m.txt", "a cell") + data::tar_member("m.png", golden("rgb.png")) +
                                 data::tar_member("m.json", R"({"caption": null, "id": 9, "values": [1]})") +
                                 data::tar_member("m.seg.png", golden("gray.png")) + kEnd);
  }
  [[nodiscard]] std::string pattern() const { return (folder_ / "s-{0..1}.tar").string(); }

  test::TempDir folder_;
};

TEST_F(Shards, AreOneSourceInWhichEachSampleComesOnceInAnyOrder) {
  const TarShards shards(pattern());
  ASSERT_EQ(shards.size(), 4);
  AnnotatedImage last = shards.get(3);
  EXPECT_EQ(last.id, 9);
  EXPECT_THAT(last.captions, ElementsAre("a cell"));
  EXPECT_THAT(last.values, ElementsAre(1.0F));
  EXPECT_EQ(last.name, (folder_ / "s-1.tar/m").string());
  EXPECT_EQ(last.maps.at(0).image.pixels, read_image(kGolden / "gray.png", ColorMode::kGray).pixels);
  EXPECT_EQ(last.pixels.decoded().pixels, read_image(kGolden / "rgb.png", ColorMode::kRgb).pixels);
  for (const int i : {2, 0, 1}) EXPECT_EQ(shards.get(i).label, i);
}

TEST_F(Shards, ComeTheSameAsAStream) {
  for (const std::string& shard : {(folder_ / "s-0.tar").string(), "pipe:cat " + (folder_ / "s-0.tar").string()}) {
    TarStream stream(shard, {.allow_commands = true});
    for (int i = 0; i < 3; ++i) {
      auto picture = stream.next();
      ASSERT_TRUE(picture.has_value());
      EXPECT_EQ(picture->label, i);
      EXPECT_EQ(picture->pixels.decoded().pixels, read_image(kGolden / "rgb_420.jpg", ColorMode::kRgb).pixels);
    }
    EXPECT_FALSE(stream.next().has_value());
    EXPECT_FALSE(stream.next().has_value());
  }
}

TEST_F(Shards, RunACommandOnlyWhereThatIsAllowed) {
  EXPECT_THAT(fault_of<UsageError>([] { TarStream stream("pipe:true"); }), HasSubstr("allow_commands"));
  EXPECT_THAT(fault_of<UsageError>([] { TarShards shards("pipe:true"); }), HasSubstr("TarStream"));
}

TEST_F(Shards, ACommandThatFailsIsAnErrorWithItsStatus) {
  const std::string file = (folder_ / "s-0.tar").string();
  const auto drain = [](const std::string& shard) {
    TarStream stream(shard, {.allow_commands = true});
    while (stream.next()) {
    }
  };
  EXPECT_THAT(fault_of<DataError>([&] { drain("pipe:cat " + file + "; exit 7"); }), HasSubstr("exit status 7"));
  EXPECT_THAT(fault_of<DataError>([&] { drain("pipe:head -c 600 " + file + "; exit 9"); }), HasSubstr("exit status 9"));
  EXPECT_THAT(fault_of<DataError>([&] { drain("pipe:kill -9 $$"); }), HasSubstr("signal 9"));
  EXPECT_THAT(fault_of<DataError>([&] { drain("pipe:head -c 600 " + file); }), HasSubstr("byte 600: cut short"));
  EXPECT_THAT(fault_of<DataError>([&] { drain(file + ".none"); }), HasSubstr("does not exist"));
}

TEST_F(Shards, JoinedInOneStreamAreRefusedSoThatNoneIsLost) {
  const std::string both = (folder_ / "s-0.tar").string() + " " + (folder_ / "s-1.tar").string();
  const auto drain = [](const std::string& shard) {
    TarStream stream(shard, {.allow_commands = true});
    while (stream.next()) {
    }
  };
  EXPECT_THAT(fault_of<DataError>([&] { drain("pipe:cat " + both); }), HasSubstr("several archives in one file?"));
  EXPECT_NO_THROW(drain("pipe:cat " + (folder_ / "s-0.tar").string() + "; head -c 100000 /dev/zero"));
}

TEST_F(Shards, ACommandTakesSignalsWhateverItsThreadBlocks) {
  const SignalGuard all_are_blocked;  // as in a loader's worker
  const std::string say = "pipe:grep -q 'SigBlk:.0*$' /proc/self/status && kill -TERM $$; sleep 5; exit 3";
  TarStream stream(say, {.allow_commands = true});
  EXPECT_THAT(fault_of<DataError>([&] { (void)stream.next(); }), HasSubstr("signal 15"));
}

TEST_F(Shards, AStreamThatIsGivenUpEndsItsCommand) {
  TarStream stream("pipe:cat " + (folder_ / "s-0.tar").string() + "; exec sleep 600", {.allow_commands = true});
  EXPECT_TRUE(stream.next().has_value());
}

TEST_F(Shards, NameWhatIsWrongWithASample) {
  put(folder_ / "bad.tar", data::tar_member("x.cls", "1") + kEnd);
  EXPECT_THAT(fault_of<DataError>([&] { TarShards((folder_ / "bad.tar").string()); }), HasSubstr("'x' of the shard"));
  put(folder_ / "cls.tar", data::tar_member("x.png", golden("rgb.png")) + data::tar_member("x.cls", "cat") + kEnd);
  const TarShards shards((folder_ / "cls.tar").string());
  EXPECT_THAT(fault_of<DataError>([&] { (void)shards.get(0); }),
              AllOf(HasSubstr("cls.tar at byte 512"), HasSubstr("'cat'")));
  const TarShards both({(folder_ / "bad.tar").string(), (folder_ / "cls.tar").string()}, {.strict = false});
  EXPECT_EQ(both.size(), 1);
  EXPECT_THAT(fault_of<DataError>([&] { TarShards((folder_ / "bad.tar").string(), {.strict = false}); }),
              HasSubstr("no image"));
}

TEST_F(Shards, RefuseLabelsThatAreNestedTooDeep) {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  for (const std::string& label : {deep, R"({"id": )" + deep + "}", R"({"captions": [)" + deep + "]}"}) {
    put(folder_ / "deep.tar", data::tar_member("x.png", golden("rgb.png")) + data::tar_member("x.json", label) + kEnd);
    EXPECT_THAT(fault_of<DataError>([&] { (void)TarShards((folder_ / "deep.tar").string()).get(0); }),
                HasSubstr("lists and objects are nested more than 64 deep"));
  }
}

AnnotatedImage marked_picture() {
  AnnotatedImage picture;
  picture.pixels = Image{{4, 2}, 3, std::vector<std::uint8_t>(24, 7)};
  picture.objects.resize(2);
  picture.objects[0] = {.box = {0.5F, 0, 2, 1},
                        .label = 3,
                        .crowd = true,
                        .area = 1.25F,
                        .points = {{1, 2, true}, {3, 4, false}},
                        .mask = Image{{4, 2}, 1, {0, 1, 1, 0, 0, 0, 1, 1}}};
  picture.maps.push_back({Image{{4, 2}, 1, {9, 8, 7, 6, 5, 4, 3, 2}}});
  picture.label = 2;
  picture.captions = {"one", "two"};
  picture.values = {0.1F};
  picture.id = 77;
  return picture;
}

TEST_F(Shards, OfTheWriterGiveBackEveryMarkAndTheClassNames) {
  TarWriter writer(folder_ / "w.tar", {.class_names = {"cat", "big dog"}});
  writer.add(marked_picture());
  writer.finish();
  const TarShards shards((folder_ / "w.tar").string());
  EXPECT_THAT(shards.class_names(), ElementsAre("cat", "big dog"));
  AnnotatedImage got = shards.get(0);
  const AnnotatedImage want = marked_picture();
  EXPECT_EQ(got.pixels.decoded().pixels, std::vector<std::uint8_t>(24, 7));
  ASSERT_EQ(got.objects.size(), 2U);
  EXPECT_EQ(got.objects[0].box, want.objects[0].box);
  EXPECT_EQ(got.objects[0].label, 3);
  EXPECT_TRUE(got.objects[0].crowd);
  EXPECT_EQ(got.objects[0].area, 1.25F);
  EXPECT_EQ(got.objects[0].points, want.objects[0].points);
  EXPECT_EQ(got.objects[0].mask->pixels, want.objects[0].mask->pixels);
  EXPECT_FALSE(got.objects[1].mask.has_value());
  EXPECT_EQ(got.maps.at(0).image.pixels, want.maps[0].image.pixels);
  EXPECT_EQ(got.label, 2);
  EXPECT_EQ(got.captions, want.captions);
  EXPECT_EQ(got.values, want.values);
  EXPECT_EQ(got.id, 77);
}

TEST_F(Shards, AreSplitBySizeAndReadBackByTheirFolder) {
  const ImageFiles source = ImageFiles::of(std::vector<fs::path>(7, kGolden / "rgb_444.jpg"));
  fs::create_directory(folder_ / "out");
  const PackReport report = pack_images(
      source, {.out = folder_ / "out/t.tar", .format = PackFormat::kTar, .shard_bytes = 6000, .workers = 2});
  EXPECT_EQ(report.samples, 7);
  EXPECT_GT(report.files.size(), 1U);
  EXPECT_EQ(report.files.front().filename(), "t-000000.tar");
  EXPECT_EQ(detect_source((folder_ / "out").string()), SourceKind::kTar);
  EXPECT_EQ(open_source({.path = (folder_ / "out").string()})->size(), 7);
  EXPECT_EQ(detect_source(pattern()), SourceKind::kTar);
  EXPECT_EQ(open_source({.path = pattern()})->size(), 4);
  { TarWriter half(folder_ / "out/half.tar"); }
  EXPECT_FALSE(fs::exists(folder_ / "out/half.tar"));
}

TEST_F(Shards, OfAPackingThatFailsAreRemoved) {
  std::vector<fs::path> files(7, kGolden / "rgb_444.jpg");
  files.push_back(folder_ / "bad.jpg");
  put(files.back(), "nothing");
  fs::create_directory(folder_ / "out");
  const PackOptions options{.out = folder_ / "out/t.tar", .format = PackFormat::kTar, .shard_bytes = 6000};
  EXPECT_THAT(fault_of<DataError>([&] { (void)pack_images(ImageFiles::of(files), options); }), HasSubstr("bad.jpg"));
  EXPECT_TRUE(fs::is_empty(folder_ / "out"));
}

/// A shard with one image of these classes.
void put_shard(const fs::path& file, const std::vector<std::string>& classes) {
  fs::create_directories(file.parent_path());
  TarWriter writer(file, {.class_names = classes});
  writer.add(marked_picture());
  writer.finish();
}

TEST_F(Shards, WithOtherClassesThanTheFirstAreRefusedByTheirNames) {
  put_shard(folder_ / "c/a.tar", {});
  put_shard(folder_ / "c/b.tar", {"cat", "dog"});
  put_shard(folder_ / "c/c.tar", {"cat", "dog"});
  EXPECT_THAT(open_source({.path = (folder_ / "c").string()})->class_names(), ElementsAre("cat", "dog"));
  for (const std::vector<std::string>& other : {std::vector<std::string>{"dog", "cat"}, {"cat"}, {"cat", "dog", "x"}}) {
    put_shard(folder_ / "c/d.tar", other);
    const std::string fault = fault_of<DataError>([&] { (void)open_source({.path = (folder_ / "c").string()}); });
    EXPECT_THAT(fault, AllOf(HasSubstr("b.tar"), HasSubstr("d.tar"), HasSubstr("cat, dog"), HasSubstr("classes")));
  }
}

TEST_F(Shards, WithManyClassesAreToldApartByTheFirstThatDiffers) {
  std::vector<std::string> classes(1000, "a");
  put_shard(folder_ / "m/a.tar", classes);
  classes[700] = "b";
  put_shard(folder_ / "m/b.tar", classes);
  const std::string fault = fault_of<DataError>([&] { (void)open_source({.path = (folder_ / "m").string()}); });
  EXPECT_THAT(fault, HasSubstr("1000 | 1000 classes, and the first that differs is class 700: a | b"));
}

TEST(Rle, IsReadFromNumbersAndTextAndWrittenBack) {
  const Image mask{{3, 2}, 1, {0, 1, 1, 1, 1, 0}};  // down the columns: 0 1 1 1 1 0
  EXPECT_EQ(data::runs_of(mask), (data::RunLengths{1, 4, 1}));
  EXPECT_EQ(data::mask_of({1, 4, 1}, {3, 2})->pixels, mask.pixels);
  EXPECT_EQ(data::mask_of({1, 4}, {3, 2}).error(), "a mask of 5 pixels for an image of 6");
  const data::RunLengths long_runs = {0, 5, 100000, 3, 99999, 31, 17, 16};
  EXPECT_EQ(data::runs_from_text(data::text_of(long_runs)).value(), long_runs);
  EXPECT_FALSE(data::runs_from_text("0P").ok());
  EXPECT_FALSE(data::runs_from_text("0\x7f").ok());
}

TEST(TarShards, RefuseNumbersThatAreNoneByTheirNames) {
  const test::TempDir folder;
  const auto read = [&](const std::string& marks) {
    std::ofstream(folder / "a.tar", std::ios::binary)
        << data::tar_member("m.png", "unused") + data::tar_member("m.json", marks) + kEnd;
    return TarShards((folder / "a.tar").string()).get(0);
  };
  const auto fault = [&](const std::string& marks) { return fault_of<DataError>([&] { (void)read(marks); }); };
  EXPECT_EQ(read(R"({"label": 3.0, "id": 9.0})").label, 3);
  EXPECT_EQ(read(R"({"label": 3, "id": "a name"})").id, 0);
  EXPECT_TRUE(read(R"({"objects": [{"box": [0, 0, 1, 1], "crowd": 1, "label": 2.0}]})").objects.at(0).crowd);
  EXPECT_THAT(fault(R"({"label": "3"})"), HasSubstr("\"label\" is the text \"3\", must be a whole number"));
  EXPECT_THAT(fault(R"({"values": [1, null]})"), HasSubstr("\"values\" holds null, must be numbers"));
  EXPECT_THAT(fault(R"({"values": [1, NaN]})"), HasSubstr("NaN is not a JSON number"));
  EXPECT_THAT(fault(R"({"objects": [{"box": [0, 0, 1, 1], "area": "1"}]})"), HasSubstr("\"area\" is the text"));
}

}  // namespace sources_tar_test

namespace sources_hostile_test {

namespace fs = std::filesystem;
using test::fault_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Hostile data: names that point outside the folder, special files, numbers that no image has.

const fs::path kTests = fs::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/data";
const fs::path kSeeds = test::fuzz_seeds();

void put(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

std::string read(const fs::path& file) { return FileSystem::system().read(file); }

TEST(NameInside, LeavesPlainNamesAloneAndTakesDotsOut) {
  EXPECT_EQ(name_inside("data", "a/b.png", "list.csv", false), "a/b.png");
  EXPECT_EQ(name_inside("data", "a..b.png", "list.csv", false), "a..b.png");
  EXPECT_EQ(name_inside("data", "a/../b.png", "list.csv", false), "b.png");
  EXPECT_EQ(name_inside("", "./a/./../b.png", "list.csv", false), "b.png");
  EXPECT_EQ(name_inside("data/", fs::absolute("data/x/../b.png").string(), "list.csv", false),
            fs::absolute("data/b.png").string());
}

TEST(NameInside, RefusesWhatLeadsOutUnlessItMay) {
  for (const std::string name : {"../b.png", "a/../../b.png", "..", "/etc/passwd", "a/../../data/b.png"}) {
    EXPECT_THAT(fault_of<DataError>([&] { (void)name_inside("data", name, "list.csv", false); }),
                AllOf(StartsWith("list.csv names '" + name + "', which lies outside of data"),
                      HasSubstr("data.allow_outside=true")));
    EXPECT_EQ(name_inside("data", name, "list.csv", true), name);
  }
  const std::string beside = fs::absolute("data-other/b.png").string();
  EXPECT_THAT(fault_of<DataError>([&] { (void)name_inside("data", beside, "list.csv", false); }), HasSubstr("outside"));
}

// open(2) would cut the name there.
TEST(NameInside, RefusesAZeroByte) {
  const std::string name("../x\0/../data/b.png", 19);
  EXPECT_THAT(fault_of<DataError>([&] { (void)name_inside("data", name, "list.csv", true); }), HasSubstr("null byte"));
}

TEST(NameInside, TakesTheRealNameOfAFolderThatWasNamedByALink) {
  const test::TempDir root;
  fs::create_directory(root / "real");
  fs::create_directory_symlink("real", root / "link");
  const std::string file = (fs::canonical(root / "real") / "b.png").string();
  EXPECT_EQ(name_inside(root / "link", file, "list.csv", false), file);
}

/// A folder "data" with an image, and a secret next to it.
class HostileNames : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"secret.png", "secret.jpg", "data/good.png", "voc/JPEGImages/good.png"}) {
      fs::create_directories((root_ / name).parent_path());
      fs::copy_file(kTests / "golden/rgb.png", root_ / name);
    }
    put(root_ / "secret.xml", "<annotation></annotation>");
  }

  /// The error from opening `path`; "open" if there is none.
  std::string opened(const fs::path& path, SourceKind kind, bool allow_outside = false) const {
    try {
      const auto source = open_source({.path = (root_ / path).string(), .kind = kind, .allow_outside = allow_outside});
      (void)source->get(0).pixels.size();
      return "open";
    } catch (const DataError& fault) {
      return fault.message();
    }
  }

  test::TempDir root_;
};

TEST_F(HostileNames, OfListsAndCocoStayInTheFolder) {
  for (const std::string& name : {std::string("../secret.png"), (root_ / "secret.png").string()}) {
    put(root_ / "data/list.csv", "path\n" + name + "\n");
    put(root_ / "data/list.jsonl", fmt::format(R"({{"path": "{}"}})", name));
    put(root_ / "data/coco.json",
        fmt::format(R"({{"images": [{{"id": 1, "file_name": "{}"}}], "annotations": [], "categories": []}})", name));
    for (const auto& [file, kind] : {std::pair("data/list.csv", SourceKind::kList),
                                     {"data/list.jsonl", SourceKind::kList},
                                     {"data/coco.json", SourceKind::kCoco}}) {
      EXPECT_THAT(opened(file, kind), AllOf(HasSubstr(file), HasSubstr("outside"))) << name;
      EXPECT_EQ(opened(file, kind, true), "open") << file << " " << name;
    }
  }
  put(root_ / "data/list.csv", fmt::format("path\nx/../good.png\n{}\n", (root_ / "data/good.png").string()));
  EXPECT_EQ(opened("data/list.csv", SourceKind::kList), "open");
}

TEST_F(HostileNames, OfVocAndOfListsOfMasksStayInTheFolder) {
  fs::create_directories(root_ / "voc/Annotations");
  put(root_ / "voc/ImageSets/Main/trainval.txt", "../../secret\n");
  EXPECT_THAT(opened("voc", SourceKind::kVoc), AllOf(HasSubstr("trainval.txt"), HasSubstr("outside")));
  EXPECT_EQ(opened("voc", SourceKind::kVoc, true), "open");
  fs::create_directories(root_ / "voc/SegmentationClass");
  put(root_ / "voc/ImageSets/Segmentation/trainval.txt", "../../secret\n");
  EXPECT_THAT(fault_of<DataError>([&] {
                (void)open_source({.path = (root_ / "voc").string(), .kind = SourceKind::kMasks, .split = "trainval"});
              }),
              AllOf(HasSubstr("trainval.txt"), HasSubstr("outside")));
}

TEST_F(HostileNames, ALinkInTheFolderIsItsOwnersChoice) {
  fs::create_symlink(root_ / "secret.png", root_ / "data/link.png");
  put(root_ / "data/list.csv", "path\nlink.png\n");
  EXPECT_EQ(opened("data/list.csv", SourceKind::kList), "open");
}

TEST_F(HostileNames, OfPipesAreRefusedAtOnceWhateverTheyStandFor) {
  ASSERT_EQ(::mkfifo((root_ / "data/fifo").c_str(), 0644), 0);
  put(root_ / "data/list.csv", "path\nfifo\n");
  EXPECT_THAT(opened("data/list.csv", SourceKind::kList), HasSubstr("data/fifo is a named pipe, not a regular file"));
  for (const SourceKind kind : {SourceKind::kList, SourceKind::kCoco, SourceKind::kTar, SourceKind::kPacked,
                                SourceKind::kIdx, SourceKind::kAuto}) {
    EXPECT_THAT(opened("data/fifo", kind), HasSubstr("data/fifo is a named pipe, not a regular file"))
        << static_cast<int>(kind);
  }
  EXPECT_THAT(fault_of<DataError>([&] { TarStream((root_ / "data/fifo").string()); }), HasSubstr("is a named pipe"));
}

TEST(HostileNumbers, AreNoCoordinatesAreasOrFloats) {
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double value : {1e308, -1e308, infinite, -infinite, std::nan("")}) {
    EXPECT_FALSE(data::is_coordinate(value)) << value;
    EXPECT_FALSE(data::is_area(value)) << value;
    EXPECT_FALSE(data::fits_float(value)) << value;
  }
  EXPECT_TRUE(data::is_coordinate(-1e6));
  EXPECT_FALSE(data::is_coordinate(1e6 + 1));
  EXPECT_FALSE(data::is_area(-1));
  EXPECT_TRUE(data::fits_float(3.4e38));
}

TEST(HostileNumbers, OfAnnotationsAreRefusedByName) {
  const auto coco = [](const char* file) { return data::parse_coco(read(kSeeds / file), {}).error(); };
  EXPECT_EQ(coco("coco/hostile/far_keypoint.json"), "annotations[0]: a keypoint with the number 1e+308");
  EXPECT_EQ(coco("coco/hostile/far_corner.json"), "annotations[0]: a box of [1000000, 0, 1000000, 4]");
  EXPECT_THAT(data::parse_voc(read(kSeeds / "voc/hostile/far_box.xml")).error(), HasSubstr("to (1e+308, 2)"));
  EXPECT_THAT(data::parse_voc(read(kSeeds / "voc/hostile/near_box.xml")).error(), HasSubstr("from (1, -1e+308)"));
  const auto list = [](const char* file) { return data::parse_json_list(read(kSeeds / file)).error(); };
  EXPECT_EQ(list("lists/hostile/far_box.jsonl"), "line 1: a box of [0,0,1e+308,1]");
  EXPECT_EQ(list("lists/hostile/far_value.jsonl"), "line 1: a value of 1e+39");
}

TEST(HostileNumbers, OfTarShardsAreRefusedByName) {
  const auto fault = [](const char* file) {
    const TarShards shards((kSeeds / file).string());
    return fault_of<DataError>([&] { (void)shards.get(0); });
  };
  EXPECT_THAT(fault("tar/hostile/far_box.tar"), HasSubstr("a box of [0,0,1e+308,1]"));
  EXPECT_THAT(fault("tar/hostile/far_point.tar"), HasSubstr("a point of [1e+39,0,1]"));
  EXPECT_THAT(fault("tar/hostile/far_area.tar"), HasSubstr("an area of 1e+308 pixels"));
  EXPECT_THAT(fault("tar/hostile/far_value.tar"), HasSubstr("a value of -1e+308"));
}

TEST(HostileNumbers, AreNotPacked) {
  const test::TempDir folder;
  PackedWriter writer(folder / "a.pack", {});
  AnnotatedImage picture;
  picture.pixels = Image{{1, 1}, 1, {0}};
  picture.name = "a.png";
  picture.objects.emplace_back();
  picture.objects.back().box.x2 = std::numeric_limits<float>::infinity();
  EXPECT_EQ(fault_of<DataError>([&] { (void)writer.prepare(std::move(picture)); }),
            "an object of a.png has a box of [0, 0, inf, 0]");
}

}  // namespace sources_hostile_test
}  // namespace lockstep
