// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/formats/manifest_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoint/formats/folder_names.h"
#include "checkpoint/formats/hash.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::string_view kSealKey = "  \"manifest_xxh3_128\": \"";
constexpr std::string_view kSealEnd = "\"\n}\n";

/// Returns the text without its seal. Fails if the seal is missing or does not match.
Result<std::string_view> check_seal(std::string_view text) {
  const auto at = text.rfind(kSealKey);
  if (at == std::string_view::npos) return Failure{"it has no seal: it is cut short"};
  const std::string_view body = text.substr(0, at);
  const std::string expected = digest_of(body).xxh3_128;
  if (text.substr(at) != std::string(kSealKey) + expected + std::string(kSealEnd)) {
    return Failure{fmt::format("its bytes have XXH3-128 {}, but its seal says otherwise", expected)};
  }
  return body;
}

constexpr std::size_t kMaxWordBytes = 256;

/// The valid range of a key: the seal proves that a number is unchanged, not that it is plausible.
struct ManifestRange {
  const char* key;
  std::int64_t least;
  std::int64_t most;
};
constexpr ManifestRange kStepRange{"step", 0, 1'000'000'000'000'000};
constexpr ManifestRange kReplicasRange{"replicas", 1, 1'000'000};
constexpr ManifestRange kThreadsRange{"threads", 1, 4096};
constexpr ManifestRange kBytesRange{"bytes", 0, std::int64_t{1} << 50};

std::string out_of_range(const ManifestRange& range, const std::string& place, const std::string& value) {
  return fmt::format("'{}'{} is {}; valid values are {} to {}", range.key, place, value, range.least, range.most);
}

/// Returns the problem with the number; "" if it is in its range.
std::string check_range(const ManifestRange& range, std::int64_t value) {
  return value >= range.least && value <= range.most ? "" : out_of_range(range, "", fmt::format("{}", value));
}

/// Returns the problem with a word. Words are printed unchanged, so control characters are rejected.
std::string check_word(const char* key, const std::string& word) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~'; };
  if (word.size() > kMaxWordBytes) {
    return fmt::format("its {} has {} bytes; the limit is {}", key, word.size(), kMaxWordBytes);
  }
  if (std::all_of(word.begin(), word.end(), is_plain)) return "";
  return fmt::format("its {} has characters other than printable ASCII", key);
}

std::string check_digest(const std::string& name, const FileDigest& digest) {
  const std::string owner = fmt::format(" of {}", text::json_quote(name));
  if (digest.bytes > static_cast<std::uint64_t>(kBytesRange.most)) {
    return out_of_range(kBytesRange, owner, fmt::format("{}", digest.bytes));
  }
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (digest.xxh3_128.size() == 32 && std::all_of(digest.xxh3_128.begin(), digest.xxh3_128.end(), is_hex)) return "";
  return fmt::format("its xxh3_128{} is not a hash of 32 hexadecimal digits", owner);
}

/// Throws if `json` is not an integer; get<>() would also convert 1e39.
std::int64_t integer_of(const nlohmann::json& json) { return json.get_ref<const nlohmann::json::number_integer_t&>(); }

Manifest fields_of(const nlohmann::json& json) {
  Manifest manifest;
  manifest.format_version = integer_of(json.at("format_version"));
  manifest.meta.step = integer_of(json.at("step"));
  manifest.meta.replicas = integer_of(json.at("replicas"));
  manifest.meta.threads = integer_of(json.at("threads"));
  manifest.meta.configuration_hash = json.at("configuration_hash").get<std::string>();
  manifest.meta.digest_fold = json.value("digest_fold", "");
  manifest.libtorch = json.at("libtorch").get<std::string>();
  manifest.instruction_set = json.at("instruction_set").get<std::string>();
  manifest.blas = json.value("blas", "");
  manifest.kernel_variables = json.value("kernel_variables", "");
  for (const auto& [name, entry] : json.at("files").items()) {
    manifest.files[name] = {entry.at("bytes").get_ref<const nlohmann::json::number_unsigned_t&>(),
                            entry.at("xxh3_128").get<std::string>()};
  }
  return manifest;
}

