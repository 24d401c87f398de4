// SPDX-License-Identifier: Apache-2.0
// Features from .npz: numpy's files are read exactly. Everything else is rejected with the field's name, before memory
// is allocated just because a header claims it.
#include "captioning/data/npz.h"

#include <fmt/format.h>
#include <zlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/data/sample_random.h"
#include "support/fault_of.h"
#include "support/fuzz_seeds.h"
#include "support/temp_dir.h"

namespace lockstep::captioning {
namespace captioning_npz_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace fs = std::filesystem;

std::string little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

std::string deflated(const std::string& bytes) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// A zip file with one member, and ways in which it can be faulty.
struct Zip {
  std::string content;
  std::string name = "feat.npy";
  bool deflate = false;
  std::uint64_t method = 0;  ///< the stated compression method, unless `deflate` is true
  std::int64_t size = -1;    ///< size stated in the directory; -1: the true size
  std::int64_t packed_size = -1;
  std::uint64_t crc_off_by = 0;
  std::uint64_t flags = 0;

  [[nodiscard]] std::string bytes() const {
    const std::string packed = deflate ? deflated(content) : content;
    const auto crc = crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
    const std::string fields =
        little(flags, 2) + little(deflate ? 8 : method, 2) + little(0, 4) + little(crc ^ crc_off_by, 4) +
        little(packed_size < 0 ? packed.size() : static_cast<std::uint64_t>(packed_size), 4) +
        little(size < 0 ? content.size() : static_cast<std::uint64_t>(size), 4) + little(name.size(), 2);
    const std::string local = little(0x04034b50, 4) + little(20, 2) + fields + little(0, 2) + name + packed;
    const std::string entry =
        little(0x02014b50, 4) + little(20, 2) + little(20, 2) + fields + std::string(16, '\0') + name;
    return local + entry + little(0x06054b50, 4) + little(0, 4) + little(1, 2) + little(1, 2) +
           little(entry.size(), 4) + little(local.size(), 4) + little(0, 2);
  }
};

std::string npy(const std::string& header, const std::string& values, int version = 1) {
  const std::string length = little(header.size(), version == 1 ? 2 : 4);
  return std::string("\x93NUMPY") + static_cast<char>(version) + '\0' + length + header + values;
}

std::string header_of(const std::string& descr, const std::string& shape, bool fortran = false) {
  return fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}\n", descr, fortran ? "True" : "False",
                     shape);
}

template <class Value>
std::string bytes_of(const std::vector<Value>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value)};
}

/// The error from reading two rows of three float32 under this header.
std::string fault_of_header(const std::string& header) {
  const auto read = parse_features(Zip{npy(header, bytes_of<float>({1, 2, 3, 4, 5, 6}))}.bytes());
  return read ? "read" : read.error();
}

std::string fault_of_shape(const std::string& shape) { return fault_of_header(header_of("<f4", shape)); }

fs::path golden(const std::string& name) { return test::fuzz_seeds() / "npz" / name; }

TEST(Npz, ReadsWhatNumpyWrites) {
  for (const char* name : {"f4.npz", "f4_deflated.npz", "f2.npz", "f8_fortran_deflated.npz", "three_sides.npz",
                           "three_sides_fortran.npz", "two_arrays.npz", "format_2.npz", "format_3.npz"}) {
    const FeatureRows rows = read_features(golden(name));
    ASSERT_EQ(rows.rows, 6) << name;
    ASSERT_EQ(rows.width, 4) << name;
    ASSERT_EQ(rows.values.size(), 24U) << name;
    for (std::size_t i = 0; i < 24; ++i) {
      EXPECT_EQ(rows.values[i], 4.0F * static_cast<float>(i / 4) + static_cast<float>(i % 4) / 2.0F - 3.0F)
          << name << " value " << i;
    }
  }
}

TEST(Npz, TakesOnlyTheFirstRowsWhereFewerAreWanted) {
  for (const char* name : {"f4.npz", "f8_fortran_deflated.npz", "three_sides_fortran.npz"}) {
    const FeatureRows rows = read_features(golden(name), 2);
    EXPECT_EQ(rows.rows, 2) << name;
    EXPECT_THAT(rows.values, ElementsAre(-3.0F, -2.5F, -2.0F, -1.5F, 1.0F, 1.5F, 2.0F, 2.5F)) << name;
  }
  EXPECT_EQ(read_features(golden("f4.npz"), 100).rows, 6);
}

TEST(Npz, ReadsHalvesToTheBit) {
  const std::vector<std::uint16_t> halves{0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x3555, 0x7bff, 0xc000};
  const auto rows = parse_features(Zip{npy(header_of("<f2", "(2, 4)"), bytes_of(halves))}.bytes());
  ASSERT_TRUE(rows) << rows.error();
  EXPECT_THAT(rows->values,
              ElementsAre(0.0F, -0.0F, 0x1.0p-24F, -1023 * 0x1.0p-24F, 0x1.0p-14F, 0x1.554p-2F, 65504.0F, -2.0F));
  EXPECT_TRUE(std::signbit(rows->values[1]));
}

