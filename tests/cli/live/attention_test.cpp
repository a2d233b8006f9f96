// What of a process needs a look, and how full a GPU is.
#include <clocale>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "cli/top/attention.h"
#include "cli/top/bar.h"
#include "cli/top/paint.h"
#include "cli/top/width.h"
#include "made_up_figures.h"

namespace cubfc::cli::top {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::string_view kId = "GPU-07070707-0707-0707-0707-070707070707";

// Of a process with this of a GPU of 64 GiB: in use (managed), and idle in an arena, in one piece
// of `largest` and others.
struct Amounts {
  std::uint64_t in_use = 0;
  std::uint64_t idle = 0;
  std::uint64_t largest = 0;
  std::uint64_t limit = ~std::uint64_t{0};
  std::uint64_t refused = 0;
  bool has_blocks = false;  // one of a granule, in the arena
};

Look look_with(const Amounts& amounts) {
  live::Process process = made_up(1);
  figures::DeviceFigures& device = add_device(process, 0, 0, 7, amounts.in_use);
  figures::put(device.limit_bytes, amounts.limit);
  figures::put(device.refused, amounts.refused);
  figures::put(device.bytes_taken, amounts.in_use + amounts.idle);
  figures::ArenaFigures& arena = process.figures->arenas[0];
  arena.device = 1;
  figures::put(arena.figures.granules_in_use, amounts.has_blocks ? 1 : 0);
  figures::put(arena.figures.usable_bytes,
               amounts.idle + (amounts.has_blocks ? arena::kGranuleBytes : 0));
  figures::put(arena.figures.largest_free_block_bytes, amounts.largest);
  std::vector<live::Process> all;
  all.push_back(std::move(process));
  return look_of(std::move(all));
}

std::vector<Concern> concerns_with(const Amounts& amounts) {
  const Look look = look_with(amounts);
  return concerns_of(look.gpus[0].rows[0]);
}

std::string row_of(const Look& look, std::size_t width, bool plain) {
  const Row& row = look.gpus[0].rows[0];
  return painted(row_line(row, widths_within(wanted_widths(look), width), width), width, false,
                 plain);
}

std::string bar_text(const Gpu& gpu, std::size_t width, bool brief = false) {
  std::string text;
  for (const Line& line : bar_lines(gpu, width, brief)) {
    CHECK(columns_of(line.text) <= width);
    text += line.text + '\n';
  }
  return text;
}

}  // namespace

TEST_CASE("near its limit, refused, fragmented and much idle are told, and nothing else", "[top]") {
  using Concerns = std::vector<Concern>;
  CHECK(concerns_with({.in_use = 60 * kGiB}).empty());
  CHECK(concerns_with({.in_use = 8 * kGiB, .limit = 10 * kGiB}).empty());
  CHECK(concerns_with({.in_use = 9 * kGiB, .limit = 10 * kGiB}) == Concerns{Concern::kNearLimit});
  CHECK(concerns_with({.in_use = 0, .limit = 0}).empty());
  CHECK(concerns_with({.in_use = kGiB, .refused = 1}) == Concerns{Concern::kRefused});
  CHECK(
      concerns_with({.in_use = 9 * kGiB, .idle = 4 * kGiB, .largest = kGiB, .has_blocks = true}) ==
      Concerns{Concern::kFragmented});
  CHECK(concerns_with({.in_use = 9 * kGiB, .idle = 4 * kGiB, .largest = kGiB}).empty());
  CHECK(
      concerns_with({.in_use = 9 * kGiB, .idle = 4 * kGiB, .largest = 3 * kGiB, .has_blocks = true})
          .empty());
  CHECK(
      concerns_with({.in_use = 9 * kGiB, .idle = kGiB, .largest = 1, .has_blocks = true}).empty());
  CHECK(concerns_with({.in_use = 9 * kGiB, .idle = 10 * kGiB, .largest = 10 * kGiB}) ==
        Concerns{Concern::kIdle});
  CHECK(concerns_with({.in_use = kGiB, .idle = 3 * kGiB, .largest = 3 * kGiB}).empty());
  CHECK(concerns_with({.in_use = kGiB,
                       .idle = 40 * kGiB,
                       .largest = 1,
                       .limit = kGiB,
                       .refused = 2,
                       .has_blocks = true})
            .size() == 4);
}

