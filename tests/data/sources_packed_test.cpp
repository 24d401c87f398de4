// SPDX-License-Identifier: Apache-2.0
// Datasets in one file: packed ones and IDX.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <chrono>
#include <fstream>
#include <future>

#include "data/sources/idx/idx_parse.h"
#include "data/sources/packed/packed_parse.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/data/sources/idx_dataset.h"
#include "lockstep/data/sources/image_files.h"
#include "lockstep/data/sources/open_source.h"
#include "lockstep/data/sources/pack.h"
#include "support/data_folder.h"
#include "support/fault_of.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace sources_packed_test {

namespace fs = std::filesystem;
using test::fault_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Packed files: round trips without copies, and an error for every changed byte.

const fs::path kGolden = fs::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/data/golden";

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
  picture.objects[1].mask = Image{{4, 2}, 1, {1, 1, 1, 1, 1, 1, 1, 1}};
  picture.maps.push_back({Image{{4, 2}, 1, {9, 8, 7, 6, 5, 4, 3, 2}}, 77});
  picture.label = -1;
  picture.captions = {"a dog", ""};
  picture.values = {1.5F, -2};
  picture.id = 1LL << 40;
  picture.name = "dog.png";
  return picture;
}

void expect_marked(AnnotatedImage& got) {
  const AnnotatedImage want = marked_picture();
  EXPECT_EQ(got.pixels.decoded().pixels, std::vector<std::uint8_t>(24, 7));
  ASSERT_EQ(got.objects.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(got.objects[i].box, want.objects[i].box);
    EXPECT_EQ(got.objects[i].label, want.objects[i].label);
    EXPECT_EQ(got.objects[i].crowd, want.objects[i].crowd);
    EXPECT_EQ(got.objects[i].area, want.objects[i].area);
    EXPECT_EQ(got.objects[i].points, want.objects[i].points);
    EXPECT_EQ(got.objects[i].mask->pixels, want.objects[i].mask->pixels);
  }
  EXPECT_EQ(got.maps.at(0).image.pixels, want.maps[0].image.pixels);
  EXPECT_EQ(got.maps[0].fill, 77);
  EXPECT_EQ(got.label, want.label);
  EXPECT_EQ(got.captions, want.captions);
  EXPECT_EQ(got.values, want.values);
  EXPECT_EQ(got.id, want.id);
  EXPECT_EQ(got.name, want.name);
}

/// Two golden images and an annotated one, packed.
class Packed : public ::testing::Test {
 protected:
  fs::path write(PackedOptions options = {.class_names = {"cat", "dog"}}) {
    PackedWriter writer(folder_ / "set.pack", std::move(options));
    for (const char* name : {"rgb.png", "rgb_420.jpg"}) writer.add(ImageFiles::of({kGolden / name}).get(0));
    writer.add(marked_picture());
    writer.finish();
    return folder_ / "set.pack";
  }
  void flip(const fs::path& file, std::uint64_t at) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(at));
    const char old = static_cast<char>(stream.get());
    stream.seekp(static_cast<std::streamoff>(at));
    stream.put(static_cast<char>(old ^ 1));
  }

  test::TempDir folder_;
};

TEST_F(Packed, GivesBackPixelsAndEveryMark) {
  const PackedImages images(write());
  ASSERT_EQ(images.size(), 3);
  EXPECT_THAT(images.class_names(), ElementsAre("cat", "dog"));
  for (const auto& [index, name] : {std::pair{0, "rgb.png"}, std::pair{1, "rgb_420.jpg"}}) {
    AnnotatedImage picture = images.get(index);
    EXPECT_FALSE(picture.pixels.encoded());
    EXPECT_EQ(picture.name, (kGolden / name).string());
    EXPECT_EQ(picture.pixels.decoded().pixels, read_image(kGolden / name, ColorMode::kRgb).pixels);
  }
  AnnotatedImage marked = images.get(2);
  expect_marked(marked);
}

TEST_F(Packed, LendsItsPixelsWithoutACopyAlignedAndOutlivesItsSource) {
  auto images = std::make_unique<PackedImages>(write());
  AnnotatedImage one = images->get(0);
  AnnotatedImage again = images->get(0);
  const PixelView view = one.pixels.view();
  EXPECT_EQ(view.data, again.pixels.view().data);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.data) % data::kPackedAlign, 0U);
  images.reset();
  EXPECT_EQ(one.pixels.decoded().pixels, read_image(kGolden / "rgb.png", ColorMode::kRgb).pixels);
}

