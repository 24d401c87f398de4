// SPDX-License-Identifier: Apache-2.0
#include "launch/hosts/host_lines.h"

#include "launch/output/line_mux.h"
#include "lockstep/base/printable.h"

namespace lockstep::launch {
namespace {

constexpr std::size_t kLongestPartial = 64U << 10U;
constexpr std::size_t kMany = 1000;  // number of lines remembered

}  // namespace

void HostLines::feed(int host, int stream, std::string_view bytes) {
  std::string& partial = sources_[{host, stream}].partial;
  partial += bytes;
  std::size_t start = 0;
  for (std::size_t end = 0; (end = partial.find('\n', start)) != std::string::npos; start = end + 1) {
    show(host, stream, std::string_view(partial).substr(start, end - start));
  }
  partial.erase(0, start);
  if (partial.size() > kLongestPartial) finish(host, stream);
  flush(stream);
}

void HostLines::finish(int host, int stream) {
  Source& source = sources_[{host, stream}];
  if (!source.partial.empty()) show(host, stream, source.partial);
  source.partial.clear();
  flush(stream);
}

void HostLines::flush(int stream) {
  if (!shown_.empty()) sink_(stream, shown_);
  shown_.clear();
}

bool HostLines::is_repeated(int host, std::string_view line) {
  if (said_.size() >= kMany) said_.clear();
  Said& said = said_[std::string(line)];
  if (++said.times[host] <= said.shown) return true;
  ++said.shown;
  return false;
}

void HostLines::show(int host, int stream, std::string_view line) {
  const std::string plain = text::printable(without_colours(last_piece(line)));
  const bool is_of_rank = plain.starts_with('[');
  Source& source = sources_[{host, stream}];
  if (!is_of_rank && !plain.starts_with(' ')) source.is_hidden = is_repeated(host, plain);
  if (!is_of_rank && source.is_hidden) return;
  // A rank's prefix by itself proves nothing: any host can write any rank's prefix.
  shown_.append(hosts_[static_cast<std::size_t>(host)]).append(": ").append(plain).append("\n");
}

}  // namespace lockstep::launch