TEST_CASE("what needs a look is told in words, with colours and without, and in a narrow table",
          "[top]") {
  const Look look = look_with({.in_use = kGiB,
                               .idle = 40 * kGiB,
                               .largest = kGiB,
                               .limit = kGiB,
                               .refused = 2,
                               .has_blocks = true});
  CHECK(row_of(look, 150, true).find(" near limit+ ") != std::string::npos);
  CHECK(row_of(look, 150, true).find('\x1b') == std::string::npos);
  CHECK(row_of(look, 150, false).find("\x1b[31m  1.00 GiB\x1b[39m") == std::string::npos);
  CHECK(row_of(look, 150, false).find("\x1b[31m1.00 GiB\x1b[39m") != std::string::npos);
  CHECK(row_of(look, 150, false).find("\x1b[33m98%\x1b[39m") != std::string::npos);
  CHECK(row_of(look, 150, false).find("\x1b[31mnear limit+\x1b[39m ") != std::string::npos);
  CHECK(row_of(look, 40, true).rfind("!      1   1.00 GiB ", 0) == 0);
  CHECK(row_of(look_with({.in_use = kGiB}), 40, true).rfind("       1   1.00 GiB ", 0) == 0);
  std::string told;
  for (const Line& line : details(look.gpus[0].rows[0], {}, 200)) {
    told += painted(line, 200, false, true) + '\n';
  }
  CHECK(told.find("note      near limit: 100.0 % of its limit is in use\n") != std::string::npos);
  CHECK(told.find("note      refused: 2 requests have failed") != std::string::npos);
  CHECK(told.find(
            "note      fragmented: of 40.00 GiB idle no request could have more than 1.00 GiB") !=
        std::string::npos);
  CHECK(told.find("note      much idle: 40.00 GiB") != std::string::npos);
}

TEST_CASE("rows are sorted by how soon they need a look", "[top]") {
  live::Process calm = made_up(1);
  live::Process refused = made_up(2);
  live::Process full = made_up(3);
  add_device(calm, 0, 0, 7, kGiB);
  figures::put(add_device(refused, 0, 0, 7, kGiB).refused, 1);
  figures::put(add_device(full, 0, 0, 7, kGiB).limit_bytes, kGiB);
  std::vector<live::Process> all;
  all.push_back(std::move(calm));
  all.push_back(std::move(refused));
  all.push_back(std::move(full));
  Look look = look_of(std::move(all));
  sort(look, {Key::kNote, false});
  std::vector<int> pids;
  for (const Row& row : look.gpus[0].rows) {
    pids.push_back(row.figures().pid);
  }
  CHECK(pids == std::vector{3, 2, 1});
}

TEST_CASE("a bar has a cell for all that is there, and is ASCII where the locale is not UTF-8",
          "[top]") {
  std::setlocale(LC_CTYPE, "C");
  Look look = look_with({.in_use = 16 * kGiB, .idle = 8 * kGiB, .largest = 8 * kGiB});
  Gpu& gpu = look.gpus[0];
  gpu.unknown = "no reason";
  CHECK(bar_text(gpu, 200) ==
        "[##########=====?????????????????????????]  # 16.00 GiB in use  = 8.00 GiB unused  "
        "? 40.00 GiB others or free, not known (no reason)\n");
  gpu.memory = {64 * kGiB, 56 * kGiB};
  CHECK(bar_text(gpu, 200) ==
        "[##########=====oooooooooooooooooooo.....]  # 16.00 GiB in use  = 8.00 GiB unused  "
        "o 32.00 GiB others  . 8.00 GiB free\n");
  CHECK(bar_text(gpu, 40) ==
        "[##########=====oooooooooooooooooo.....]\n# 16.00 GiB in use  = 8.00 GiB unused\n"
        "o 32.00 GiB others  . 8.00 GiB free\n");
  CHECK(bar_text(gpu, 40, true) == "[##########=====oooooooooooooooooo.....]\n");
  gpu.memory = {64 * kGiB, 24 * kGiB + 1};
  CHECK(bar_text(gpu, 12, true) == "[###=o.....]\n");  // a byte has a cell
  std::setlocale(LC_CTYPE, "C.UTF-8");
  CHECK(bar_text(gpu, 12, true) ==
        "[\u2588\u2588\u2588\u2593\u2592\u2591\u2591\u2591\u2591\u2591]\n");
}