TEST_F(Packed, KeepsTheFilesBytesOnRequest) {
  const PackedImages images(write({.encoded = true}));
  AnnotatedImage picture = images.get(1);
  ASSERT_TRUE(picture.pixels.encoded());
  EXPECT_EQ(std::string(picture.pixels.encoded_image()->bytes), FileSystem::system().read(kGolden / "rgb_420.jpg"));
  AnnotatedImage marked = images.get(2);
  expect_marked(marked);
}

TEST_F(Packed, ShrinksPicturesWithTheirMarks) {
  PackedWriter writer(folder_ / "small.pack", {.color = ColorMode::kGray, .max_side = 2});
  writer.add(marked_picture());
  writer.add(ImageFiles::of({kGolden / "rgb.png"}).get(0));
  writer.finish();
  const PackedImages images(folder_ / "small.pack");
  AnnotatedImage picture = images.get(0);
  EXPECT_EQ(picture.pixels.size(), (ImageSize{2, 1}));
  EXPECT_EQ(picture.objects[0].box, (Box{0.25F, 0, 1, 0.5F}));
  EXPECT_EQ(picture.objects[0].area, 1.25F / 4);
  EXPECT_THAT(picture.objects[0].mask->pixels, ElementsAre(0, 1));
  EXPECT_THAT(picture.maps[0].image.pixels, ElementsAre(4, 2));
  EXPECT_EQ(images.get(1).pixels.view().channels, 1);
  EXPECT_THAT(fault_of<UsageError>([&] { PackedWriter(folder_ / "x", {.encoded = true, .max_side = 2}); }),
              HasSubstr("--max-side"));
}

TEST_F(Packed, NoticesEveryChangedByteOfWhatCounts) {
  const fs::path file = write();
  const data::PackedIndex index = [&] {
    static std::string bytes;
    bytes = FileSystem::system().read(file);
    return data::parse_packed(bytes).value();
  }();
  for (std::int64_t i = 0; i < index.count; ++i) {
    const data::PackedEntry entry = index.entry(i);
    for (const std::uint64_t at : {entry.offset, entry.offset + entry.pixel_bytes + entry.marks_bytes - 1}) {
      flip(file, at);
      const PackedImages images(file);
      const auto place = fmt::format("byte {}: sample {} differs", entry.offset, i);
      EXPECT_THAT(fault_of<DataError>([&] { (void)images.get(i); }),
                  AllOf(HasSubstr(file.string()), HasSubstr(place), HasSubstr("lockstep pack")));
      EXPECT_THAT(fault_of<DataError>([&] { images.check(); }), HasSubstr(place));
      flip(file, at);
    }
  }
  const std::uint64_t size = fs::file_size(file);
  for (std::uint64_t back = 1; back <= 48 + 16 + 3 * 48; ++back) {
    const std::uint64_t at = size - back;
    const bool zeros = back > 8 && back <= 16;  // room in the footer
    flip(file, at);
    EXPECT_EQ(fault_of<DataError>([&] { PackedImages{file}; }) == "not thrown", zeros) << at;
    flip(file, at);
  }
  EXPECT_NO_THROW(PackedImages(file).check());
}

TEST_F(Packed, NamesWhereAFileIsCutShort) {
  const fs::path file = write();
  const std::uint64_t size = fs::file_size(file);
  for (const std::uint64_t left : {size - 1, size / 2, std::uint64_t{4100}, std::uint64_t{100}, std::uint64_t{0}}) {
    fs::resize_file(file, left);
    EXPECT_THAT(fault_of<DataError>([&] { PackedImages{file}; }), AllOf(HasSubstr(file.string()), HasSubstr("byte ")));
  }
  EXPECT_THAT(fault_of<DataError>([&] { PackedImages{folder_ / "none"}; }), HasSubstr("does not exist"));
}

TEST_F(Packed, AFileThatBecomesShorterInUseIsAnErrorAndNoCrash) {
  const fs::path file = write();
  const PackedImages images(file);
  (void)images.get(0);
  fs::resize_file(file, 100);
  EXPECT_THAT(fault_of<DataError>([&] { (void)images.get(0); }), HasSubstr("was truncated"));
  EXPECT_THAT(fault_of<DataError>([&] { (void)images.get(1); }), HasSubstr("was truncated"));
}

TEST_F(Packed, LeavesNothingBehindWhereItIsNotFinished) {
  { PackedWriter(folder_ / "half.pack", {}).add(marked_picture()); }
  EXPECT_THAT(FileSystem::system().list(folder_.path()), IsEmpty());
}

