// How amounts, times and names are written for people. Pure; knows nothing of reports.
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
std::string clock_text(std::uint64_t nanoseconds);                // of a moment: "12.345678 s"
std::string share_text(std::uint64_t part, std::uint64_t whole);  // "12.3 %"

// Text from a file, fit for a terminal: what is not UTF-8, and what would steer the terminal or
// turn the direction of writing, is a '?'. Line ends stay where `lines`.
std::string printable(std::string_view text, bool lines = false);

// At most `width` characters, of which the last ones are kept: "...lib/libtorch_cuda.so".
std::string end_of(const std::string& text, std::size_t width);

// For files: "own_pool". These names do not change.
std::string_view memory_key(trace::Memory memory);
std::string_view frame_kind_key(recordings::Frame::Kind kind);
// For people: "pool of cubfc's own".
std::string_view memory_name(trace::Memory memory);
std::string_view memory_name(const recordings::Recording& recording, trace::Memory memory);
// "GPU 0", or what it is called otherwise.
std::string device_label(const recordings::Recording& recording, std::uint32_t number);
// "GPU 0 arena", with the context where there are several.
std::string place_name(const recordings::Recording& recording, std::uint32_t place);
// Its path, or the line, or "(not known)".
std::string caller_name(const recordings::Recording& recording, std::uint8_t caller);
std::string thread_name(const recordings::Recording& recording, std::uint16_t thread);
// "train.py --layers 24"; the file's name where the program is not known. For "GPU memory of ...".
std::string title_of(const recordings::Recording& recording);
// The arguments with spaces between them.
std::string command_text(const recordings::Recording& recording);

}  // namespace cubfc::report