TEST_CASE("a bar of figures that do not agree is as long as any", "[top]") {
  std::setlocale(LC_CTYPE, "C");
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  Look look = look_with({.in_use = kGiB});
  Gpu& gpu = look.gpus[0];
  for (const std::uint64_t in_use : {std::uint64_t{0}, kGiB, kMost}) {
    for (const std::uint64_t taken : {std::uint64_t{0}, kGiB, kMost}) {
      for (const std::uint64_t used : {std::uint64_t{0}, kGiB, kMost}) {
        gpu.in_use = in_use;
        gpu.taken = taken;
        gpu.memory = {used / 2, used};
        for (std::size_t width = 0; width < 120; ++width) {
          bar_text(gpu, width);
        }
        const std::string bar = bar_text(gpu, 60, true);
        CHECK((bar == "[]\n" || bar.size() == 43));
      }
    }
  }
}

TEST_CASE("others hold what is used beyond what cubfc's processes have taken, all of them",
          "[top]") {
  live::Process one = made_up(1);
  live::Process other = made_up(2);
  figures::put(add_device(one, 0, 0, 7, kGiB).bytes_taken, 4 * kGiB);
  figures::put(add_device(other, 0, 0, 7, kGiB).bytes_taken, 6 * kGiB);
  live::Processes processes;
  processes.all.push_back(std::move(one));
  processes.all.push_back(std::move(other));
  Look look = look_at(std::move(processes), {}, 0, nullptr, {2});
  REQUIRE(look.gpus.size() == 1);
  REQUIRE(look.gpus[0].rows.size() == 1);
  CHECK(look.gpus[0].rows[0].figures().pid == 2);
  CHECK(look.processes.all.size() == 1);
  look.gpus[0].unknown = "no reason";
  auto gpu = nlohmann::json::parse(json(look))["gpus"][0];
  CHECK(gpu["bytes_taken"] == 10 * kGiB);
  CHECK(gpu["bytes_in_use"] == 2 * kGiB);
  CHECK(gpu["bytes_others"].is_null());
  CHECK(gpu["bytes_free"].is_null());
  CHECK(gpu["others_unknown"] == "no reason");
  look.gpus[0].memory = {64 * kGiB, 15 * kGiB};
  gpu = nlohmann::json::parse(json(look))["gpus"][0];
  CHECK(gpu["uuid"] == kId);
  CHECK(gpu["bytes_others"] == 5 * kGiB);
  CHECK(gpu["bytes_free"] == 49 * kGiB);
  CHECK(gpu["others_unknown"].is_null());
}

TEST_CASE("what the child tells of GPUs is read, whatever else it says", "[live]") {
  const live::GpuMemories memories = live::read_gpu_memories(
      "GPU-1 100 30\nGPU-2 - NVML answers 3\nGPU-3 x y\nGPU-4 -\n\nGPU-5 18446744073709551616 1\n"
      "GPU-6 100 30 more");
  CHECK(memories.known.size() == 2);
  CHECK(memories.known.at("GPU-1").total_bytes == 100);
  CHECK(memories.known.at("GPU-1").used_bytes == 30);
  CHECK(memories.unknown == std::map<std::string, std::string>{{"GPU-2", "NVML answers 3"}});
}

}  // namespace cubfc::cli::top
