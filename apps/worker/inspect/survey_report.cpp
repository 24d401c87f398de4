// SPDX-License-Identifier: Apache-2.0
// The counts of `lockstep inspect data` as text and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lockstep/base/text.h"
#include "lockstep/view/table.h"
#include "worker/inspect/inspect.h"

namespace lockstep::worker {
namespace {

using view::Align;
using Rows = std::vector<std::vector<std::string>>;
using Counts = std::map<std::int64_t, std::int64_t>;

struct Spread {
  double least = 0;
  double median = 0;
  double most = 0;
};

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {values.front(), median, values.back()};
}

struct Measure {
  std::string name;
  std::string key;
  Spread spread;
};

template <class Items, class ValueOf>
Measure measure(std::string name, std::string key, const Items& items, const ValueOf& value_of) {
  std::vector<double> values;
  for (const auto& item : items) values.push_back(static_cast<double>(value_of(item)));
  return {std::move(name), std::move(key), spread_of(std::move(values))};
}

std::vector<Measure> measures_of(const Survey& survey) {
  std::vector<Measure> all{
      measure("width, pixels", "width", survey.sizes, [](ImageSize size) { return size.width; }),
      measure("height, pixels", "height", survey.sizes, [](ImageSize size) { return size.height; })};
  if (survey.boxes.empty()) return all;
  all.push_back(measure("objects per image", "objects_a_picture", survey.objects_a_picture,
                        [](std::int64_t count) { return count; }));
  all.push_back(measure("box width, pixels", "box_width", survey.boxes, [](const Box& box) { return box.width(); }));
  all.push_back(measure("box height, pixels", "box_height", survey.boxes, [](const Box& box) { return box.height(); }));
  return all;
}

std::string class_name(std::int64_t label, const std::vector<std::string>& names) {
  const bool named = label >= 0 && label < std::ssize(names);
  return named ? names[static_cast<std::size_t>(label)] : fmt::format("{}", label);
}

std::string bar(double share) {
  constexpr int kWidth = 24;
  std::string drawn;
  for (int i = 0; i < static_cast<int>(share * kWidth + 0.5); ++i) drawn += "█";
  return drawn;
}

/// A table of the classes by label, with bars relative to the largest class.
std::string class_table(const char* counted, const Counts& counts, const std::vector<std::string>& names) {
  if (counts.empty()) return "";
  std::int64_t total = 0;
  std::int64_t most = 0;
  for (const auto& [label, count] : counts) {
    total += count;
    most = std::max(most, count);
  }
  Rows rows;
  for (const auto& [label, count] : counts) {
    rows.push_back({class_name(label, names), text::thousands(count),
                    fmt::format("{:.1f} %", 100.0 * static_cast<double>(count) / static_cast<double>(total)),
                    bar(static_cast<double>(count) / static_cast<double>(most))});
  }
  return "\n" + view::render_table({{.title = "class", .align = Align::kLeft},
                                    {.title = counted, .align = Align::kRight},
                                    {.title = "share", .align = Align::kRight},
                                    {.title = "", .align = Align::kLeft}},
                                   rows);
}

std::string size_table(const Survey& survey) {
  if (survey.sizes.empty()) return "";
  Rows rows;
  for (const auto& [name, key, spread] : measures_of(survey)) {
    const auto words = [](double value) { return fmt::format("{:g}", value); };
    rows.push_back({name, words(spread.least), words(spread.median), words(spread.most)});
  }
  return "\n" +
         view::render_table(
             {{.title = "", .align = Align::kLeft}, {.title = "min"}, {.title = "median"}, {.title = "max"}}, rows);
}

template <class Key>
std::string counted(const std::map<Key, std::int64_t>& counts) {
  std::vector<std::string> parts;
  for (const auto& [what, count] : counts) parts.push_back(fmt::format("{} ({})", what, text::thousands(count)));
  return text::join(parts);
}

std::string facts(const Survey& survey) {
  std::string lines = fmt::format("\nformats   {}\nchannels  {}\n", counted(survey.formats), counted(survey.channels));
  const auto add = [&](const std::string& count, const char* what = "") { lines += count + what + "\n"; };
  if (survey.captions > 0) add(text::counted(survey.captions, "caption"));
  if (survey.masks > 0) add(text::counted(survey.masks, "object mask"));
  if (survey.maps > 0) add(text::counted(survey.maps, "label map"));
  if (survey.empty_boxes > 0) {
    add(text::counted(survey.empty_boxes, "box", "boxes"), " without an area, removed by SanitizeBoxes");
  }
  if (survey.odd > 0) add(text::counted(survey.odd, "image"), " with a fault that does not affect its pixels");
  if (survey.turned > 0) add(text::counted(survey.turned, "image"), " turned upright according to EXIF orientation");
  if (survey.as_stored > 0) {
    add(text::counted(survey.as_stored, "image"),
        " not turned despite an EXIF orientation, because the annotations fit the stored size");
  }
  const bool has_classes = !survey.classes.empty();
  if (has_classes && survey.unlabelled > 0) add(text::counted(survey.unlabelled, "image"), " without a class");
  return lines;
}

std::string unreadable_list(const Survey& survey) {
  if (survey.unreadable.empty()) return "";
  std::string lines = fmt::format("\nunreadable: {}\n", survey.unreadable.size());
  for (const UnreadablePicture& one : survey.unreadable) lines += fmt::format("  {}\n", one.reason);
  return lines;
}

nlohmann::ordered_json named_counts(const Counts& counts, const std::vector<std::string>& names) {
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  for (const auto& [label, count] : counts) all[class_name(label, names)] = count;
  return all;
}

/// A table of pixel counts by class; 255 marks pixels without a class.
std::string pixel_table(const Survey& survey, std::vector<std::string> names) {
  constexpr std::size_t kUnlabelled = 255;
  if (survey.pixels.contains(kUnlabelled) && names.size() <= kUnlabelled) {
    for (std::size_t value = names.size(); value < kUnlabelled; ++value) names.push_back(fmt::format("{}", value));
    names.emplace_back("255 (none)");
  }
  return class_table("pixels", survey.pixels, names);
}

}  // namespace

