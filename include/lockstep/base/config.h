// SPDX-License-Identifier: Apache-2.0
// Reads settings from YAML with `__include__`, merges `a.b=c` from the command line, and binds them to the fields of
// plain structs. Every value records its origin (default, file:line, or the option that set it).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep {

/// A setting that is a whole number or `auto`. With `auto` a run determines the number itself and stores it here.
/// Example: config.batch_size = 64; config.batch_size = AutoInt::automatic();
class AutoInt {
 public:
  explicit AutoInt(std::int64_t number) noexcept : number_(number) {}
  /// Returns the value `auto`.
  [[nodiscard]] static AutoInt automatic() noexcept { return AutoInt(); }
  AutoInt& operator=(std::int64_t number) noexcept {
    number_ = number;
    return *this;
  }

  /// Returns true if the value is `auto`.
  [[nodiscard]] bool is_auto() const noexcept { return !number_; }
  /// Returns the number. Throws: UsageError if it is `auto`.
  [[nodiscard]] std::int64_t value() const;
  operator std::int64_t() const { return value(); }  // NOLINT(google-explicit-constructor): it is a number

 private:
  AutoInt() = default;
  std::optional<std::int64_t> number_;
};

/// One map in a list of maps, such as {params: "bias$", lr: 0.1, betas: [0.9, 0.99]}. A value is a string or a list of
/// strings.
using ConfigMap = std::map<std::string, std::variant<std::string, std::vector<std::string>>>;

/// A dotted key's value before it is bound: YAML text and its origin.
struct ConfigValue {
  std::string yaml;          ///< a scalar's text, or a sequence in YAML flow style
  std::string origin;        ///< "captcha.yml:7", "--set"
  bool is_sequence = false;  ///< true for a list, written as [a, b]
};

/// Returns what is wrong with `yaml`, with line and column; "" if it is valid. Valid YAML is one document of at most 4
/// MiB, 64 levels and 100,000 values with aliases expanded. An alias must not be inside its own anchor, and a map's
/// keys must be unique.
[[nodiscard]] std::string yaml_problem(std::string_view yaml);

/// Values by dotted key ("optimizer.lr"), in key order. Later values win: maps are merged, lists are replaced.
class ConfigTree {
 public:
  /// Reads `path`; the files under its key `__include__` (relative to it) are read first, depth first.
  /// Throws: DataError if a file is missing, UsageError (file and line) if it is not a YAML map or includes itself.
  static ConfigTree from_file(const std::filesystem::path& path);

  /// Reads `yaml`. Origins and messages use `name` as its file name. Throws: anything from_file() throws.
  static ConfigTree from_text(std::string_view yaml, const std::string& name);

  /// Applies one `a.b=c` assignment from the command line. Throws: UsageError if there is no '=' or no key.
  void set(std::string_view assignment, const std::string& origin);

  /// Merges `other` into this tree; its values win.
  void merge(const ConfigTree& other);

  /// Returns the values for whose keys `wanted` returns true.
  [[nodiscard]] ConfigTree filtered(const std::function<bool(const std::string& key)>& wanted) const;

  /// Returns all values as they were typed, by key.
  [[nodiscard]] const std::map<std::string, ConfigValue>& values() const noexcept { return values_; }

 private:
  std::map<std::string, ConfigValue> values_;
};

/// The valid range of a numeric setting.
struct ConfigRange {
  double least = -std::numeric_limits<double>::infinity();  ///< smallest valid value
  double most = std::numeric_limits<double>::infinity();    ///< largest valid value
  bool above = false;                                       ///< excludes `least` itself
  bool below = false;                                       ///< excludes `most` itself

  /// Returns true if `value` is in the range; false for NaN.
  [[nodiscard]] bool contains(double value) const noexcept;
  /// Returns "1 .. 1,000,000", "0 or more", "above 0, below 1".
  [[nodiscard]] std::string text() const;
};

/// How a setting is treated if its value differs from the checkpoint's when a run is resumed.
enum class OnResume {
  kError,            ///< an error: the result depends on the setting
  kFree,             ///< the new value applies from now on
  kFreeLength,       ///< free if the learning rate does not depend on the length of the run, else an error
  kFreeEvaluations,  ///< free if neither the learning rate nor a second stage depends on evaluations, else an error
  kFreeToBegin,      ///< free if the checkpoint has no moving average yet, else an error
  kCheckpoint,       ///< the checkpoint's own value applies
};

/// The fields of a settings struct. A field's row is the single description of a setting: validation, help, the tables
/// in the guides, the rules for changes on resume and the choices of `lockstep tune` all come from it.
/// Lifetime: the struct outlives the list.
class ConfigFields {
 public:
  /// The variable of a field: a pointer to one of these types.
  using Target = std::variant<bool*, std::int64_t*, double*, std::string*, std::vector<std::string>*, AutoInt*,
                              std::vector<ConfigMap>*>;
  /// One setting: its key, its variable, and its human-readable description.
  struct Field {
    std::string key;                        ///< "optimizer.lr"
    Target target;                          ///< Lifetime: the variable outlives the fields
    std::string help;                       ///< one line for `inspect config` and `--help`
    std::string origin = "default";         ///< the origin of the value: "default", "captcha.yml:7", "--set"
    std::vector<std::string> choices = {};  ///< valid values of a string; empty: any
    std::optional<ConfigRange> range = {};  ///< the valid range; in a list of whole numbers it applies to each
    std::string unit = {};                  ///< the number's unit: "steps", "MiB"; empty: a plain number
    OnResume resume = OnResume::kError;     ///< how a resumed run treats a different value
    bool host = false;                      ///< hosts of one run may use different values
    bool tune = false;                      ///< `lockstep tune` may try it
    std::string unused = {};                ///< why this recipe does not use the setting; empty if it does

    // Each of these setters returns the field.
    /// Sets the valid range and its unit.
    Field& in(const ConfigRange& numbers, std::string unit_name = "");
    /// Sets how a resumed run treats a different value.
    Field& at_resume(OnResume rule);
    /// Allows the hosts of one run to use different values.
    Field& per_host();
    /// Allows `lockstep tune` to try other values.
    Field& tuned();

    /// Returns "1 .. 4,096 threads" or "none, bf16, fp16"; empty if any value of the type is valid.
    [[nodiscard]] std::string allowed() const;
  };

  /// Adds a field; its current value is the default. The caller can extend the field through the returned reference,
  /// which is valid until the next field is added.
  /// Example: fields.add("workers", &workers, "loader threads per replica").in({0, 1024}).at_resume(OnResume::kFree);
  Field& add(std::string key, Target target, std::string help, std::vector<std::string> choices = {});

  /// Returns the field `key`. Throws: InternalError if there is none.
  [[nodiscard]] Field& at(const std::string& key);

  /// Writes every value of `tree` into its field.
  /// Throws: UsageError naming file and line for an unknown key (suggesting the nearest one), a wrong type, a number
  /// outside its range or an invalid choice.
  void bind(const ConfigTree& tree);

  /// Checks the current values, which a program may have set itself.
  /// Throws: UsageError naming the first key whose number is out of range, the number and the range.
  void check() const;

  /// Returns the fields, in the order they were added.
  [[nodiscard]] const std::vector<Field>& fields() const noexcept { return fields_; }

  /// Returns all fields as nested YAML, in the order they were added: the content of config.yml in a run folder.
  [[nodiscard]] std::string to_yaml() const;

  /// Returns one field's value as YAML text.
  [[nodiscard]] static std::string value_text(const Target& target);

 private:
  std::vector<Field> fields_;
};

}  // namespace lockstep

#pragma GCC visibility pop
