#include "cli/recordings/trace_writer.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <type_traits>

namespace cubfc::recordings {
namespace {

static_assert(std::endian::native == std::endian::little, "records are written as they are");

using trace::Kind;

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

template <typename Text>
std::string_view bytes_of(const Text& text) {
  static_assert(std::has_unique_object_representations_v<Text>);
  return {reinterpret_cast<const char*>(&text), sizeof(text)};
}

[[noreturn]] void fail(const std::string& path) {
  throw CannotWrite(path + ": " + std::generic_category().message(errno));
}

}  // namespace

TraceWriter::TraceWriter(const std::string& path, const Recording& names)
    : path_(path),
      names_(names),
      buffer_(std::make_unique<char[]>(kBufferBytes)),
      file_(std::fopen(path.c_str(), "wbe")),
      number_of_place_(names.places.size()),
      thread_is_named_(names.threads.size()),
      caller_is_named_(names.callers.size()) {
  if (file_ == nullptr) {
    fail(path_);
  }
  std::setvbuf(file_.get(), buffer_.get(), _IOFBF, kBufferBytes);
  place_of_number_.fill(kNone);
  put_header();
}

void TraceWriter::put_header() {
  trace::Header header{};
  header.magic = trace::kMagic;
  header.version = trace::kVersion;
  header.header_bytes = sizeof(header);
  header.start_unix_ns = names_.start_unix_ns;
  header.pid = static_cast<std::int32_t>(names_.pid);
  put(&header, sizeof(header));
  if (!names_.command_line.empty()) {
    std::string words;
    for (const std::string& word : names_.command_line) {
      words += (&word == names_.command_line.data() ? "" : std::string(1, '\0')) + word;
    }
    put(Kind::kProgram, {}, words);
  }
  if (!names_.settings.empty()) {
    put(Kind::kSettings, {}, names_.settings);
  }
  for (const Device& device : names_.devices) {
    const trace::DeviceText text{device.total_bytes, device.limit_bytes, device.uuid};
    put(Kind::kDevice,
        {.time_and_kind = 0,
         .address = device.number,
         .bytes = 0,
         .padding = 0,
         .thread = 0,
         .place = 0,
         .caller = 0},
        std::string(bytes_of(text)) + device.name);
  }
}

void TraceWriter::put(const void* data, std::size_t bytes) {
  if (bytes > 0 && std::fwrite(data, 1, bytes, file_.get()) != bytes) {
    fail(path_);
  }
}

void TraceWriter::put(Kind kind, trace::Record record, std::string_view payload) {
  static constexpr std::array<char, sizeof(trace::Record)> kZeros{};
  record.time_and_kind |= static_cast<std::uint8_t>(kind);
  record.bytes = payload.size();
  put(&record, sizeof(record));
  put(payload.data(), payload.size());
  put(kZeros.data(), trace::padded(payload.size()) - payload.size());
}

// The number of a place that has none: one that no place has now, else 255. A kPlace record then
// gives 255 from one place to the next.
std::uint8_t TraceWriter::free_number() {
  const auto* const found =
      std::find(place_of_number_.begin() + 1, place_of_number_.end() - 1, kNone);
  return static_cast<std::uint8_t>(found - place_of_number_.begin());
}

std::uint8_t TraceWriter::number_of_place(std::uint32_t place) {
  if (place == kNone) {
    return 0;
  }
  if (const std::uint8_t known = number_of_place_[place]; known != 0) {
    return known;
  }
  const std::uint8_t number = free_number();
  if (place_of_number_[number] != kNone) {
    number_of_place_[place_of_number_[number]] = 0;
  }
  place_of_number_[number] = place;
  number_of_place_[place] = number;
  const Place& named = names_.places[place];
  const trace::PlaceText text{
      named.context_id, static_cast<std::uint8_t>(named.device), named.memory, {}};
  trace::Record record{};
  record.place = number;
  put(Kind::kPlace, record, bytes_of(text));
  return number;
}

void TraceWriter::write(const Event& event) {
  write(event, event.text == kNone ? std::string_view() : names_.texts[event.text]);
}

void TraceWriter::write(const Event& event, std::string_view text) {
  trace::Record record{trace::time_and_kind(event.time_ns, event.kind),
                       event.address,
                       event.bytes,
                       event.padding,
                       event.thread,
                       number_of_place(event.place),
                       event.caller};
  if (event.thread != 0 && !thread_is_named_[event.thread]) {
    thread_is_named_[event.thread] = true;
    trace::Record name{};
    name.thread = event.thread;
    name.address = names_.threads[event.thread].id;
    put(Kind::kThread, name, names_.threads[event.thread].name);
  }
  if (event.caller != 0 && !caller_is_named_[event.caller]) {
    caller_is_named_[event.caller] = true;
    trace::Record name{};
    name.caller = event.caller;
    put(Kind::kCaller, name, names_.callers[event.caller]);
  }
  if (trace::has_payload(record)) {
    put(event.kind, record, text);
  } else {
    put(&record, sizeof(record));
  }
  if (event.kind == Kind::kEndPlace) {
    place_of_number_[record.place] = kNone;
    number_of_place_[event.place] = 0;
  }
}

void TraceWriter::close() {
  if (std::fclose(file_.release()) != 0) {
    fail(path_);
  }
}

void write_trace(const std::string& path, const Recording& recording) {
  TraceWriter writer(path, recording);
  for (const Event& event : recording.events) {
    writer.write(event);
  }
  writer.close();
}

}  // namespace cubfc::recordings
