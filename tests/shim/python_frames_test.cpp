// What stacks need of Python, without a Python: memory that may not be there, symbols, layouts and
// tables of lines. tests/cli/report/stacks_test.py has the interpreters.
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "catch.h"
#include "shim/loader/exported_symbols.h"
#include "shim/record/own_memory.h"
#include "shim/record/python_frames.h"
#include "shim/record/python_layout.h"
#include "shim/record/python_lines.h"

using cubfc::MemoryPiece;
using cubfc::OwnMemory;
using cubfc::python_layout_of;
using cubfc::python_line;
using cubfc::PythonLayout;
using Lines = cubfc::PythonLayout::Lines;

namespace {

std::string bytes(std::initializer_list<int> all) {
  std::string text;
  for (const int byte : all) {
    text += static_cast<char>(byte);
  }
  return text;
}

constexpr std::array kNames{"malloc", "free", "memcpy"};

}  // namespace

TEST_CASE("own memory is read where it is there, and nowhere else") {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto* const pages = static_cast<char*>(
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(pages != MAP_FAILED);
  REQUIRE(mprotect(pages + page, page, PROT_NONE) == 0);
  std::memset(pages, 7, page);
  const auto at = [&](std::size_t offset) {
    return reinterpret_cast<std::uintptr_t>(pages) + offset;
  };
  // Every third is not there, or not all of it; more than fit in one call.
  std::vector<std::array<char, 8>> to(300);
  std::vector<MemoryPiece> pieces;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::array<std::uintptr_t, 3> places{at(8 * (i % 100)), at(page - 4),
                                               i % 2 == 0 ? 0 : ~std::uintptr_t{15}};
    pieces.push_back({places.at(i % 3), to[i].data(), 8});
  }
  OwnMemory memory;
  memory.read(pieces);
  CHECK_FALSE(memory.is_forbidden());
  for (std::size_t i = 0; i < to.size(); ++i) {
    CHECK(pieces[i].is_read == (i % 3 == 0));
    CHECK((i % 3 != 0 || to[i][7] == 7));
  }
  std::uint64_t value = 0;
  CHECK(memory.read(at(8), value));
  CHECK(value == 0x0707070707070707);
  CHECK_FALSE(memory.read(at(page), value));
  munmap(pages, 2 * page);
}

TEST_CASE("symbols are found without the dynamic linker's lock") {
  std::array<void*, kNames.size()> found{};
  const cubfc::ObjectRange range = cubfc::find_exported_together(kNames, found);
  CHECK(range.contains(reinterpret_cast<std::uintptr_t>(found[0])));
  for (void* const each : found) {
    CHECK(each != nullptr);
  }
  // It is not there, though the others are.
  constexpr std::array kMore{"malloc", "there_is_no_such_function_anywhere"};
  std::array<void*, kMore.size()> none{};
  CHECK(cubfc::find_exported_together(kMore, none).end == 0);
}

TEST_CASE("a process without Python has no Python") {
  CHECK_FALSE(cubfc::Python::seen().has_value());
}

TEST_CASE("Pythons that are not known are not read, and are named") {
  std::array<std::uint64_t, cubfc::kPythonRuntimeWords> runtime{};
  const auto why_not = [&](const std::string& version) {
    std::string why;
    return python_layout_of(version, runtime, why) ? "known" : why;
  };
  for (const char* known : {"3.9.18 (main)", "3.10.13", "3.11.7 (x)", "3.12.1+ (heads/3.12)"}) {
    CHECK(why_not(known) == "known");
  }
  CHECK(why_not("3.8.1 (default)") == "Python 3.8.1 is not known (CPython 3.9 to 3.15 are)");
  CHECK(why_not("3.16.0a1 (main)") == "Python 3.16.0a1 is not known (CPython 3.9 to 3.15 are)");
  CHECK(why_not("4.11.0") == "Python 4.11.0 is not known (CPython 3.9 to 3.15 are)");
  CHECK(why_not("") == "Python  is not known (CPython 3.9 to 3.15 are)");
  CHECK(why_not("3.13.0 experimental free-threading build (main)") ==
        "Python 3.13.0 is a free-threaded build, whose frames are not read");
  // It has to say itself where everything is, and be the same version.
  CHECK(why_not("3.13.0 (main)") == "Python 3.13.0 is not known (CPython 3.9 to 3.15 are)");
  std::memcpy(runtime.data(), "xdebugpy", 8);
  runtime[1] = 0x030d00f0;
  CHECK(why_not("3.13.0 (main)") == "known");
  CHECK(why_not("3.14.0 (main)") == "Python 3.14.0 is not known (CPython 3.9 to 3.15 are)");
  runtime[1] = 0x030f00f0;
  CHECK(why_not("3.15.0 (main)") == "known");
  runtime[1] = 0x030f00a1;
  CHECK(why_not("3.15.0a1 (main)") == "Python 3.15.0a1 is not known (CPython 3.9 to 3.15 are)");
  runtime[1] = 0x030e00c1;
  CHECK(why_not("3.14.0rc1 (main)") == "known");
  runtime[1] = 0x030e00f0;
  CHECK(why_not("3.14.0 (main)") == "known");
  runtime[2] = 1;  // free-threaded
  CHECK(why_not("3.14.0 (main)") == "Python 3.14.0 is not known (CPython 3.9 to 3.15 are)");
}

