// SPDX-License-Identifier: Apache-2.0
#include "lockstep/view/run_curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/json.h"
#include "lockstep/base/printable.h"

namespace lockstep::view {
namespace {

using Json = nlohmann::json;
using Curves = std::map<std::string, Curve>;

constexpr std::size_t kMostPoints = 60'000'000;  // 16 bytes each
constexpr std::size_t kLongestLine = 1 << 20;
constexpr std::size_t kPiece = 1 << 20;

void add_point(Curves& curves, const std::string& name, std::int64_t step, const Json& value) {
  const bool is_number = value.is_number() && std::isfinite(value.get<double>());
  if (!is_number && !value.is_null()) return;
  Curve& curve = curves[name];
  while (!curve.empty() && curve.back().step >= step) curve.pop_back();  // a run that was killed repeats steps
  if (is_number) curve.push_back({step, value.get<double>()});
  if (curve.empty()) curves.erase(name);  // null means that a value was not finite, so it is not a point
}

void add_points(Curves& curves, const std::string& prefix, std::int64_t step, const Json& object) {
  for (const auto& [name, value] : object.items()) {
    if (name == "event" || name == "step" || name == "epoch" || name == "proved") continue;
    add_point(curves, prefix + text::printable(name), step, value);
  }
}

/// Takes the names from the text of the line, which has the task's order, because Json sorts its keys.
void add_metric_names(RunCurves& run, const Json& metrics, std::string_view text) {
  const auto is_known = [&](const std::string& name) {
    return std::ranges::find(run.metric_names, text::printable(name)) != run.metric_names.end();
  };
  bool all_known = true;
  for (const auto& [name, value] : metrics.items()) all_known = all_known && is_known(name);
  if (all_known) return;
  const auto ordered = parse_ordered_json(text);
  for (const auto& [name, value] : ordered["metrics"].items()) {
    if (!is_known(name)) run.metric_names.push_back(text::printable(name));
  }
}

void add_event(RunCurves& run, const LogLine& line, std::string_view text) {
  const Json& json = line.json;
  if (line.event == "step") {
    add_points(run.steps, "", *line.step, json);
    if (json.contains("losses")) add_points(run.steps, "losses.", *line.step, json["losses"]);
  } else if (line.event == "epoch") {
    add_points(run.epochs, "", *line.step, json);
    if (json.contains("metrics")) {
      add_points(run.metrics, "", *line.step, json["metrics"]);
      add_metric_names(run, json["metrics"], text);
    }
    run.epoch_of[*line.step] = json.value("epoch", std::int64_t{0});
  }
}

std::size_t points_of(const RunCurves& run) {
  std::size_t points = 0;
  for (const Curves* curves : {&run.steps, &run.epochs, &run.metrics}) {
    for (const auto& [name, curve] : *curves) points += curve.size();
  }
  return points;
}

std::string name_of(const std::filesystem::path& folder) {
  const auto path = std::filesystem::absolute(folder).lexically_normal();
  return text::printable(path.has_filename() ? path.filename().string() : path.parent_path().filename().string());
}

/// Reads the whole lines of a file; a line that is too long is skipped.
class LogLines {
 public:
  explicit LogLines(ReadableFile& file) : file_(file), size_(file.size()) {}

  template <class Use>
  void each(Use&& use) {
    while (read_piece()) {
      std::size_t begin = 0;
      for (std::size_t end; (end = text_.find('\n', begin)) != std::string::npos; begin = end + 1) {
        use(std::string_view(text_).substr(begin, end - begin));
      }
      text_.erase(0, begin);
      if (text_.size() > kLongestLine) text_ = " ";  // a line this long is not a JSON object
    }
  }

 private:
  bool read_piece() {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, size_ - at_));
    if (size == 0) return false;
    const std::size_t before = text_.size();
    text_.resize(before + size);
    file_.read(at_, text_.data() + before, size);
    at_ += size;
    return true;
  }

  ReadableFile& file_;
  std::uint64_t size_;
  std::uint64_t at_ = 0;
  std::string text_;
};

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

