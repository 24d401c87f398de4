// SPDX-License-Identifier: Apache-2.0
#include "worker/inspect/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>

#include "worker/inspect/variables.h"

namespace lockstep::worker {
namespace inspect_machine_test {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST(InspectGpu, ShowsEachGpuWithUnitsAndTheRanksOnIt) {
  GpuReport report;
  report.gpus.push_back({.index = 0,
                         .name = "NVIDIA H100",
                         .percent = 97,
                         .used_bytes = std::uint64_t{20} << 30,
                         .total_bytes = std::uint64_t{80} << 30,
                         .celsius = 64,
                         .watts = 412.5,
                         .megahertz = 1980,
                         .processes = {{.pid = 4101, .bytes = std::uint64_t{3} << 30, .rank = 2}, {.pid = 77}}});
  report.gpus.push_back({.index = 1, .name = "NVIDIA H100"});
  const std::string text = gpu_text(report);
  EXPECT_THAT(
      text,
      ContainsRegex("0  NVIDIA H100 +97 % +21.5 GB of 85.9 GB +64 C +412 W +1980 MHz +rank 2 \\(pid 4101\\) 3.*, 77"));
  EXPECT_THAT(text, ContainsRegex("1  NVIDIA H100 +- +- +- +- +- +-"));
}

TEST(InspectGpu, SaysInALineWhyThereIsNone) {
  EXPECT_EQ(gpu_text({.problem = "no NVIDIA driver was found"}), "no GPU: no NVIDIA driver was found\n");
}

std::map<std::string, Variable> by_name(const std::vector<std::string>& environment) {
  std::map<std::string, Variable> found;
  for (const Variable& variable : all_variables(environment)) found[variable.name] = variable;
  return found;
}

TEST(InspectEnv, ListsWhatIsReadAndWhatIsSetOfTheLibraries) {
  const auto variables = by_name({"RANK=1", "NCCL_DEBUG=INFO", "NCCL_ALGO=Ring", "CUDA_HOME=", "noise"});
  EXPECT_EQ(variables.at("RANK").value, "1");
  EXPECT_EQ(variables.at("WORLD_SIZE").value, std::nullopt) << "listed though it is not set";
  EXPECT_EQ(variables.at("CUDA_HOME").value, "");
  EXPECT_EQ(variables.at("NCCL_ALGO").meaning, "") << "set, and of a library";
  EXPECT_FALSE(variables.contains("noise"));
  EXPECT_THAT(variables.at("CUDA_LAUNCH_BLOCKING").meaning, HasSubstr("waits for every kernel"));
}

TEST(InspectEnv, ShowsNoSecret) {
  for (const std::string name : {"LOCKSTEP_TOKEN", "LOCKSTEP_STORE_TOKEN", "SLURM_JWT", "TORCH_HUB_TOKEN",
                                 "NCCL_PASSWORD", "SLURM_API_KEY", "LOCKSTEP_SECRET"}) {
    EXPECT_EQ(by_name({name + "=sesame"}).at(name).value, "(set, not shown)") << name;
  }
  EXPECT_EQ(by_name({"LOCKSTEP_TLS_KEY=/etc/job.key"}).at("LOCKSTEP_TLS_KEY").value, "/etc/job.key") << "a file's name";
  EXPECT_EQ(by_name({"TORCH_URL=https://me:sesame@host/a?key=sesame"}).at("TORCH_URL").value,
            "https://***@host/a?key=***");
}

// The names that a source which reads the environment has in quotes: those given to a reading function, and those that
// look like a variable and stand in a table of them. What ends in '_' is the beginning of names.
std::set<std::string> names_read_in(const std::string& source) {
  static const std::regex direct(R"re((?:get|get_int|getenv|positive_seconds)\(\s*"([A-Z][A-Z0-9_]*)")re");
  static const std::regex table(R"re("([A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9])")re");
  // No variables: what CUDA's libraries answer, and the name of an argument in a verb's help.
  static const std::regex status(".*_STATUS_.*|RUN_DIR");
  static const std::regex reads(R"re(env::get|getenv\(|environment, ")re");
  std::set<std::string> names;
  if (!std::regex_search(source, reads)) return names;
  for (const std::regex& pattern : {direct, table}) {
    for (std::sregex_iterator at(source.begin(), source.end(), pattern), end; at != end; ++at) {
      if (!std::regex_match((*at)[1].str(), status)) names.insert((*at)[1]);
    }
  }
  return names;
}

TEST(InspectEnv, TheSourcesReadNoVariableThatTheListLacks) {
  EXPECT_THAT(names_read_in("const auto x = env::get(\"NEW\"); for (auto n : {\"A_TABLE\", \"no\"}) env::get(n);"),
              ::testing::ElementsAre("A_TABLE", "NEW"));
  const auto listed = by_name({});
  std::set<std::string> read;
  for (const char* folder : {"src", "include", "apps", "recipes"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::filesystem::path(LOCKSTEP_SOURCE_DIR) / folder)) {
      const auto end = entry.path().extension();
      if (end != ".cpp" && end != ".h") continue;
      std::ifstream in(entry.path(), std::ios::binary);
      for (const auto& name : names_read_in({std::istreambuf_iterator<char>(in), {}})) {
        read.insert(name);
        EXPECT_TRUE(listed.contains(name))
            << name << " of " << entry.path() << " belongs into apps/worker/inspect/variables.cpp";
      }
    }
  }
  EXPECT_THAT(read, ::testing::IsSupersetOf({"RANK", "LOCKSTEP_TIMEOUT", "SLURM_STEP_NODELIST", "NO_COLOR"}));
}

}  // namespace inspect_machine_test
}  // namespace lockstep::worker