TEST_CASE("offsets that cannot be are not used") {
  std::mt19937_64 random(1);
  for (int run = 0; run < 20'000; ++run) {
    std::array<std::uint64_t, cubfc::kPythonRuntimeWords> runtime{};
    for (std::uint64_t& word : runtime) {
      word = random() >> random() % 64;
    }
    std::memcpy(runtime.data(), "xdebugpy", 8);
    runtime[1] = 0x030d00f0;
    runtime[2] = 0;
    std::string why;
    if (const auto layout = python_layout_of("3.13.0", runtime, why)) {
      CHECK(layout->frame_bytes <= cubfc::kMostPythonBytes);
      CHECK(layout->code_bytes <= cubfc::kMostPythonBytes);
      for (const std::size_t offset :
           {layout->frame_code, layout->frame_previous, layout->frame_instruction}) {
        CHECK(offset + 8 <= layout->frame_bytes);
      }
      for (const std::size_t offset : {layout->code_file, layout->code_name, layout->code_lines}) {
        CHECK(offset + 8 <= layout->code_bytes);
      }
    }
  }
}

TEST_CASE("lines are found in the tables of every version") {
  // 3.9: bytes of code, lines; a line may be before the one before.
  const std::string lnotab = bytes({0, 1, 4, 2, 6, 0xff});
  CHECK(python_line(Lines::kLnotab, lnotab, false, 10, 0) == 11);
  CHECK(python_line(Lines::kLnotab, lnotab, false, 10, 3) == 11);
  CHECK(python_line(Lines::kLnotab, lnotab, false, 10, 4) == 13);
  CHECK(python_line(Lines::kLnotab, lnotab, false, 10, 100) == 12);
  CHECK(python_line(Lines::kLnotab, lnotab, true, 10, 100) == 0);
  // 3.10: the same for stretches, of which one has no line.
  const std::string deltas = bytes({4, 1, 4, 0x80, 6, 5});
  CHECK(python_line(Lines::kDeltas, deltas, false, 10, 0) == 11);
  CHECK(python_line(Lines::kDeltas, deltas, false, 10, 4) == 0);
  CHECK(python_line(Lines::kDeltas, deltas, false, 10, 8) == 16);
  CHECK(python_line(Lines::kDeltas, deltas, false, 10, 14) == 0);
  // 3.11: short, on a line that follows, without columns, long, and none.
  const std::string locations =
      bytes({0x80, 0, 0x80 | 11 << 3 | 1, 0, 0, 0x80 | 13 << 3, 3, 0x80 | 14 << 3, 0x40 | 0x10, 2,
             0, 0, 0, 0x80 | 15 << 3 | 7});
  CHECK(python_line(Lines::kLocations, locations, false, 10, 0) == 10);
  CHECK(python_line(Lines::kLocations, locations, false, 10, 2) == 11);
  CHECK(python_line(Lines::kLocations, locations, false, 10, 5) == 11);
  CHECK(python_line(Lines::kLocations, locations, false, 10, 6) == 10);
  CHECK(python_line(Lines::kLocations, locations, false, 10, 8) == 10 + (2 << 5) + 8);
  CHECK(python_line(Lines::kLocations, locations, false, 10, 10) == 0);
  CHECK(python_line(Lines::kLocations, locations, false, 10, 100) == 0);
  // Before a function's first instruction there is its first line.
  for (const Lines kind : {Lines::kLnotab, Lines::kDeltas, Lines::kLocations}) {
    CHECK(python_line(kind, "", false, 7, -1) == 7);
  }
}

TEST_CASE("a table of lines may be anything") {
  std::mt19937 random(2);
  for (int run = 0; run < 50'000; ++run) {
    std::string table(random() % 40, '\0');
    for (char& byte : table) {
      byte = static_cast<char>(random());
    }
    for (const Lines kind : {Lines::kLnotab, Lines::kDeltas, Lines::kLocations}) {
      CHECK(python_line(kind, table, run % 2 == 0, static_cast<std::int32_t>(random()),
                        static_cast<std::int64_t>(random() % 200)) <= INT32_MAX);
    }
  }
}
