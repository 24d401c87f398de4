// SPDX-License-Identifier: Apache-2.0
// IDX files: every type, gzipped or not, and headers that lie.
#include <zlib.h>

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "data/sources/idx/idx_parse.h"
#include "lockstep/base/error.h"
#include "lockstep/data/sources/idx_dataset.h"
#include "lockstep/data/sources/open_source.h"
#include "support/data_folder.h"
#include "support/fault_of.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace sources_idx_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using test::fault_of;

namespace fs = std::filesystem;

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
  EXPECT_EQ(error(""), "byte 0: no IDX file");
  EXPECT_EQ(error(std::string("\0\0\x0A\x01", 4)), "byte 0: no IDX file");
  EXPECT_EQ(error(std::string("\0\0\x08\x09", 4)), "byte 3: 9 dimensions");
  EXPECT_EQ(error(std::string("\0\0\x08\x02\0\0\0\x01", 8)), "byte 8: cut short in the header");
  EXPECT_THAT(error(idx(8, {0xffffffffU, 0xffffffffU}, "x")), HasSubstr("more than the file can hold"));
  EXPECT_THAT(error(gzipped(idx(8, {0x7fffffffU}, "x"))), HasSubstr("more than the file can hold"));
  EXPECT_EQ(error(idx(8, {1, 1}, "xy")), "byte 13: more than the header states");
  const std::string noise = "7h4kq9zv1x0w8e5rt2yu6i3op";
  const std::string whole = gzipped(idx(8, {25}, noise));
  EXPECT_THAT(error(whole.substr(0, whole.size() - 20)), HasSubstr("cut short"));
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
  EXPECT_THAT(fault_of<DataError>([&] { IdxImages{folder / "three"}; }), HasSubstr("holds no images"));
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

}  // namespace sources_idx_test
}  // namespace lockstep
