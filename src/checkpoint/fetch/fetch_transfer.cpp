// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/fetch/fetch_transfer.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <charconv>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "lockstep/base/awake_clock.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/version.h"

namespace lockstep::checkpoint {
namespace {

constexpr long kWholeContent = 200;
constexpr long kPartOfContent = 206;
constexpr long kNothingAfterThat = 416;
constexpr std::uint64_t kMostHeaderBytes = 256U << 10U;  // below libcurl's own limit, which it does not document
constexpr std::uint64_t kMostOtherBytes = 1U << 20U;     // limit for the body of an error response

struct FreeCurl {
  void operator()(CURL* curl) const noexcept { curl_easy_cleanup(curl); }
  void operator()(curl_slist* list) const noexcept { curl_slist_free_all(list); }
};

/// The values of "Content-Range: bytes 5-9/10" or "bytes */10".
struct ContentRange {
  std::optional<std::uint64_t> begin = std::nullopt;
  std::optional<std::uint64_t> total = std::nullopt;
};

std::optional<std::uint64_t> parse_count(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

ContentRange parse_content_range(std::string_view text) {
  const std::size_t space = text.find(' ');
  const std::size_t slash = text.find('/');
  if (space == std::string_view::npos || slash == std::string_view::npos) return {};
  return {.begin = parse_count(text.substr(space + 1)), .total = parse_count(text.substr(slash + 1))};
}

std::string seconds_text(std::chrono::milliseconds time) {
  return text::duration(std::chrono::duration<double>(time).count());
}

bool is_worth_another_try(long status) { return status == 408 || status == 425 || status == 429 || status >= 500; }

std::string hint_for(long status) {
  if (status == 401 || status == 403 || status == 407)
    return "use https://USER:PASSWORD@HOST/..., or download the file by hand and pass its path";
  return "check the address in a browser, or download the file by hand and pass its path";
}

template <class T>
void set(CURL* curl, CURLoption option, T value) {
  const CURLcode code = curl_easy_setopt(curl, option, value);
  if (code != CURLE_OK) throw InternalError(fmt::format("libcurl: {}", curl_easy_strerror(code)));
}

long status_of(CURL* curl) {
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

TimePoint now(AwakeTime& awake) { return awake.at(SystemClock::instance().now()); }

/// One request and the state of its callbacks. libcurl is C, so exceptions are held until libcurl has returned.
class Transfer {
 public:
  Transfer(const FetchUrl& url, const FetchOptions& options, PartialFile& part);
  TransferEnd run();

 private:
  void set_limits();
  void ask_for_the_rest();
  void take_header(std::string_view line);
  void take_body(std::string_view bytes);
  void begin_body();
  bool report();
  void note_bytes(std::size_t count);
  void measure_speed();
  void check_size(std::uint64_t size) const;
  [[nodiscard]] std::string header(const std::string& name) const;
  [[nodiscard]] std::string tag() const;
  [[nodiscard]] TransferEnd end_of_answer();
  [[nodiscard]] TransferEnd end_of_failure(CURLcode code) const;
  template <class F>
  bool keep_fault(F&& call) noexcept;

  static std::size_t on_header(char* data, std::size_t one, std::size_t size, void* self);
  static std::size_t on_body(char* data, std::size_t one, std::size_t size, void* self);
  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t);

  const FetchUrl& url_;
  const FetchOptions& options_;
  PartialFile& part_;
  std::unique_ptr<CURL, FreeCurl> curl_;
  std::unique_ptr<curl_slist, FreeCurl> sent_headers_;
  char curl_text_[CURL_ERROR_SIZE] = {};
  std::map<std::string, std::string> headers_;  // headers of the last response, with names in lower case
  std::exception_ptr fault_;
  std::optional<std::uint64_t> total_;
  bool has_begun_ = false;
  bool is_content_ = false;
  bool is_silent_ = false;
  bool has_enough_ = false;     ///< enough of an error response's body was read
  std::uint64_t received_ = 0;  ///< bytes of headers and bodies
  std::uint64_t header_bytes_ = 0;
  std::uint64_t other_bytes_ = 0;
  AwakeTime awake_{std::chrono::seconds{1}};  ///< libcurl calls report() about this often
  TimePoint last_byte_ = std::chrono::steady_clock::now();
  TimePoint window_begin_ = last_byte_;  ///< start of the time over which the speed is measured
  std::uint64_t window_bytes_ = 0;       ///< bytes received before window_begin_
  std::string slow_;                     ///< the speed as text, if it was too low
};

/// Calls `call` and stores its exception. Returns false if it threw.
template <class F>
bool Transfer::keep_fault(F&& call) noexcept {
  try {
    call();
    return true;
  } catch (...) {
    fault_ = std::current_exception();
    return false;
  }
}

Transfer::Transfer(const FetchUrl& url, const FetchOptions& options, PartialFile& part)
    : url_(url), options_(options), part_(part) {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (started == CURLE_OK) curl_.reset(curl_easy_init());
  if (!curl_) throw ResourceError("libcurl could not be initialized");
  set(curl_.get(), CURLOPT_URL, url.address.c_str());
  set(curl_.get(), CURLOPT_USERAGENT, fmt::format("lockstep/{}", kVersion).c_str());
  set(curl_.get(), CURLOPT_NOSIGNAL, 1L);  // libcurl's timeouts must not use SIGALRM, which belongs to the program
  set(curl_.get(), CURLOPT_ERRORBUFFER, static_cast<char*>(curl_text_));
  set(curl_.get(), CURLOPT_HEADERFUNCTION, &Transfer::on_header);
  set(curl_.get(), CURLOPT_HEADERDATA, static_cast<void*>(this));
  set(curl_.get(), CURLOPT_WRITEFUNCTION, &Transfer::on_body);
  set(curl_.get(), CURLOPT_WRITEDATA, static_cast<void*>(this));
  set(curl_.get(), CURLOPT_XFERINFOFUNCTION, &Transfer::on_progress);
  set(curl_.get(), CURLOPT_XFERINFODATA, static_cast<void*>(this));
  set(curl_.get(), CURLOPT_NOPROGRESS, 0L);
  set_limits();
  ask_for_the_rest();
}

void Transfer::set_limits() {
  set(curl_.get(), CURLOPT_PROTOCOLS_STR, "http,https");
  set(curl_.get(), CURLOPT_REDIR_PROTOCOLS_STR, url_.is_secure() ? "https" : "http,https");
  set(curl_.get(), CURLOPT_FOLLOWLOCATION, 1L);
  set(curl_.get(), CURLOPT_MAXREDIRS, static_cast<long>(options_.max_redirects));
  set(curl_.get(), CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_limit.count()));
}

void Transfer::ask_for_the_rest() {
  if (part_.size() == 0) return;
  set(curl_.get(), CURLOPT_RANGE, fmt::format("{}-", part_.size()).c_str());
  // If the server's content has changed, the server sends all of it instead.
  sent_headers_.reset(curl_slist_append(nullptr, ("If-Range: " + part_.tag()).c_str()));
  set(curl_.get(), CURLOPT_HTTPHEADER, sent_headers_.get());
}

std::size_t Transfer::on_header(char* data, std::size_t /*one*/, std::size_t size, void* self) {
  auto* transfer = static_cast<Transfer*>(self);
  return transfer->keep_fault([&] { transfer->take_header({data, size}); }) ? size : 0;
}

std::size_t Transfer::on_body(char* data, std::size_t /*one*/, std::size_t size, void* self) {
  auto* transfer = static_cast<Transfer*>(self);
  // A result of 0 ends the transfer; libcurl never passes an empty body.
  return transfer->keep_fault([&] { transfer->take_body({data, size}); }) && !transfer->has_enough_ ? size : 0;
}

int Transfer::on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto* transfer = static_cast<Transfer*>(self);
  bool goes_on = true;
  return transfer->keep_fault([&] { goes_on = transfer->report(); }) && goes_on ? 0 : 1;
}

void Transfer::take_header(std::string_view line) {
  note_bytes(line.size());
  header_bytes_ += line.size();
  if (header_bytes_ > kMostHeaderBytes) {
    throw DataError(
        fmt::format("{}: the server sent more than {} of headers", url_.text, text::bytes(kMostHeaderBytes)),
        hint_for(status_of(curl_.get())));
  }
  if (line.starts_with("HTTP/")) headers_.clear();  // another response, after a redirect
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  std::string name(line.substr(0, colon));
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::string_view value = line.substr(colon + 1);
  const std::size_t begin = value.find_first_not_of(" \t");
  const std::size_t end = value.find_last_not_of(" \t\r\n");
  value = begin == std::string_view::npos ? std::string_view() : value.substr(begin, end - begin + 1);
  headers_[name] = value;
}

std::string Transfer::header(const std::string& name) const {
  const auto found = headers_.find(name);
  return found == headers_.end() ? "" : found->second;
}

/// Returns the tag of the content. A weak ETag is not used, because it does not guarantee equal bytes.
std::string Transfer::tag() const {
  const std::string etag = header("etag");
  return etag.empty() || etag.starts_with("W/") ? header("last-modified") : etag;
}

void Transfer::check_size(std::uint64_t size) const {
  if (size <= options_.max_bytes) return;
  part_.remove();
  throw DataError(fmt::format("{} has {} or more, but the limit is {}", url_.text, text::bytes(size),
                              text::bytes(options_.max_bytes)),
                  "check the address, or download the file by hand and pass its path");
}

void Transfer::begin_body() {
  has_begun_ = true;
  if (status_of(curl_.get()) == kWholeContent) {
    total_ = parse_count(header("content-length"));
    part_.restart(tag());
    is_content_ = true;
  } else if (status_of(curl_.get()) == kPartOfContent) {
    const ContentRange range = parse_content_range(header("content-range"));
    total_ = range.total;
    is_content_ = range.begin == part_.size() && (tag().empty() || tag() == part_.tag());
    if (!is_content_) part_.restart("");  // not the requested range: the next attempt requests everything
  }
  if (is_content_ && total_) check_size(*total_);
}

void Transfer::take_body(std::string_view bytes) {
  note_bytes(bytes.size());
  if (!has_begun_) begin_body();
  if (!is_content_) {
    other_bytes_ += bytes.size();
    has_enough_ = other_bytes_ > kMostOtherBytes;
    return;
  }
  check_size(part_.size() + bytes.size());
  part_.append(bytes);
}

void Transfer::note_bytes(std::size_t count) {
  last_byte_ = now(awake_);
  if (received_ == 0) window_begin_ = last_byte_;  // the time until the first byte does not count
  received_ += count;
}

/// Checks the speed at the end of each window. libcurl's own limit uses the mean of a few seconds and does not report
/// it.
void Transfer::measure_speed() {
  const auto time = now(awake_) - window_begin_;
  if (received_ == 0 || time < options_.speed_window) return;
  const double speed = static_cast<double>(received_ - window_bytes_) / Seconds(time).count();
  if (speed < static_cast<double>(options_.min_speed.value_or(0))) {
    slow_ = fmt::format("only {:.0f} bytes per second arrived over {}; the minimum is {}", speed,
                        seconds_text(options_.speed_window), *options_.min_speed);
  }
  window_begin_ += time;
  window_bytes_ = received_;
}

/// Reports the progress. Returns false if the transfer has stalled for too long or is too slow.
bool Transfer::report() {
  measure_speed();
  if (now(awake_) - last_byte_ > options_.stall_limit) is_silent_ = true;
  if (options_.progress) options_.progress({.bytes = part_.size(), .total = total_});
  return !is_silent_ && slow_.empty();
}

TransferEnd Transfer::end_of_answer() {
  const long code = status_of(curl_.get());
  if (!has_begun_) begin_body();
  if (code == kNothingAfterThat) {
    // If-Range matched, so the bytes of `part_` belong to this content: they are all of it, or even more.
    if (part_.size() > 0 && parse_content_range(header("content-range")).total == part_.size()) return {};
    part_.restart("");
    return {TransferEnd::Kind::kBroken, "the server does not have this range of bytes"};
  }
  if (is_content_) {
    if (!total_ || part_.size() == *total_) return {};
    return {TransferEnd::Kind::kBroken, fmt::format("{} of {} bytes arrived", part_.size(), *total_)};
  }
  if (code == kPartOfContent)
    return {TransferEnd::Kind::kBroken, "the server sent a different range than the one requested"};
  if (is_worth_another_try(code))
    return {TransferEnd::Kind::kBroken, fmt::format("the server responded with {}", code)};
  throw DataError(fmt::format("{}: the server responded with {}{}", url_.text, code, code == 404 ? " (not found)" : ""),
                  hint_for(code));
}

TransferEnd Transfer::end_of_failure(CURLcode code) const {
  if (!slow_.empty()) return {TransferEnd::Kind::kSlow, slow_};
  if (is_silent_)
    return {TransferEnd::Kind::kSilent, fmt::format("no data arrived for {}", seconds_text(options_.stall_limit))};
  const std::string cause = curl_text_[0] != '\0' ? std::string(curl_text_) : curl_easy_strerror(code);
  switch (code) {
    case CURLE_TOO_MANY_REDIRECTS:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
      throw DataError(fmt::format("{}: {}", url_.text, cause),
                      fmt::format("at most {} redirects are followed, and only to {}; use the final address",
                                  options_.max_redirects, url_.is_secure() ? "https://" : "http:// and https://"));
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      throw IoError(fmt::format("{}: {}", url_.text, cause),
                    "the server's certificate is not trusted here: install ca-certificates, and check the clock");
    case CURLE_OPERATION_TIMEDOUT:
      return {TransferEnd::Kind::kSilent, cause};
    default:
      return {TransferEnd::Kind::kBroken, cause};
  }
}

TransferEnd Transfer::run() {
  const CURLcode code = curl_easy_perform(curl_.get());
  if (fault_) std::rethrow_exception(fault_);
  return code == CURLE_OK || has_enough_ ? end_of_answer() : end_of_failure(code);
}

}  // namespace

TransferEnd transfer(const FetchUrl& url, const FetchOptions& options, PartialFile& part) {
  return Transfer(url, options, part).run();
}

}  // namespace lockstep::checkpoint