TEST_F(Packed, MarksOfTheWrongSizeAreRefused) {
  const std::string marks = data::packed_marks(marked_picture());
  EXPECT_TRUE(data::parse_packed_marks(marks, {4, 2}).ok());
  EXPECT_EQ(data::parse_packed_marks(marks, {4, 3}).error(), "a mask is smaller than its image");
  EXPECT_EQ(data::parse_packed_marks(marks, {3, 2}).error(), "a mask is larger than its image");
  EXPECT_EQ(data::parse_packed_marks(marks + "x", {4, 2}).error(), "1 bytes after the marks");
  for (std::size_t size = 0; size < marks.size(); ++size) {
    EXPECT_FALSE(data::parse_packed_marks(std::string_view(marks).substr(0, size), {4, 2}).ok()) << size;
  }
}

/// Images, the first of which is ready only after other threads have taken the next five.
class LateFirst : public ImageSource {
 public:
  explicit LateFirst(ImageFiles files) : files_(std::move(files)) {}
  [[nodiscard]] std::int64_t size() const override { return files_.size(); }
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override {
    if (index == 5) fifth_.set_value();
    if (index == 0) fifth_.get_future().wait_for(std::chrono::seconds(20));
    return files_.get(index);
  }

 private:
  ImageFiles files_;
  mutable std::promise<void> fifth_;
};

TEST_F(Packed, AnyNumberOfWorkersGivesTheSameFile) {
  std::vector<fs::path> files;
  for (int i = 0; i < 40; ++i) files.push_back(kGolden / (i % 3 == 0 ? "rgb.png" : "rgb_444.jpg"));
  const ImageFiles source = ImageFiles::of(files);
  const PackReport one = pack_images(source, {.out = folder_ / "one.pack"});
  std::int64_t last = 0;
  const PackReport three =
      pack_images(LateFirst(ImageFiles::of(files)),
                  {.out = folder_ / "three.pack", .workers = 3, .progress = [&](std::int64_t n) { last = n; }});
  EXPECT_EQ(one.samples, 40);
  EXPECT_EQ(last, 40);
  EXPECT_EQ(one.bytes, fs::file_size(folder_ / "one.pack"));
  EXPECT_EQ(FileSystem::system().read(folder_ / "one.pack"), FileSystem::system().read(folder_ / "three.pack"));
}

TEST_F(Packed, ABadPictureEndsItOrIsListed) {
  std::ofstream(folder_ / "bad.png") << "nothing";
  const ImageFiles source = ImageFiles::of({kGolden / "rgb.png", folder_ / "bad.png", kGolden / "gray.png"});
  PackOptions options{.out = folder_ / "x.pack", .workers = 2};
  EXPECT_THAT(fault_of<DataError>([&] { (void)pack_images(source, options); }), HasSubstr("bad.png"));
  EXPECT_FALSE(fs::exists(options.out));
  options.skip_bad = true;
  const PackReport report = pack_images(source, options);
  EXPECT_EQ(report.samples, 2);
  EXPECT_THAT(report.bad, ElementsAre(HasSubstr("bad.png")));
  const auto opened = open_source({.path = options.out.string()});
  EXPECT_EQ(opened->size(), 2);
  const ImageFiles only_bad = ImageFiles::of({folder_ / "bad.png"});
  EXPECT_THAT(fault_of<DataError>([&] { (void)pack_images(only_bad, options); }), HasSubstr("none of 1 images"));
}

// IDX files: every type, gzipped or not, and bad headers.

std::string idx(char type, const std::vector<std::uint32_t>& shape, const std::string& content) {
  std::string bytes = {'\0', '\0', type, static_cast<char>(shape.size())};
  for (const std::uint32_t side : shape) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(side >> shift);
  }
  return bytes + content;
}

