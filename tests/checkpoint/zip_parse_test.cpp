// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch/zip_parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "checkpoint/pickle_bytes.h"
#include "checkpoint/torch/zip_layout.h"

namespace lockstep::checkpoint {
namespace zip_parse_test {

using test::little_endian;
using test::zip_of;
using ::testing::HasSubstr;

std::string refusal(const std::string& file) {
  const auto members = parse_zip(file);
  return members ? "taken" : members.error();
}

/// `file` with `bytes` written over those at `offset`.
std::string changed(std::string file, std::size_t offset, const std::string& bytes) {
  return file.replace(offset, bytes.size(), bytes);
}

std::size_t directory_of(const std::string& file) { return file.find(little_endian(kZipEntry, 4)); }

std::string deflated(const std::string& content) {
  std::string packed(compressBound(content.size()) + 64, '\0');
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

/// A zip file of one member that is said to unpack to `bytes` with the CRC of `content`.
std::string deflated_zip(const std::string& content, std::uint64_t bytes) {
  const std::string packed = deflated(content);
  std::string file = zip_of({{"a", packed}});
  const std::size_t entry = directory_of(file);
  for (const auto& [at, method, crc] : {std::tuple{std::size_t{0}, 8, 14}, std::tuple{entry, 10, 16}}) {
    file = changed(file, at + method, little_endian(kZipDeflated, 2));
    file = changed(file, at + crc,
                   little_endian(zip_crc(content), 4) + little_endian(packed.size(), 4) + little_endian(bytes, 4));
  }
  return file;
}

TEST(Zip, ReadsWhatItsWriterWritesWithSmallAndWideNumbers) {
  for (const std::uint64_t wide_from : {std::uint64_t{0xFFFFFFFF}, std::uint64_t{0}, std::uint64_t{100}}) {
    const std::string file = zip_of({{"a/b", "hello"}, {"c", ""}, {"d", std::string(1000, 'x')}}, wide_from);
    const auto members = parse_zip(file);
    ASSERT_TRUE(members) << members.error();
    ASSERT_EQ(members->size(), 3U);
    EXPECT_EQ((*members)[0].name, "a/b");
    EXPECT_EQ(stored_bytes(file, (*members)[0]), "hello");
    EXPECT_EQ((*members)[2].bytes, 1000U);
    for (const ZipMember& member : *members) {
      EXPECT_EQ(member.offset % 64, 0U);
      EXPECT_EQ(check_member(file, member), "");
    }
  }
}

TEST(Zip, EveryCutIsRefused) {
  const std::string file = zip_of({{"a", "hello"}, {"b", "there"}});
  for (std::size_t size = 0; size < file.size(); ++size) EXPECT_NE(refusal(file.substr(0, size)), "taken") << size;
}

TEST(Zip, EveryBitThatFlipsIsNoticed) {
  const std::string file = zip_of({{"a", "hello"}});
  const std::size_t data = file.find("hello");
  const auto whole = parse_zip(file);
  ASSERT_TRUE(whole);
  for (std::size_t bit = 0; bit < 5 * 8; ++bit) {
    std::string torn = file;
    torn[data + bit / 8] = static_cast<char>(torn[data + bit / 8] ^ (1 << (bit % 8)));
    EXPECT_THAT(check_member(torn, (*whole)[0]), HasSubstr("CRC-32"));
  }
}

TEST(Zip, RefusesMembersThatShareBytes) {
  std::string file = zip_of({{"a", "hello"}, {"a", "there"}});
  EXPECT_THAT(refusal(file), HasSubstr("'a' stands twice"));
  // Both entries of the directory point to one header, as in a bomb of overlapping files.
  file = zip_of({{"a", "hello"}, {"b", "hello"}});
  const std::size_t second = file.find(little_endian(kZipEntry, 4), directory_of(file) + 4);
  file = changed(file, second + 42, little_endian(0, 4));
  EXPECT_THAT(refusal(file), HasSubstr("the header of 'b' and the directory disagree"));
  // The first member is said to reach into the second.
  file = zip_of({{"a", "hello"}, {"b", std::string(200, 'x')}});
  const std::size_t entry = directory_of(file);
  for (const std::size_t at : {entry + 20, std::size_t{18}}) {
    file = changed(file, at, little_endian(100, 4) + little_endian(100, 4));
  }
  EXPECT_THAT(refusal(file), HasSubstr("'a' and 'b' overlap"));
}

TEST(Zip, RefusesSizesThatTheFileDoesNotHave) {
  const std::string file = zip_of({{"a", "hello"}});
  const std::size_t entry = directory_of(file);
  EXPECT_THAT(refusal(changed(file, entry + 24, little_endian(6, 4))), HasSubstr("not packed and has 5 bytes of 6"));
  std::string large = changed(file, entry + 20, little_endian(0x7FFFFFFF, 4) + little_endian(0x7FFFFFFF, 4));
  EXPECT_THAT(refusal(large), HasSubstr("'a' has 2147483647 bytes from byte 64 on"));
  EXPECT_THAT(refusal(changed(file, entry + 42, little_endian(0xFFFFFFF0, 4))), HasSubstr("is not at byte"));
  EXPECT_THAT(refusal(changed(file, entry + 24, little_endian(0xFFFFFFFF, 4))), HasSubstr("lacks its 64-bit sizes"));
}

TEST(Zip, RefusesNamesThatLeaveTheFolder) {
  for (const std::string name : {"/etc/passwd", "../x", "a/../../x", "C:x", "a\\b", ""}) {
    EXPECT_THAT(refusal(zip_of({{name, "x"}})), HasSubstr("a member has the name")) << name;
  }
  EXPECT_EQ(refusal(zip_of({{"a..b/...", "x"}})), "taken");
}

TEST(Zip, RefusesEncryptedMembersAndOtherMethods) {
  const std::string file = zip_of({{"a", "hello"}});
  const std::size_t entry = directory_of(file);
  EXPECT_THAT(refusal(changed(file, entry + 8, little_endian(1, 2))), HasSubstr("encrypted"));
  EXPECT_THAT(refusal(changed(file, entry + 10, little_endian(12, 2))), HasSubstr("packed by method 12"));
}

TEST(Zip, RefusesADirectoryThatHoldsMoreOrLess) {
  const std::string file = zip_of({{"a", "hello"}, {"b", "there"}});
  const std::size_t end = file.size() - kZipEndBytes;
  EXPECT_THAT(refusal(changed(file, end + 8, little_endian(1, 2) + little_endian(1, 2))),
              HasSubstr("more than its members"));
  EXPECT_THAT(refusal(changed(file, end + 8, little_endian(3, 2) + little_endian(3, 2))), HasSubstr("lacks"));
  EXPECT_THAT(refusal(changed(file, end + 8, little_endian(60000, 2) + little_endian(60000, 2))), HasSubstr("lacks"));
  EXPECT_THAT(refusal("prefix" + file), HasSubstr("its directory is at byte"));
  EXPECT_THAT(refusal(file + "x"), HasSubstr("no end record"));
}

TEST(Zip, UnpacksWhatIsDeflated) {
  const std::string content(100'000, 'y');
  const std::string file = deflated_zip(content, content.size());
  const auto members = parse_zip(file);
  ASSERT_TRUE(members) << members.error();
  EXPECT_EQ(check_member(file, (*members)[0]), "");
  const auto unpacked = inflate_member(file, (*members)[0], content.size());
  ASSERT_TRUE(unpacked) << unpacked.error();
  EXPECT_EQ(*unpacked, content);
}

TEST(Zip, ABombIsRefusedBeforeItGrows) {
  const std::string content(10'000'000, '\0');
  const std::string honest = deflated_zip(content, content.size());
  const auto members = parse_zip(honest);
  ASSERT_TRUE(members) << members.error();
  const auto small = inflate_member(honest, (*members)[0], 1'000'000);
  ASSERT_FALSE(small);
  EXPECT_THAT(small.error(), HasSubstr("more than the 1000000 that are taken"));

  const std::string liar = deflated_zip(content, 1000);  // says that it is small
  const auto lying = parse_zip(liar);
  ASSERT_TRUE(lying) << lying.error();
  EXPECT_THAT(check_member(liar, (*lying)[0]), HasSubstr("unpacks to more than the 1000 bytes"));
  EXPECT_FALSE(inflate_member(liar, (*lying)[0], 1'000'000));
  EXPECT_THAT(refusal(deflated_zip("x", 0xFFFFFFFE)), HasSubstr("more than deflate can"));
}

}  // namespace zip_parse_test
}  // namespace lockstep::checkpoint
