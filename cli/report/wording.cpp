#include "cli/report/wording.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>

#include "cli/recordings/file_name.h"
#include "cli/report/program_name.h"

namespace cubfc::report {
namespace {

// The amount in a unit, rounded as the page's script does: halves are rounded up.
std::string number_text(std::uint64_t amount, std::uint64_t unit, const char* name) {
  const bool has_two_digits = amount / unit < 100;
  const std::uint64_t parts = has_two_digits ? 100 : 10;
  const std::uint64_t whole = amount / unit;
  const auto rest = static_cast<unsigned __int128>(amount % unit);
  const auto rounded = static_cast<std::uint64_t>((rest * parts + unit / 2) / unit);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%" PRIu64 ".%0*" PRIu64 " %s", whole + rounded / parts,
                has_two_digits ? 2 : 1, rounded % parts, name);
  return text.data();
}

// Whether the second byte of a character may follow the first. If not, the two are an overlong
// form, half of a surrogate pair, or beyond U+10FFFF (RFC 3629).
bool follows(unsigned char first, unsigned char second) {
  return (second & 0xc0) == 0x80 && first != 0xc0 && first != 0xc1 && first < 0xf5 &&
         (first != 0xe0 || second >= 0xa0) && (first != 0xed || second < 0xa0) &&
         (first != 0xf0 || second >= 0x90) && (first != 0xf4 || second < 0x90);
}

// The length in bytes of the UTF-8 character at the beginning; 0 if there is none.
std::size_t character_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t length = first < 0x80             ? 1
                             : (first & 0xe0) == 0xc0 ? 2
                             : (first & 0xf0) == 0xe0 ? 3
                             : (first & 0xf8) == 0xf0 ? 4
                                                      : 0;
  if (length == 0 || length > text.size() ||
      (length > 1 && !follows(first, static_cast<unsigned char>(text[1])))) {
    return 0;
  }
  for (std::size_t n = 1; n < length; ++n) {
    if ((static_cast<unsigned char>(text[n]) & 0xc0) != 0x80) {
      return 0;
    }
  }
  return length;
}

// Whether a character is a control (C0, C1), ends a line or a paragraph, or changes the direction
// of text (Unicode UAX #9).
bool steers(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) {
    return first < 0x20 || first == 0x7f;
  }
  const auto second = static_cast<unsigned char>(character[1]);
  if (first == 0xc2) {
    return second < 0xa0;
  }
  if (first != 0xe2 || character.size() != 3) {
    return false;
  }
  const auto third = static_cast<unsigned char>(character[2]);
  return (second == 0x80 && (third == 0x8e || third == 0x8f || (third >= 0xa8 && third <= 0xae))) ||
         (second == 0x81 && third >= 0xa6 && third <= 0xa9);
}

}  // namespace

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  while (bytes >> 10U * unit >= 1024 && unit + 1 < kUnits.size()) {
    ++unit;
  }
  return unit == 0 ? std::to_string(bytes) + " B"
                   : number_text(bytes, std::uint64_t{1} << 10U * unit, kUnits.at(unit));
}

std::string count_text(std::uint64_t count) {
  std::string text = std::to_string(count);
  for (std::size_t end = text.size(); end > 3; end -= 3) {
    text.insert(end - 3, ",");
  }
  return text;
}

std::string counted(std::uint64_t count, std::string_view what) {
  return count_text(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

std::string time_text(std::uint64_t nanoseconds) {
  if (nanoseconds < 1000) {
    return std::to_string(nanoseconds) + " ns";
  }
  if (nanoseconds < 1'000'000) {
    return number_text(nanoseconds, 1000, "us");
  }
  return nanoseconds < 1'000'000'000 ? number_text(nanoseconds, 1'000'000, "ms")
                                     : number_text(nanoseconds, 1'000'000'000, "s");
}

std::string clock_text(std::uint64_t nanoseconds) {
  if (nanoseconds < 1'000'000) {
    return time_text(nanoseconds);
  }
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.6f s", static_cast<double>(nanoseconds) / 1e9);
  return text.data();
}

std::string share_text(std::uint64_t part, std::uint64_t whole) {
  std::array<char, 32> text{};
  const double share =
      whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  std::snprintf(text.data(), text.size(), "%.1f %%", share);
  return text.data();
}

std::string printable(std::string_view text, bool lines) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(length, 1));
    const bool stays = length > 0 && (!steers(character) || (lines && character == "\n"));
    clean += stays ? character : "?";
    text.remove_prefix(character.size());
  }
  return clean;
}