TEST(Npz, RefusesAbsurdShapes) {
  EXPECT_EQ(fault_of_shape("(2, 3)"), "read");
  EXPECT_EQ(fault_of_shape("(2, -3)"), "array 'feat': 'shape' has a dimension of -3");
  EXPECT_EQ(fault_of_shape("(9223372036854775807, 9223372036854775807)"),
            "array 'feat': its shape (9223372036854775807, 9223372036854775807) has more than the maximum of "
            "16777216 values");
  EXPECT_EQ(fault_of_shape("(4294967296, 4294967296)"),
            "array 'feat': its shape (4294967296, 4294967296) has more than the maximum of 16777216 values");
  EXPECT_EQ(fault_of_shape("(92233720368547758070, 2)"),
            "array 'feat': 'shape' contains something other than numbers: 92233720368547758070, 2)");
  EXPECT_EQ(fault_of_shape("(0, 3)"), "array 'feat': its shape (0, 3) is empty");
  EXPECT_EQ(fault_of_shape("(6,)"), "array 'feat': its shape is (6), must be (rows, width)");
  EXPECT_EQ(fault_of_shape("()"), "array 'feat': its shape is (), must be (rows, width)");
  EXPECT_EQ(fault_of_shape("(2, 4)"),
            "array 'feat': it has 24 bytes of values, but its shape (2, 4) of '<f4' needs 32");
  EXPECT_EQ(fault_of_shape("(2, 2)"),
            "array 'feat': it has 24 bytes of values, but its shape (2, 2) of '<f4' needs 16");
  EXPECT_EQ(fault_of_shape("(2, 3"), "array 'feat': 'shape' contains something other than numbers: }?");
  EXPECT_EQ(fault_of_shape("(2 3)"), "array 'feat': 'shape' is not terminated: 3), }?");
  EXPECT_EQ(fault_of_shape("(1, 1, 1, 1, 1, 1, 1, 2, 3)"), "array 'feat': 'shape' has more than 8 dimensions");
}

TEST(Npz, RefusesTypesThatAreNoFloats) {
  const auto fault_of_type = [](const std::string& descr) { return fault_of_header(header_of(descr, "(2, 3)")); };
  EXPECT_EQ(fault_of_type("|O"), "array 'feat': it holds Python objects, which are never unpickled");
  EXPECT_EQ(fault_of_type("<i4"), "array 'feat': its type is '<i4'; it must be '<f2', '<f4' or '<f8'");
  EXPECT_EQ(fault_of_type(">f4"), "array 'feat': its type is '>f4'; it must be '<f2', '<f4' or '<f8'");
  EXPECT_EQ(fault_of_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3)}"),
            "array 'feat': 'descr' is not a simple type: [('a', '<f4')], 'fortran");
}

TEST(Npz, RefusesHeadersThatAreNone) {
  EXPECT_EQ(fault_of_header("{'descr': '<f4', 'shape': (2, 3)}"), "array 'feat': its header has no 'fortran_order'");
  EXPECT_EQ(fault_of_header("{'descr': '<f4', 'fortran_order': False}"), "array 'feat': its header has no 'shape'");
  EXPECT_EQ(fault_of_header("{'shape': (2, 3), 'shape': (2, 3)}"), "array 'feat': it has 'shape' twice");
  EXPECT_EQ(fault_of_header("{'size': (2, 3)}"), "array 'feat': it has an unknown field 'size'");
  const std::string name(60000, 'x');
  EXPECT_EQ(fault_of_header("{'" + name + "': 1}"),
            "array 'feat': it has an unknown field '" + name.substr(0, 40) + "...'");
  EXPECT_EQ(fault_of_header("{'descr': '" + name + "', 'fortran_order': False, 'shape': (2, 3)}"),
            "array 'feat': its type is '" + name.substr(0, 40) + "...'; it must be '<f2', '<f4' or '<f8'");
  EXPECT_EQ(fault_of_header("{'fortran_order': 1}"), "array 'feat': 'fortran_order' is neither True nor False");
  EXPECT_EQ(fault_of_header("__import__('os')"), "array 'feat': its header is not a dictionary: __import__('os')");
  EXPECT_EQ(fault_of_header(header_of("<f4", "(2, 3)") + "1"), "array 'feat': its header continues after its end: 1");
  const std::string good = npy(header_of("<f4", "(1, 1)"), bytes_of<float>({1}));
  std::string bad = good;
  bad[6] = 9;
  EXPECT_EQ(parse_features(Zip{bad}.bytes()).error(), "array 'feat': its format version is 9; it must be 1 to 3");
  bad = good;
  bad[9] = 0x7f;
  EXPECT_THAT(parse_features(Zip{bad}.bytes()).error(), HasSubstr("its header is truncated to 64 of 32572 bytes"));
  EXPECT_EQ(parse_features(Zip{"not numpy"}.bytes()).error(), "array 'feat': it does not begin like an .npy file");
  const std::string huge = std::string("\x93NUMPY\x02\x00", 8) + little(0xffffffff, 4);
  EXPECT_EQ(parse_features(Zip{huge}.bytes()).error(), "array 'feat': its header claims 4294967295 bytes");
}

