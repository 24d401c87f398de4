// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/formats/folder_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "checkpoint/formats/hash.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::string_view kStep = "step-";
constexpr std::string_view kBad = ".bad-";
constexpr std::string_view kTemporary = ".tmp-";
constexpr std::string_view kState = ".safetensors";
constexpr std::string_view kPart = ".part-";
constexpr std::string_view kOf = "-of-";
constexpr std::size_t kMarkDigits = 8;

template <class T>
std::optional<T> parse_digits(std::string_view text) {
  T value = 0;
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

}  // namespace

std::string step_name(std::int64_t step) { return fmt::format("{}{:08}", kStep, step); }

std::string bad_name(std::int64_t step, std::int64_t n) { return fmt::format("{}{}{}", step_name(step), kBad, n); }

std::string temporary_name(std::string_view name, int pid, std::string_view host) {
  return fmt::format("{}{}-{}{}{}", kTemporary, name, host, host.empty() ? "" : "-", pid);
}

std::string host_mark(std::string_view host_name) { return "h" + digest_of(host_name).xxh3_128.substr(0, kMarkDigits); }

std::optional<std::string> parse_old_name(std::string_view name) {
  if (!name.starts_with(kTemporary) || !parse_temporary_pid(name)) return std::nullopt;
  const std::string_view host = parse_temporary_host(name);
  name = name.substr(kTemporary.size(), name.rfind('-') - kTemporary.size());
  if (!host.empty()) name.remove_suffix(host.size() + 1);
  if (!name.ends_with(kOldSuffix)) return std::nullopt;
  name.remove_suffix(kOldSuffix.size());
  return parse_step_name(name) ? std::optional(std::string(name)) : std::nullopt;
}

std::optional<StepName> parse_step_name(std::string_view name) {
  if (!name.starts_with(kStep)) return std::nullopt;
  name.remove_prefix(kStep.size());
  const auto dot = name.find('.');
  const auto step = parse_digits<std::int64_t>(name.substr(0, dot));
  if (!step) return std::nullopt;
  if (dot == std::string_view::npos) return StepName{*step, 0};
  const std::string_view rest = name.substr(dot);
  if (!rest.starts_with(kBad)) return std::nullopt;
  const auto n = parse_digits<std::int64_t>(rest.substr(kBad.size()));
  if (!n || *n == 0) return std::nullopt;
  return StepName{*step, *n};
}

std::optional<int> parse_temporary_pid(std::string_view name) {
  if (name.find(kTemporary) == std::string_view::npos) return std::nullopt;
  return parse_digits<int>(name.substr(name.rfind('-') + 1));
}

std::string_view parse_temporary_host(std::string_view name) {
  if (!parse_temporary_pid(name)) return {};
  name = name.substr(0, name.rfind('-'));
  const std::string_view host = name.substr(name.rfind('-') + 1);
  const bool is_mark = host.size() == kMarkDigits + 1 && host.front() == 'h' &&
                       host.find_first_not_of("0123456789abcdef", 1) == std::string_view::npos;
  return is_mark ? host : std::string_view();
}

bool is_plain_word(std::string_view name) {
  return !name.empty() && !name.starts_with(kStep) && std::all_of(name.begin(), name.end(), is_word_char);
}

bool is_plain_file_name(std::string_view name) {
  const auto fits = [](char c) { return is_word_char(c) || c == '.'; };
  return !name.empty() && name.front() != '.' && std::all_of(name.begin(), name.end(), fits);
}

std::string state_file_name(std::string_view state, int part, int parts) {
  return parts == 1 ? fmt::format("{}{}", state, kState)
                    : fmt::format("{}{}{}{}{}{}", state, kPart, part, kOf, parts, kState);
}

std::optional<StateFile> parse_state_file_name(std::string_view name) {
  if (!name.ends_with(kState)) return std::nullopt;
  name.remove_suffix(kState.size());
  const auto dot = name.find(kPart);
  if (dot == std::string_view::npos) return StateFile{std::string(name), 1, 1};
  const std::string_view numbers = name.substr(dot + kPart.size());
  const auto separator = numbers.find(kOf);
  if (separator == std::string_view::npos) return std::nullopt;
  const auto part = parse_digits<int>(numbers.substr(0, separator));
  const auto parts = parse_digits<int>(numbers.substr(separator + kOf.size()));
  if (!part || !parts || *part < 1 || *parts < 2 || *part > *parts) return std::nullopt;
  return StateFile{std::string(name.substr(0, dot)), *part, *parts};
}

}  // namespace lockstep::checkpoint
