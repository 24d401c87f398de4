// SPDX-License-Identifier: Apache-2.0
// Sets, for the object's lifetime, a locale in which numbers are "0,5" and "1.000": C++'s locale through a facet, the C
// library's if localedef can create one (no CI machine has de_DE installed).
#pragma once

#include <clocale>
#include <cstdlib>
#include <locale>
#include <string>

#include "support/temp_dir.h"

namespace lockstep::test {

class CommaLocale {
 public:
  CommaLocale() : cpp_(std::locale::global(std::locale(std::locale::classic(), new Punctuation))) {
    has_c_ = made_folder() && std::setlocale(LC_NUMERIC, kName) != nullptr;
  }
  ~CommaLocale() {
    std::setlocale(LC_NUMERIC, c_.c_str());
    std::locale::global(cpp_);
  }
  CommaLocale(const CommaLocale&) = delete;
  CommaLocale& operator=(const CommaLocale&) = delete;

  /// True if the C library has the locale; false without localedef: strtod() then still expects a point.
  [[nodiscard]] bool has_c() const { return has_c_; }

 private:
  class Punctuation final : public std::numpunct<char> {
    [[nodiscard]] char do_decimal_point() const override { return ','; }
    [[nodiscard]] char do_thousands_sep() const override { return '.'; }
    [[nodiscard]] std::string do_grouping() const override { return "\3"; }
  };
  static constexpr const char* kName = "de_DE.UTF-8";

  /// Creates the locale once per process, because this takes a second.
  static bool made_folder() {
    static const TempDir folder;
    static const bool made = [] {
      const std::string target = (folder / kName).string();
      const int ended = std::system(("localedef -i de_DE -f UTF-8 " + target + " >" + target + ".log 2>&1").c_str());
      return ended == 0 && ::setenv("LOCPATH", folder.path().c_str(), 1) == 0;
    }();
    return made;
  }

  std::string c_ = std::setlocale(LC_NUMERIC, nullptr);
  std::locale cpp_;
  bool has_c_ = false;
};

}  // namespace lockstep::test