std::string end_of(const std::string& text, std::size_t width) {
  const auto continues = [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
  };
  const auto characters =
      text.size() - static_cast<std::size_t>(std::count_if(text.begin(), text.end(), continues));
  if (characters <= width || width < 4) {
    return text;
  }
  std::size_t from = text.size();
  for (std::size_t kept = 0; kept < width - 3; ++kept) {
    do {
      --from;
    } while (from > 0 && continues(text[from]));
  }
  return "..." + text.substr(from);
}

std::string_view memory_key(trace::Memory memory) {
  constexpr std::array<std::string_view, trace::kMemories> kKeys{
      "arena", "direct", "own_pool", "pool", "managed", "mapped", "array"};
  return kKeys.at(static_cast<std::size_t>(memory));
}

std::string_view frame_kind_key(recordings::Frame::Kind kind) {
  constexpr std::array<std::string_view, 3> kKeys{"native", "python", "thread"};
  return kKeys.at(static_cast<std::size_t>(kind));
}

std::string_view memory_name(trace::Memory memory) {
  constexpr std::array<std::string_view, trace::kMemories> kNames{
      "arena", "from the driver", "pool of cubfc's own",
      "pools", "managed memory",  "physical (mapped)",
      "arrays"};
  return kNames.at(static_cast<std::size_t>(memory));
}

std::string_view memory_name(const recordings::Recording& recording, trace::Memory memory) {
  return memory == trace::Memory::kArena ? recording.arena_is : memory_name(memory);
}

std::string device_label(const recordings::Recording& recording, std::uint32_t number) {
  const auto device = std::ranges::find(recording.devices, number, &recordings::Device::number);
  return device == recording.devices.end() || device->label.empty()
             ? "GPU " + std::to_string(number)
             : device->label;
}

std::string place_name(const recordings::Recording& recording, std::uint32_t place) {
  if (place >= recording.places.size()) {
    return "the process";
  }
  const recordings::Place& here = recording.places[place];
  std::string name =
      device_label(recording, here.device) + " " + std::string(memory_name(recording, here.memory));
  const bool another = std::any_of(
      recording.places.begin(), recording.places.end(), [&](const recordings::Place& other) {
        return &other != &here && other.device == here.device && other.memory == here.memory;
      });
  if (another) {
    name += ", context " + std::to_string(here.context_id);
  }
  return name;
}

std::string caller_name(const recordings::Recording& recording, std::uint8_t caller) {
  if (caller >= recording.callers.size() || recording.callers[caller].empty()) {
    return "(not known)";
  }
  return recording.callers[caller];
}

std::string thread_name(const recordings::Recording& recording, std::uint16_t thread) {
  if (thread >= recording.threads.size()) {
    return "(not known)";
  }
  const recordings::Thread& here = recording.threads[thread];
  if (here.id == 0) {
    return here.name.empty() ? "(not known)" : here.name;
  }
  return (here.name.empty() ? "thread" : here.name) + " " + std::to_string(here.id);
}

std::string command_text(const recordings::Recording& recording) {
  std::string text;
  for (const std::string& word : recording.command_line) {
    text += text.empty() ? word : " " + word;
  }
  return text;
}

std::string title_of(const recordings::Recording& recording) {
  const std::string program = program_text(command_text(recording));
  return program.empty() ? std::string(recordings::file_name(recording.path)) : program;
}

}  // namespace cubfc::report
