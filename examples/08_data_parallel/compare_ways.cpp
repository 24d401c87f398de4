// Runs 08_data_parallel in all four ways, alternately, and prints the medians side by side.
#include <lockstep/lockstep.h>
#include <lockstep/view/table.h>

#include <fstream>

struct Way {
  std::string argument, title, lines;
  std::vector<std::vector<double>> runs;  // images/s, a process's minimum and maximum memory, sum of the weights
};

std::vector<double> run(const std::string& command) {
  std::vector<double> figures(4);
  FILE* said = popen(command.c_str(), "r");
  for (double& figure : figures)
    if (fscanf(said, "%lf", &figure) != 1) throw lockstep::DataError(command + " printed no numbers");
  pclose(said);
  return figures;
}

double median(const Way& way, size_t figure) {
  std::vector<double> values;
  for (const auto& run : way.runs) values.push_back(run[figure]);
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Returns: the number of lines that end with `mark`; only the way with that mark needs them.
std::string own_lines(const std::string& source, const std::string& mark) {
  int64_t lines = 0;
  std::ifstream file(source);
  for (std::string line; std::getline(file, line);) lines += line.ends_with("  // " + mark);
  return std::to_string(lines);
}

int compare(lockstep::Job& job, const std::string& source, int rounds) {
  std::vector<Way> ways{{"one", "one thread", "-", {}},
                        {"threads", "libtorch's threads", "-", {}},
                        {"dp", "DataParallel", own_lines(source, "DP"), {}},
                        {"ddp", "DistributedDataParallel", own_lines(source, "DDP"), {}}};
  for (int round = 0; round < rounds; ++round)
    for (auto& way : ways) way.runs.push_back(run("LOCKSTEP_LOG=warn 08_data_parallel " + way.argument));
  std::vector<std::vector<std::string>> rows;
  double differ = 0;
  for (const auto& way : ways) {
    rows.push_back({way.title, fmt::format("{:.1f}", median(way, 0)),
                    fmt::format("{:.2f} x", median(way, 0) / median(ways[0], 0)),
                    fmt::format("{:.1f} to {:.1f} MB", median(way, 1), median(way, 2)), way.lines});
    differ = std::max(differ, std::abs(median(way, 3) - median(ways[0], 3)));
  }
  job.print("{}", lockstep::view::render_table(
                      {{"way"}, {"images/s"}, {"speed"}, {"memory of a process"}, {"lines changed"}}, rows));
  job.print("the sums of all weights differ by at most {:.6f}", differ);
  return 0;
}

int main(int argc, char** argv) {
  return lockstep::run_program(argc, argv,
                               [&](lockstep::Job& job) { return compare(job, argv[1], std::stoi(argv[2])); });
}
