#include "cli/recordings/trace_reader.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cli/recordings/trace_stacks.h"

namespace cubfc::recordings {
namespace {

static_assert(std::endian::native == std::endian::little, "records are copied as they are");

using trace::Kind;

// A record that says that its payload is longer is broken: no payload is nearly as long.
constexpr std::uint64_t kLongestPayload = std::uint64_t{64} << 20;

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

class TraceReader {
 public:
  explicit TraceReader(Input& input) : input_(input) {}

  Recording read() {
    recording_.path = input_.name();
    recording_.format = "cubfc trace";
    recording_.callers.emplace_back();
    recording_.threads.emplace_back();
    if (read_header()) {
      std::string_view here;
      while (!recording_.is_cut && !(here = input_.ahead(sizeof(trace::Record))).empty()) {
        read_records(here);
      }
    }
    return std::move(recording_);
  }

 private:
  // False where the file ends within the header.
  bool read_header() {
    trace::Header header;
    const std::string_view here = input_.ahead(sizeof(header));
    if (here.size() < sizeof(header)) {
      recording_.is_cut = true;
      return false;
    }
    std::memcpy(&header, here.data(), sizeof(header));
    if (header.magic != trace::kMagic) {
      input_.fail(0, "this is no cubfc trace");
    }
    if (header.version != trace::kVersion) {
      input_.fail(offsetof(trace::Header, version),
                  "the trace has version " + std::to_string(header.version) +
                      "; this cubfc reads " + std::to_string(trace::kVersion));
    }
    if (header.header_bytes < sizeof(header)) {
      input_.fail(offsetof(trace::Header, header_bytes),
                  "the header cannot be " + std::to_string(header.header_bytes) + " bytes long");
    }
    recording_.is_cut = !input_.skip(header.header_bytes);
    recording_.start_unix_ns = header.start_unix_ns;
    recording_.pid = static_cast<std::uint64_t>(std::max(header.pid, 0));
    return true;
  }

  // Reads the records that `here` holds whole, up to and with the first that has a payload. A
  // record of zeros means that a thread has not written its part of the file, while others have
  // written behind it: the process was killed, or the file system was full. Nothing says then where
  // the next record begins.
  void read_records(std::string_view here) {
    std::size_t done = 0;
    trace::Record record;
    for (; here.size() - done >= sizeof(record); done += sizeof(record)) {
      std::memcpy(&record, here.data() + done, sizeof(record));
      if (trace::has_payload(record)) {
        input_.skip(done);
        return read_payload(record);
      }
      if (is_zero(record)) {
        recording_.is_cut = true;
        return;
      }
      take(record, input_.offset() + done);
    }
    input_.skip(done);
    recording_.is_cut = done == 0;
  }

  static bool is_zero(const trace::Record& record) {
    static constexpr trace::Record kZeros{};
    return std::memcmp(&record, &kZeros, sizeof(record)) == 0;
  }

  void take(const trace::Record& record, std::uint64_t byte) {
    const Kind kind = trace::kind_of(record);
    if (kind == Kind::kNothing || kind > Kind::kWake) {
      return;
    }
    Event event = event_of(record, kind);
    if (kind <= Kind::kEndPlace || record.place != 0) {
      event.place = place_of(record, byte);
    }
    if (kind == Kind::kAllocate || kind == Kind::kTensor) {
      event.stack = stacks_.take(record.thread, recording_.threads[event.thread].name);
      if (stacks_.are_too_many()) {
        input_.fail(byte, "the stacks so far take more than 1 GiB");
      }
    }
    if (kind == Kind::kEndPlace) {
      end_place(record.place);
    }
    recording_.reached_limit |= kind == Kind::kFull;
    recording_.closed |= kind == Kind::kClose;
    recording_.events.push_back(event);
  }

  Event event_of(const trace::Record& record, Kind kind) const {
    Event event;
    event.place = kNone;
    event.time_ns = trace::time_ns_of(record);
    event.address = record.address;
    event.bytes = record.bytes;
    event.padding = record.padding;
    event.thread = record.thread < threads_.size() ? threads_[record.thread] : std::uint16_t{0};
    event.caller = callers_[record.caller];
    event.kind = kind;
    return event;
  }

  std::uint32_t place_of(const trace::Record& record, std::uint64_t byte) {
    std::uint32_t& place = places_[record.place];
    if (place == kNone) {
      if (record.place != 0) {
        input_.fail(byte, "nothing says what place " + std::to_string(record.place) + " is");
      }
      place = static_cast<std::uint32_t>(recording_.places.size());
      recording_.places.emplace_back();
    }
    return place;
  }

  // From now on, a kPlace for the same device, memory and context makes a new place.
  void end_place(std::uint8_t number) {
    const std::uint32_t place = std::exchange(places_[number], kNone);
    if (place != kNone) {
      live_places_.erase(key_of(recording_.places[place]));
      for (std::uint32_t& other : places_) {
        other = other == place ? kNone : other;
      }
    }
  }

  void read_payload(const trace::Record& record) {
    const std::uint64_t byte = input_.offset();
    input_.skip(sizeof(record));
    const Kind kind = trace::kind_of(record);
    if (kind > Kind::kPythonStack) {
      recording_.is_cut = record.bytes > ~std::uint64_t{0} - sizeof(record) ||
                          !input_.skip(trace::padded(record.bytes));
      return;
    }
    if (record.bytes > kLongestPayload) {
      input_.fail(byte, "a payload of " + std::to_string(record.bytes) + " bytes is too long");
    }
    const auto padded = static_cast<std::size_t>(trace::padded(record.bytes));
    const std::string_view here = input_.ahead(padded);
    if (here.size() < padded) {
      recording_.is_cut = true;
      return;
    }
    take(record, kind, here.substr(0, static_cast<std::size_t>(record.bytes)), byte);
    input_.skip(padded);
  }

