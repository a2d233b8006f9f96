// Writes amounts, times and names for people. Pure; knows nothing of reports.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cli/recordings/recording.h"

namespace cubfc::report {

std::string bytes_text(std::uint64_t bytes);  // "4.46 GiB", as cubfc's own lines write it
std::string count_text(std::uint64_t count);  // "1,204,311"
std::string counted(std::uint64_t count, std::string_view what);  // "1 block", "2 blocks"
std::string time_text(std::uint64_t nanoseconds);                 // "12.35 s", "4.10 ms", "900 ns"
std::string clock_text(std::uint64_t nanoseconds);                // for a moment: "12.345678 s"
std::string share_text(std::uint64_t part, std::uint64_t whole);  // "12.3 %"

// Makes text from a file fit for a terminal: replaces bytes that are not UTF-8, and characters that
// steer a terminal or change the direction of text, by '?'. `lines`: line ends stay.
std::string printable(std::string_view text, bool lines = false);

// The last characters of a text that is longer than `width`: "...lib/libtorch_cuda.so".
std::string end_of(const std::string& text, std::size_t width);

// For files: "own_pool". These names must not change.
std::string_view memory_key(trace::Memory memory);
std::string_view frame_kind_key(recordings::Frame::Kind kind);
// For people: "pool of cubfc's own".
std::string_view memory_name(trace::Memory memory);
std::string_view memory_name(const recordings::Recording& recording, trace::Memory memory);
// The device's label, or "GPU 0" if it has none.
std::string device_label(const recordings::Recording& recording, std::uint32_t number);
// "GPU 0 arena"; with the context's number, if the device has several such places.
std::string place_name(const recordings::Recording& recording, std::uint32_t place);
// The caller's path or line, or "(not known)".
std::string caller_name(const recordings::Recording& recording, std::uint8_t caller);
std::string thread_name(const recordings::Recording& recording, std::uint16_t thread);
// For "GPU memory of ...": "train.py --layers 24"; the file's name if the program is not known.
std::string title_of(const recordings::Recording& recording);
// The command line, with spaces between its words.
std::string command_text(const recordings::Recording& recording);

}  // namespace cubfc::report
