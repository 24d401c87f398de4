// SPDX-License-Identifier: Apache-2.0
// Settings as YAML with `__include__`, merged with command-line `a.b=c`, bound to the fields of plain structs.
// Every value keeps its origin (default, file:line, or the option that set it).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep {

/// A setting that is a whole number, or `auto`: then a run finds the number out and puts it here.
/// Example: config.batch_size = 64; config.batch_size = AutoInt::automatic();
class AutoInt {
 public:
  explicit AutoInt(std::int64_t number) noexcept : number_(number) {}
  [[nodiscard]] static AutoInt automatic() noexcept { return AutoInt(); }
  AutoInt& operator=(std::int64_t number) noexcept {
    number_ = number;
    return *this;
  }

  [[nodiscard]] bool is_auto() const noexcept { return !number_; }
  /// Throws: UsageError while it is `auto`.
  [[nodiscard]] std::int64_t value() const;
  operator std::int64_t() const { return value(); }  // NOLINT(google-explicit-constructor): it is a number

 private:
  AutoInt() = default;
  std::optional<std::int64_t> number_;
};

/// One map of a list of maps, such as {params: "bias$", lr: 0.1, betas: [0.9, 0.99]}: texts, or lists of texts.
using ConfigMap = std::map<std::string, std::variant<std::string, std::vector<std::string>>>;

/// A dotted key's value before it is bound: YAML text and where it came from.
struct ConfigValue {
  std::string yaml;    ///< a scalar's text, or a sequence in YAML flow style
  std::string origin;  ///< "captcha.yml:7", "--set"
  bool is_sequence = false;
};

/// What is wrong with a YAML text, with line and column; "" where it can be read. Every text is read within bounds: one
/// document of at most 4 MiB, 64 levels and 100,000 values with its aliases written out, no alias inside what it means,
/// no key twice in a map.
[[nodiscard]] std::string yaml_problem(std::string_view yaml);

/// Dotted keys ("optimizer.lr") to values, in key order. Later merges win; maps merge, lists replace.
class ConfigTree {
 public:
  /// Reads `path`; the files under its key `__include__` (relative to it) come first, depth first.
  /// Throws: DataError where a file is missing, UsageError (file and line) where it is no YAML map or includes itself.
  static ConfigTree from_file(const std::filesystem::path& path);

  /// `name` stands for the file in origins and messages. Throws: as from_file.
  static ConfigTree from_text(std::string_view yaml, const std::string& name);

  /// One `a.b=c` from the command line. Throws: UsageError where there is no '=' or no key.
  void set(std::string_view assignment, const std::string& origin);

  /// All of `other` over this.
  void merge(const ConfigTree& other);

  /// The values whose keys are `wanted`.
  [[nodiscard]] ConfigTree filtered(const std::function<bool(const std::string& key)>& wanted) const;

  [[nodiscard]] const std::map<std::string, ConfigValue>& values() const noexcept { return values_; }

 private:
  std::map<std::string, ConfigValue> values_;
};

/// The fields of a settings struct: dotted key, where the value lives, one line of help.
/// Lifetime: the struct outlives the list.
class ConfigFields {
 public:
  using Target = std::variant<bool*, std::int64_t*, double*, std::string*, std::vector<std::string>*, AutoInt*,
                              std::vector<ConfigMap>*>;
  struct Field {
    std::string key;
    Target target;
    std::string help;
    std::string origin = "default";
    std::vector<std::string> choices;  ///< for strings: the valid values; empty: any
  };

  /// Adds a field; its present value is the default.
  void add(std::string key, Target target, std::string help, std::vector<std::string> choices = {});

  /// Writes every value of `tree` into its field.
  /// Throws: UsageError naming file and line for an unknown key (with the nearest one), a wrong type or an invalid
  /// choice.
  void bind(const ConfigTree& tree);

  [[nodiscard]] const std::vector<Field>& fields() const noexcept { return fields_; }

  /// All fields as nested YAML, in the order they were added: what config.yml of a run folder holds.
  [[nodiscard]] std::string to_yaml() const;

  /// One field's value as YAML text.
  [[nodiscard]] static std::string value_text(const Target& target);

 private:
  std::vector<Field> fields_;
};

}  // namespace lockstep
