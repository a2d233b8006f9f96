// Figures in which anything may stand, the same in each run: what is shown of them is text that a
// terminal and a script can take. scripts/fuzz looks further.
#include <array>
#include <clocale>
#include <nlohmann/json.hpp>
#include <random>

#include "catch.h"
#include "cli/report/wording.h"
#include "made_up_figures.h"

namespace cubfc::cli::top {
namespace {

// The places that say where something else is, or how much of it there is.
void spoil(figures::ProcessFigures& figures, std::mt19937& random) {
  constexpr std::array<std::uint32_t, 6> kTelling{0, 1, 31, 33, 0x7fffffff, 0xffffffff};
  const auto telling = [&] { return kTelling.at(random() % kTelling.size()); };
  figures.num_callers = telling();
  for (figures::ArenaFigures& arena : figures.arenas) {
    arena.device = random() % 3 == 0 ? telling() : 1;
  }
  for (figures::DeviceFigures& device : figures.devices) {
    device.ready = random() % 2;
    device.number = static_cast<std::int32_t>(telling());
    figures::put(device.peaks, telling());
  }
}

}  // namespace

TEST_CASE("figures in which anything stands are shown or refused", "[live]") {
  std::setlocale(LC_CTYPE, "C.UTF-8");
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    live::Processes processes;
    for (const int pid : {1, 2}) {
      live::Process process = made_up(pid);
      auto* const bytes = reinterpret_cast<std::uint8_t*>(process.figures.get());
      for (std::size_t i = 0; i < sizeof(figures::ProcessFigures) && round % 3 > 0; ++i) {
        bytes[i] = static_cast<std::uint8_t>(round % 3 == 1 ? random() : ~0U);
      }
      process.figures->magic = figures::kMagic;
      process.figures->bytes = sizeof(figures::ProcessFigures);
      spoil(*process.figures, random);
      processes.all.push_back(std::move(process));
    }
    const std::string all = everything_of(std::move(processes), 20 + random() % 150);
    CHECK_FALSE(all.empty());
    CHECK(report::printable(all, true) == all);
    const std::size_t begin = all.find("\n{") + 1;
    CHECK(nlohmann::json::accept(all.substr(begin, all.find('\n', begin) - begin)));
  }
}

TEST_CASE("figures of another layout are refused, and of a process that begins are not there",
          "[live]") {
  const live::Process process = made_up(1);
  std::string problem;
  CHECK(live::are_usable(*process.figures, problem));
  process.figures->bytes = 7;
  CHECK_FALSE(live::are_usable(*process.figures, problem));
  CHECK_FALSE(problem.empty());
  problem.clear();
  process.figures->magic = 0;
  CHECK_FALSE(live::are_usable(*process.figures, problem));
  CHECK(problem.empty());
}

}  // namespace cubfc::cli::top
