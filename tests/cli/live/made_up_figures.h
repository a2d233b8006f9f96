// Figures of processes as a test wants them, and everything that is ever shown of some.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/live/processes.h"
#include "cli/metrics/page.h"
#include "cli/top/json.h"
#include "cli/top/look.h"
#include "cli/top/screen.h"
#include "cli/top/table.h"

namespace cubfc::cli::top {

inline live::Process made_up(int pid, std::string_view program = "./app") {
  live::Process process{"/run/figures-5-" + std::to_string(pid), 0, 0,
                        std::make_unique<figures::ProcessFigures>()};
  figures::ProcessFigures& figures = *process.figures;
  figures.magic = figures::kMagic;
  figures.bytes = sizeof(figures);
  figures.pid = pid;
  figures.host.set("box");
  figures.program.set(program);
  return process;
}

// A device of a process, with this much in use, of managed memory.
inline figures::DeviceFigures& add_device(live::Process& process, std::size_t place,
                                          std::int32_t number, unsigned char id,
                                          std::uint64_t in_use) {
  figures::DeviceFigures& device = process.figures->devices.at(place);
  device.number = number;
  device.uuid.fill(id);
  device.name.set("GPU of a test");
  device.total_bytes = std::uint64_t{64} << 30;
  device.limit_bytes = ~std::uint64_t{0};
  device.ready = 1;
  figures::put(device.of[static_cast<std::size_t>(trace::Memory::kManaged)].bytes_in_use, in_use);
  figures::put(device.peak_bytes_in_use, in_use);
  return device;
}

inline Look look_of(std::vector<live::Process> all, std::chrono::seconds when = {},
                    const Look* before = nullptr) {
  live::Processes processes;
  processes.all = std::move(all);
  return look_at(std::move(processes), std::chrono::steady_clock::time_point(when), 0, before);
}

// Bytes over the figures of a process, as if its file held them: each piece is a place, a length
// and so many bytes.
inline void write_over(figures::ProcessFigures& figures, std::span<const std::uint8_t> pieces) {
  auto* const bytes = reinterpret_cast<std::uint8_t*>(&figures);
  while (pieces.size() > 4) {
    const std::size_t place =
        (pieces[0] + std::size_t{256} * pieces[1] + std::size_t{65536} * pieces[2]) %
        sizeof(figures);
    const std::size_t length =
        std::min<std::size_t>({pieces[3], pieces.size() - 4, sizeof(figures) - place});
    std::copy_n(pieces.begin() + 4, length, bytes + place);
    pieces = pieces.subspan(4 + length);
  }
}

// What all commands together make of them; empty when they are refused.
inline std::string everything_of(live::Processes processes, std::size_t width) {
  std::string problem;
  for (const live::Process& process : processes.all) {
    if (!live::are_usable(*process.figures, problem)) {
      return {};
    }
  }
  std::string all = metrics_text(processes, {});
  Look look = look_at(std::move(processes), {}, 0, nullptr);
  all += json(look);
  for (std::size_t key = 0; key < kKeys; ++key) {
    sort(look, {static_cast<Key>(key), key % 2 == 0});
  }
  Screen screen({}, true);
  screen.show(look);
  all += screen.drawn({width, 24});
  for (const Gpu& gpu : look.gpus) {
    for (const Row& row : gpu.rows) {
      for (const Line& line : details(row, {Map::kCame, std::chrono::seconds(0)}, width)) {
        all += line.text + '\n';
      }
    }
  }
  return all;
}

}  // namespace cubfc::cli::top