TEST(Npz, RefusesValuesThatAreNotFinite) {
  const auto fault_of_values = [](std::vector<double> values) {
    return parse_features(Zip{npy(header_of("<f8", "(2, 2)"), bytes_of(values))}.bytes()).error();
  };
  EXPECT_EQ(fault_of_values({1, 2, 3, std::numeric_limits<double>::quiet_NaN()}),
            "array 'feat': value 1 of row 1 is nan");
  EXPECT_EQ(fault_of_values({1e300, 2, 3, 4}), "array 'feat': value 0 of row 0 is inf");
}

TEST(Npz, RefusesZipFilesThatLie) {
  const std::string good = npy(header_of("<f4", "(64, 64)"), std::string(64 * 64 * 4, '\0'));
  EXPECT_TRUE(parse_features(Zip{good}.bytes()));
  EXPECT_TRUE(parse_features(Zip{.content = good, .deflate = true}.bytes()));
  const auto fault = [](const Zip& zip) { return parse_features(zip.bytes()).error(); };
  EXPECT_EQ(fault({.content = good, .name = "features.npy"}), "it has no feat.npy, only features.npy");
  EXPECT_EQ(fault({.content = good, .name = "\x1b[2J" + std::string(60000, 'x')}),
            "it has no feat.npy, only ?[2J" + std::string(36, 'x') + "...");
  EXPECT_EQ(fault({.content = good, .method = 12}),
            "feat.npy is compressed with method 12; it must be 0 (stored) or 8 (deflate)");
  EXPECT_EQ(fault({.content = good, .flags = 1}), "feat.npy is encrypted");
  EXPECT_THAT(fault({.content = good, .crc_off_by = 1}), StartsWith("the bytes of feat.npy have CRC-32 "));
  EXPECT_EQ(fault({.content = good, .size = 100}),
            fmt::format("feat.npy is not compressed, but has {} bytes instead of 100", good.size()));
  EXPECT_EQ(fault({.content = good, .size = 0xffffffff}), "feat.npy is 4 GiB or larger");
  EXPECT_EQ(fault({.content = good, .deflate = true, .size = 4'000'000'000}),
            "feat.npy has 4000000000 bytes, more than the maximum of 134348800");
  EXPECT_THAT(fault({.content = good, .deflate = true, .size = 100'000'000}), HasSubstr("more than deflate can"));
  EXPECT_EQ(fault({.content = good, .deflate = true, .size = 20}), "the compressed bytes of feat.npy are damaged");
  EXPECT_EQ(fault({.content = good, .deflate = true, .size = 17000}), "the compressed bytes of feat.npy are damaged");
  EXPECT_EQ(fault({.content = good, .size = 1'000'000, .packed_size = 1'000'000}),
            "a damaged zip file: feat.npy is not at byte 0");
  EXPECT_EQ(parse_features("PK").error(), "it is not a zip file, or is truncated: it has no end record");
}

// A short version of the fuzzer: damage anywhere is either rejected or harmless.
TEST(Npz, IsReadOrRefusedWhateverChanges) {
  SampleRandom random(1);
  int read = 0;
  for (const auto& entry : fs::directory_iterator(golden(""))) {
    const std::string bytes = FileSystem::system().read(entry.path());
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(parse_features(std::string_view(bytes).substr(0, size))) << entry.path() << " cut at " << size;
    }
    for (int i = 0; i < 300; ++i) {
      std::string changed = bytes;
      changed[random.below(changed.size())] = static_cast<char>(random());
      const auto rows = parse_features(changed);
      if (!rows) continue;
      ++read;
      EXPECT_EQ(rows->values.size(), static_cast<std::size_t>(rows->rows * rows->width));
    }
  }
  EXPECT_GT(read, 0);
}

TEST(Npz, AFileIsNamed) {
  const test::TempDir folder;
  std::ofstream(folder / "12.npz", std::ios::binary)
      << Zip{npy(header_of("<f4", "(4611686018427387904, 4)"), "")}.bytes();
  EXPECT_EQ(
      test::fault_of<DataError>([&] { (void)read_features(folder / "12.npz"); }),
      fmt::format("features {}: array 'feat': its shape (4611686018427387904, 4) has more than the maximum of 16777216 "
                  "values\n  next  write features with numpy.savez(file, feat=array), where array holds "
                  "(rows, width) floats",
                  (folder / "12.npz").string()));
}

}  // namespace captioning_npz_test
}  // namespace lockstep::captioning