/// Returns the name of a missing part; "" if every state has all of its parts.
std::string missing_part(const Manifest& manifest) {
  for (const auto& [name, digest] : manifest.files) {
    const auto file = parse_state_file_name(name);
    if (!file && name.ends_with(".safetensors"))
      return fmt::format("it has the invalid file name {}", text::json_quote(name));
    if (!file) continue;
    const int last = file->part == 1 ? file->parts : 1;  // part 1 requires all parts, every other part requires part 1
    for (int part = 1; part <= last; ++part) {
      const std::string other = state_file_name(file->state, part, file->parts);
      if (manifest.files.count(other) == 0) return fmt::format("it names {}, but no {}", name, other);
    }
  }
  return "";
}

}  // namespace

std::string manifest_problem(const Manifest& manifest) {
  const CheckpointMeta& meta = manifest.meta;
  for (const auto& [range, value] : {std::pair(kStepRange, meta.step), std::pair(kReplicasRange, meta.replicas),
                                     std::pair(kThreadsRange, meta.threads)}) {
    if (std::string why = check_range(range, value); !why.empty()) return why;
  }
  for (const auto& [key, word] :
       {std::pair("libtorch", &manifest.libtorch), std::pair("instruction_set", &manifest.instruction_set),
        std::pair("blas", &manifest.blas), std::pair("kernel_variables", &manifest.kernel_variables),
        std::pair("configuration_hash", &meta.configuration_hash), std::pair("digest_fold", &meta.digest_fold)}) {
    if (std::string why = check_word(key, *word); !why.empty()) return why;
  }
  for (const auto& [name, digest] : manifest.files) {
    if (std::string why = check_digest(name, digest); !why.empty()) return why;
  }
  return "";
}

std::string manifest_to_json(const Manifest& manifest) {
  std::string text = "{\n";
  const auto number = [&text](const char* key, std::int64_t value) {
    text += fmt::format("  \"{}\": {},\n", key, value);
  };
  const auto words = [&text](const char* key, const std::string& value) {
    text += fmt::format("  \"{}\": {},\n", key, text::json_quote(value));
  };
  number("format_version", manifest.format_version);
  number("step", manifest.meta.step);
  number("replicas", manifest.meta.replicas);
  number("threads", manifest.meta.threads);
  words("libtorch", manifest.libtorch);
  words("instruction_set", manifest.instruction_set);
  if (!manifest.blas.empty()) words("blas", manifest.blas);
  if (!manifest.kernel_variables.empty()) words("kernel_variables", manifest.kernel_variables);
  words("configuration_hash", manifest.meta.configuration_hash);
  if (!manifest.meta.digest_fold.empty()) words("digest_fold", manifest.meta.digest_fold);
  text += "  \"files\": {";
  std::string_view separator = "\n";
  for (const auto& [name, digest] : manifest.files) {
    text += fmt::format("{}    {}: {{\"bytes\": {}, \"xxh3_128\": {}}}", separator, text::json_quote(name),
                        digest.bytes, text::json_quote(digest.xxh3_128));
    separator = ",\n";
  }
  text += manifest.files.empty() ? "},\n" : "\n  },\n";
  const std::string seal = digest_of(text).xxh3_128;
  return text + std::string(kSealKey) + seal + std::string(kSealEnd);
}

Result<Manifest> manifest_from_json(std::string_view text) {
  if (text.size() > kMaxManifestBytes) return Failure{fmt::format("{} bytes are too many for a manifest", text.size())};
  if (const auto sealed = check_seal(text); !sealed) return Failure{sealed.error()};
  try {
    const auto json = parse_json(text, {.bytes = kMaxManifestBytes});
    if (const auto version = integer_of(json.at("format_version"));
        version < kFormatVersion || version > kShardedFormatVersion) {
      return Failure{fmt::format("its format is {}, but this program reads {} and {}", version, kFormatVersion,
                                 kShardedFormatVersion)};
    }
    Manifest manifest = fields_of(json);
    for (const auto& [name, digest] : manifest.files) {
      if (!is_plain_file_name(name))
        return Failure{fmt::format("it has the invalid file name {}", text::json_quote(name))};
    }
    if (const std::string why = missing_part(manifest); !why.empty()) return Failure{why};
    if (const std::string why = manifest_problem(manifest); !why.empty()) return Failure{why};
    return manifest;
  } catch (const JsonError& error) {
    return Failure{error.message()};
  } catch (const nlohmann::json::exception& error) {
    return Failure{error.what()};
  }
}

}  // namespace lockstep::checkpoint