std::string gzipped(const std::string& bytes) {
  std::string out(bytes.size() + 1000, '\0');
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

void put(const fs::path& file, const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }

TEST(Idx, ReadsEveryTypeBigEndian) {
  const std::vector<std::pair<std::string, double>> files = {
      {idx(0x08, {2}, std::string("\x01\xff", 2)), 255},
      {idx(0x09, {2}, std::string("\x01\xff", 2)), -1},
      {idx(0x0B, {2}, std::string("\0\1\xff\xfe", 4)), -2},
      {idx(0x0C, {2}, std::string("\0\0\0\0\0\1\0\0", 8)), 65536},
      {idx(0x0D, {2}, std::string("\0\0\0\0\x3f\xc0\0\0", 8)), 1.5},
      {idx(0x0E, {2}, std::string("\0\0\0\0\0\0\0\0\xc0\x04\0\0\0\0\0\0", 16)), -2.5}};
  for (const auto& [bytes, last] : files) {
    for (const std::string& file : {bytes, gzipped(bytes)}) {
      const auto parsed = data::parse_idx(file);
      ASSERT_TRUE(parsed.ok()) << parsed.error();
      EXPECT_THAT(parsed->shape, ElementsAre(2));
      EXPECT_EQ(parsed->at(1), last);
    }
  }
}

TEST(Idx, RefusesWhatTheFileCannotHoldBeforeAskingForMemory) {
  const auto error = [](const std::string& bytes) { return data::parse_idx(bytes).error(); };
  EXPECT_EQ(error(""), "byte 0: not an IDX file");
  EXPECT_EQ(error(std::string("\0\0\x0A\x01", 4)), "byte 0: not an IDX file");
  EXPECT_EQ(error(std::string("\0\0\x08\x09", 4)), "byte 3: 9 dimensions");
  EXPECT_EQ(error(std::string("\0\0\x08\x02\0\0\0\x01", 8)), "byte 8: cut short in the header");
  EXPECT_THAT(error(idx(8, {0xffffffffU, 0xffffffffU}, "x")), HasSubstr("more than the file can hold"));
  EXPECT_THAT(error(gzipped(idx(8, {0x7fffffffU}, "x"))), HasSubstr("more than the file can hold"));
  EXPECT_EQ(error(idx(8, {1, 1}, "xy")), "byte 13: more data than the header states");
  const std::string noise = "7h4kq9zv1x0w8e5rt2yu6i3op";
  const std::string whole = gzipped(idx(8, {25}, noise));
  EXPECT_THAT(error(whole.substr(0, whole.size() - 20)), HasSubstr("cut short"));
}

TEST(Idx, RefusesGzippedDataThatIsDamagedOrCutShort) {
  const std::string whole = gzipped(idx(8, {4, 4}, "abcdefghijklmnop"));
  ASSERT_TRUE(data::parse_idx(whole).ok());
  std::string flipped = whole;
  flipped[whole.size() - 6] = static_cast<char>(flipped[whole.size() - 6] ^ 1);  // a byte of the checksum
  for (const std::string& bad : {flipped, whole.substr(0, whole.size() - 8), whole.substr(0, whole.size() - 1)}) {
    const auto parsed = data::parse_idx(bad);
    ASSERT_FALSE(parsed.ok());
    EXPECT_THAT(parsed.error(), HasSubstr("byte 28: damaged gzip data"));
  }
}

TEST(IdxImages, GivePicturesWithLabelsAndNameWhatDoesNotFit) {
  const test::TempDir folder;
  put(folder / "t-images-idx3-ubyte", idx(8, {2, 1, 2}, "abcd"));
  put(folder / "t-labels-idx1-ubyte", idx(8, {2}, "\x05\x07"));
  const IdxPaths paths = find_idx(folder.path(), "t");
  const IdxImages images(paths.images, paths.labels);
  AnnotatedImage picture = images.get(1);
  EXPECT_EQ(picture.label, 7);
  EXPECT_THAT(picture.pixels.decoded().pixels, ElementsAre('c', 'd'));
  EXPECT_EQ(picture.pixels.size(), (ImageSize{2, 1}));
  EXPECT_FALSE(IdxImages(paths.images).get(0).label.has_value());
  put(folder / "three", idx(8, {3}, "abc"));
  EXPECT_THAT(fault_of<DataError>([&] { IdxImages(paths.images, folder / "three"); }),
              AllOf(HasSubstr("3 labels"), HasSubstr("2 images")));
  EXPECT_THAT(fault_of<DataError>([&] { IdxImages{folder / "three"}; }), HasSubstr("contains no images"));
  EXPECT_THAT(fault_of<DataError>([&] { (void)find_idx(folder.path(), "none"); }), HasSubstr("none-images-idx3-ubyte"));
}

TEST(IdxDataset, ReadsMnist) {
  LOCKSTEP_DATA_OR_SKIP(mnist, "mnist");
  IdxDataset dataset(find_idx(mnist, "train"));
  ASSERT_EQ(dataset.size(), 8000);
  std::vector<std::int64_t> counts(10);
  const IdxImages images(find_idx(mnist).images, find_idx(mnist).labels);
  for (std::int64_t i = 0; i < images.size(); ++i) ++counts.at(static_cast<std::size_t>(images.label(i)));
  for (const std::int64_t count : counts) EXPECT_GT(count, 500);
  SampleContext context(0, 0, 0);
  const Sample sample = dataset.get(0, context);
  EXPECT_EQ(sample.data.sizes(), (at::IntArrayRef{1, 28, 28}));
  EXPECT_EQ(*sample.target.data_ptr<std::int64_t>(), images.label(0));
  EXPECT_EQ(sample.data.data_ptr<float>()[200], static_cast<float>(images.pixels(0)[200]) / 255.0F);
  EXPECT_EQ(detect_source(mnist.string()), SourceKind::kIdx);
  EXPECT_EQ(open_source({.path = mnist.string(), .split = "test"})->size(), 2000);
}

}  // namespace sources_packed_test
}  // namespace lockstep