/// The values by step, then by column.
using Rows = std::map<std::int64_t, std::map<std::string, double>>;

void gather(Rows& rows, const Curves& curves, const std::string& prefix) {
  for (const auto& [name, curve] : curves) {
    for (const CurvePoint& point : curve) rows[point.step][prefix + name] = point.value;
  }
}

struct CsvRows {
  const std::string& run;
  const char* event;
  const std::map<std::int64_t, std::int64_t>& epoch_of;
};

std::string csv_rows(const CsvRows& table, const Rows& rows, const std::set<std::string>& columns) {
  std::string out;
  for (const auto& [step, figures] : rows) {
    const auto epoch = table.epoch_of.lower_bound(step);
    out += fmt::format("{},{},{},{}", csv_cell(table.run), table.event,
                       epoch == table.epoch_of.end() ? "" : std::to_string(epoch->second), step);
    for (const std::string& column : columns) {
      const auto figure = figures.find(column);
      out += figure == figures.end() ? "," : fmt::format(",{}", figure->second);
    }
    out += "\n";
  }
  return out;
}

void add_names(std::set<std::string>& names, const Curves& curves, const std::string& prefix) {
  for (const auto& [name, curve] : curves) names.insert(prefix + name);
}

}  // namespace

std::optional<LogLine> add_line(RunCurves& run, std::string_view text) {
  auto line = parse_log_line(text);
  if (!line) ++run.damaged;
  if (!line || !line->step) return line;
  try {
    add_event(run, *line, text);
  } catch (const Json::exception&) {
    ++run.damaged;  // an object with values of the wrong types
  }
  return line;
}

RunCurves read_run_curves(const std::filesystem::path& folder) {
  RunCurves run{.name = name_of(folder), .steps = {}, .epochs = {}, .metrics = {}, .epoch_of = {}};
  const auto path = folder / kRunLog;
  FileSystem& files = FileSystem::system();
  if (!files.exists(path)) {
    throw DataError(files.exists(folder) ? fmt::format("{} is not a run folder: it has no log.jsonl", folder.string())
                                         : fmt::format("there is no folder {}", folder.string()),
                    "pass the folder of a run, as in lockstep plot runs/first");
  }
  const auto file = files.open(path);
  std::size_t lines = 0;
  LogLines(*file).each([&](std::string_view line) {
    (void)add_line(run, line);
    constexpr std::size_t kEvery = 65'536;
    if (++lines % kEvery == 0 && points_of(run) > kMostPoints) {
      throw DataError(fmt::format("{} has more than {} points", path.string(), kMostPoints),
                      "log fewer steps with log_every_steps");
    }
  });
  return run;
}

std::string curves_csv(const std::vector<RunCurves>& runs) {
  std::set<std::string> columns;
  for (const RunCurves& run : runs) {
    add_names(columns, run.steps, "");
    add_names(columns, run.epochs, "");
    add_names(columns, run.metrics, "metrics.");
  }
  std::string out = "run,event,epoch,step";
  for (const std::string& column : columns) out += "," + csv_cell(column);
  out += "\n";
  for (const RunCurves& run : runs) {
    Rows steps;
    gather(steps, run.steps, "");
    out += csv_rows({run.name, "step", run.epoch_of}, steps, columns);
    Rows epochs;
    gather(epochs, run.epochs, "");
    gather(epochs, run.metrics, "metrics.");
    out += csv_rows({run.name, "epoch", run.epoch_of}, epochs, columns);
  }
  return out;
}

Curve smoothed(const Curve& curve, double weight) {
  if (weight <= 0) return curve;
  Curve out;
  out.reserve(curve.size());
  double average = 0;
  double trust = 1;  // weight of the average's initial value, 0
  for (const CurvePoint& point : curve) {
    average = average * weight + (1 - weight) * point.value;
    trust *= weight;
    out.push_back({point.step, average / (1 - trust)});
  }
  return out;
}

}  // namespace lockstep::view