std::string survey_text(const std::string& name, const Survey& survey, const std::vector<std::string>& class_names,
                        const std::vector<std::string>& remarks) {
  std::string end;
  for (const std::string& remark : remarks) end += "\n" + remark + "\n";
  const std::size_t bad = survey.unreadable.size();
  return fmt::format("{}: {}, {}\n", name, text::counted(survey.pictures, "image"),
                     bad == 0 ? "all readable" : fmt::format("{} unreadable", bad)) +
         size_table(survey) + facts(survey) + class_table("images", survey.classes, class_names) +
         class_table("objects", survey.objects, class_names) + pixel_table(survey, class_names) +
         unreadable_list(survey) + end;
}

std::string survey_json(const std::string& name, const Survey& survey, const std::vector<std::string>& class_names,
                        const std::vector<std::string>& remarks) {
  nlohmann::ordered_json all{{"name", name}, {"pictures", survey.pictures}};
  for (const auto& [title, key, spread] : measures_of(survey)) {
    all[key] = {{"min", spread.least}, {"median", spread.median}, {"max", spread.most}};
  }
  all["formats"] = survey.formats;
  for (const auto& [channels, count] : survey.channels) all["channels"][fmt::format("{}", channels)] = count;
  all["classes"] = named_counts(survey.classes, class_names);
  all["objects"] = named_counts(survey.objects, class_names);
  all["pixels"] = named_counts(survey.pixels, class_names);
  all["unlabelled"] = survey.unlabelled;
  all["empty_boxes"] = survey.empty_boxes;
  all["masks"] = survey.masks;
  all["maps"] = survey.maps;
  all["captions"] = survey.captions;
  all["odd"] = survey.odd;
  all["turned"] = survey.turned;
  all["as_stored"] = survey.as_stored;
  all["unreadable"] = nlohmann::ordered_json::array();
  for (const UnreadablePicture& one : survey.unreadable) {
    all["unreadable"].push_back({{"name", one.name}, {"reason", one.reason}});
  }
  all["remarks"] = remarks;
  return all.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace lockstep::worker