  void take(const trace::Record& record, Kind kind, std::string_view payload, std::uint64_t byte) {
    switch (kind) {
      case Kind::kProgram:
        recording_.command_line = split(payload, '\0');
        break;
      case Kind::kSettings:
        recording_.settings = payload;
        break;
      case Kind::kDevice:
        return take_device(record, payload, byte);
      case Kind::kPlace:
        return take_place(record, payload, byte);
      case Kind::kCaller:
        return take_caller(record, payload);
      case Kind::kThread:
        return take_thread(record, payload);
      case Kind::kStack:
        if (!stacks_.add_native(record.thread, payload)) {
          input_.fail(byte, "a stack is not of whole addresses");
        }
        break;
      case Kind::kPythonStack:
        if (!stacks_.add_python(record.thread, payload)) {
          input_.fail(byte, "a stack of Python's is not of whole numbers");
        }
        break;
      case Kind::kPython:
        stacks_.set_python(record.address);
        break;
      case Kind::kPythonFrame:
        stacks_.set_python_frame(record.address, record.padding, payload);
        break;
      case Kind::kObjects:
        stacks_.set_objects(payload);
        break;
      case Kind::kOutOfMemory:
      case Kind::kNote:
        return take_text(record, kind, payload, byte);
      default:
        break;
    }
  }

  void take_device(const trace::Record& record, std::string_view payload, std::uint64_t byte) {
    trace::DeviceText text;
    if (payload.size() < sizeof(text)) {
      input_.fail(byte, "what is said of a device is too short");
    }
    std::memcpy(&text, payload.data(), sizeof(text));
    Device device{static_cast<std::uint32_t>(record.address),
                  std::string(payload.substr(sizeof(text))),
                  text.total_bytes,
                  text.limit_bytes,
                  text.uuid,
                  ""};
    const auto [known, is_new] = devices_.try_emplace(device.number, recording_.devices.size());
    if (is_new) {
      recording_.devices.emplace_back();
    }
    recording_.devices[known->second] = std::move(device);
  }

  void take_place(const trace::Record& record, std::string_view payload, std::uint64_t byte) {
    trace::PlaceText text;
    if (payload.size() < sizeof(text)) {
      input_.fail(byte, "what is said of a place is too short");
    }
    std::memcpy(&text, payload.data(), sizeof(text));
    if (static_cast<std::size_t>(text.memory) >= trace::kMemories) {
      input_.fail(byte, "a place has memory of the unknown kind " +
                            std::to_string(static_cast<unsigned>(text.memory)));
    }
    const Place place{text.device, text.memory, text.context_id};
    const auto [known, is_new] = live_places_.try_emplace(
        key_of(place), static_cast<std::uint32_t>(recording_.places.size()));
    if (is_new) {
      recording_.places.push_back(place);
    }
    places_[record.place] = known->second;
  }

  // An Event has one byte for its caller: all callers after the 255th have its index.
  void take_caller(const trace::Record& record, std::string_view payload) {
    const auto [known, is_new] = caller_indices_.try_emplace(
        std::string(payload),
        static_cast<std::uint8_t>(std::min<std::size_t>(recording_.callers.size(), 255)));
    if (is_new && recording_.callers.size() <= 255) {
      recording_.callers.emplace_back(payload);
    }
    callers_[record.caller] = known->second;
  }

  void take_thread(const trace::Record& record, std::string_view payload) {
    if (record.thread >= threads_.size()) {
      threads_.resize(std::size_t{record.thread} + 1);
    }
    const std::size_t index = std::min<std::size_t>(recording_.threads.size(), 65535);
    if (index == recording_.threads.size()) {
      recording_.threads.push_back({record.address, std::string(payload)});
    }
    threads_[record.thread] = static_cast<std::uint16_t>(index);
  }

  void take_text(const trace::Record& record, Kind kind, std::string_view payload,
                 std::uint64_t byte) {
    Event event = event_of(record, kind);
    event.place = record.place != 0 ? place_of(record, byte) : kNone;
    event.text = static_cast<std::uint32_t>(recording_.texts.size());
    recording_.texts.emplace_back(payload);
    recording_.events.push_back(event);
  }

  using PlaceKey = std::tuple<std::uint32_t, trace::Memory, std::uint64_t>;
  static PlaceKey key_of(const Place& place) {
    return {place.device, place.memory, place.context_id};
  }

  static constexpr std::array<std::uint32_t, 256> no_places() {
    std::array<std::uint32_t, 256> places{};
    places.fill(kNone);
    return places;
  }

  Input& input_;
  Recording recording_;
  // By the number that the trace gives a place, a caller or a thread now: the index in the
  // Recording.
  std::array<std::uint32_t, 256> places_ = no_places();
  std::array<std::uint8_t, 256> callers_{};
  std::vector<std::uint16_t> threads_;
  std::map<PlaceKey, std::uint32_t> live_places_;
  std::unordered_map<std::string, std::uint8_t> caller_indices_{{"", 0}};
  std::unordered_map<std::uint32_t, std::size_t> devices_;
  TraceStacks stacks_{recording_};
};

}  // namespace

Recording read_trace(Input& input) {
  return TraceReader(input).read();
}

}  // namespace cubfc::recordings
