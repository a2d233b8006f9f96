// What stands on the screen of `cubfc top`, and what keys change of it.
#include <clocale>

#include "catch.h"
#include "cli/top/width.h"
#include "made_up_figures.h"

namespace cubfc::cli::top {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines(1);
  for (const char each : text) {
    if (each == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += each;
    }
  }
  return lines;
}

// So many processes of each of so many GPUs, with 1, 2, ... GiB in use.
Look look_of_many(int processes, unsigned gpus) {
  std::vector<live::Process> all;
  for (int pid = 1; pid <= processes; ++pid) {
    all.push_back(made_up(pid));
    for (unsigned gpu = 0; gpu < gpus; ++gpu) {
      add_device(all.back(), gpu, static_cast<std::int32_t>(gpu),
                 static_cast<unsigned char>(gpu + 1), static_cast<std::uint64_t>(pid) * kGiB);
    }
  }
  return look_of(std::move(all));
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

KeyPress key(char character) {
  return {Press::kCharacter, character};
}

}  // namespace

TEST_CASE("a selected process stays selected when the order changes, and goes when it ends",
          "[top]") {
  Look first = look_of_many(2, 1);
  Screen screen({}, true);
  screen.show(first);
  const auto shows = [&](std::string_view text) { return has(screen.drawn({100, 30}), text); };
  CHECK(shows("\n>      2   2.00 GiB"));
  screen.press(key('r'));
  CHECK(shows("\n>      2   2.00 GiB"));
  screen.press({Press::kEnter});
  CHECK(shows("pid 2 on GPU 0"));
  Look second = look_of_many(1, 1);
  screen.show(second);
  CHECK_FALSE(shows("pid 2 on GPU 0"));
  CHECK(shows("the process has ended"));
  CHECK(shows("\n>      1   1.00 GiB"));
  CHECK_FALSE(screen.press(key('q')));
}

TEST_CASE("a screen of any size holds what fits", "[top]") {
  for (const unsigned gpus : {1U, 3U}) {
    Look look = look_of_many(40, gpus);
    Screen screen({}, false);
    screen.show(look);
    for (const bool with_details : {false, true}) {
      for (std::size_t lines = 1; lines < 60; ++lines) {
        for (const Press press : {Press::kEnd, Press::kUp, Press::kHome, Press::kPageDown}) {
          screen.press({press});
          const std::string drawn = screen.drawn({80, lines});
          CHECK(lines_of(drawn).size() == lines);
          if (lines >= 5) {
            CHECK(has(drawn, "\n\x1b[7m>"));
          }
        }
      }
      screen.press({with_details ? Press::kEscape : Press::kEnter});
    }
  }
}

TEST_CASE("the titles stand at the same places, whatever is sorted, scrolled or shown", "[top]") {
  Look look = look_of_many(40, 2);
  Screen screen({}, true);
  screen.show(look);
  const auto titles = [&] { return lines_of(screen.drawn({100, 20}))[1]; };
  const std::string first = titles();
  CHECK(first.rfind("     PID     IN USE ", 0) == 0);
  for (const char each : std::string_view("ssssssssssssssssrSnp")) {
    screen.press(key(each));
    CHECK(titles() == first);
  }
  for (const Press each :
       {Press::kEnd, Press::kPageUp, Press::kEnter, Press::kEnd, Press::kEscape}) {
    screen.press({each});
    CHECK(titles() == first);
  }
  // Wider texts come and go.
  Look wide = look_of_many(3, 1);
  figures::put(wide.processes.all[0].figures->devices[0].refused, 123'456'789'012);
  wide.processes.all[0].figures->devices[0].group.set("a group with a name");
  screen.show(wide);
  const std::string widest = titles();
  CHECK(widest != first);
  screen.show(look);
  CHECK(titles() == widest);
}

TEST_CASE("what the rows are sorted by is told below, and no title is changed by it", "[top]") {
  Look look = look_of_many(3, 1);
  Screen screen({}, true);
  screen.show(look);
  CHECK(has(screen.drawn({100, 20}), "\nq quit  ? help  sorted by IN USE; s changes it"));
  CHECK(has(screen.drawn({100, 20}), " PID     IN USE "));
  screen.press(key('s'));
  screen.press(key('r'));
  CHECK(has(screen.drawn({100, 20}), "sorted by IDLE, reversed; s changes it"));
  screen.press(key('<'));
  screen.press(key('S'));  // there is no column of users
  CHECK(has(screen.drawn({100, 20}), "sorted by PID, reversed; s changes it"));
  Screen colourful({}, false);
  colourful.show(look);
  CHECK(has(colourful.drawn({100, 20}), "\x1b[22;7mIN USE\x1b[27;2m"));
}

TEST_CASE("of a long list the part around the selected process is shown, and which GPU it is of",
          "[top]") {
  Look look = look_of_many(40, 2);
  Screen screen({}, true);
  screen.show(look);
  const auto drawn = [&] { return screen.drawn({100, 12}); };
  CHECK(has(drawn(), "lines 1-9 of 84"));
  CHECK(has(drawn(), "\nGPU 0  "));
  CHECK(has(drawn(), "\n>     40  40.00 GiB"));
  screen.press({Press::kEnd});
  CHECK(has(drawn(), "\n>      1   1.00 GiB"));
  CHECK(has(drawn(), "\nGPU 1  "));
  CHECK_FALSE(has(drawn(), "\nGPU 0  "));
  CHECK(has(drawn(), "lines 77-84 of 84"));
  screen.press({Press::kPageUp});
  CHECK(has(drawn(), "\n>      8   8.00 GiB"));
  screen.press({Press::kHome});
  CHECK(has(drawn(), "lines 1-9 of 84"));
  screen.press(key('j'));
  CHECK(has(drawn(), "\n>     39  39.00 GiB"));
  screen.press(key('k'));
  CHECK(has(drawn(), "\n>     40  40.00 GiB"));
}

TEST_CASE("details that are longer than the screen are scrolled, and n and p show other processes",
          "[top]") {
  Look look = look_of_many(3, 1);
  Screen screen({}, true);
  screen.show(look);
  screen.press({Press::kEnter});
  const auto drawn = [&] { return screen.drawn({80, 10}); };
  CHECK(has(drawn(), "\npid 3 on GPU 0"));
  CHECK_FALSE(has(drawn(), "\n  managed memory "));
  screen.press({Press::kDown});
  CHECK_FALSE(has(drawn(), "\npid 3 on GPU 0"));
  screen.press({Press::kEnd});
  CHECK(has(drawn(), "\n  managed memory "));
  CHECK(has(drawn(), "Esc back  up/down scroll, 3-6 of 6"));
  screen.press({Press::kPageUp});
  CHECK(has(drawn(), "\npid 3 on GPU 0"));
  screen.press({Press::kPageDown});
  CHECK(has(drawn(), "\n  managed memory "));
  screen.press({Press::kHome});
  CHECK(has(drawn(), "\npid 3 on GPU 0"));
  screen.press(key('n'));
  CHECK(has(drawn(), "\npid 2 on GPU 0"));
  CHECK(has(drawn(), "\n>      2   2.00 GiB"));
  screen.press(key('p'));
  CHECK(has(drawn(), "\npid 3 on GPU 0"));
  CHECK(has(screen.drawn({80, 40}), "Esc back  n/p other process"));  // all of it is there
  screen.press({Press::kEscape});
  CHECK_FALSE(has(drawn(), "\npid 3 on GPU 0"));
}

TEST_CASE("the help is there until a key is pressed, a part after the other where it is longer",
          "[top]") {
  Look look = look_of_many(3, 1);
  Screen screen({}, true);
  screen.show(look);
  screen.press(key('?'));
  CHECK(has(screen.drawn({80, 40}), "\ns >          sort by the next column\n"));
  CHECK(has(screen.drawn({80, 40}), "\nany key goes back"));
  CHECK(screen.press(key('q')));  // the end of the help, not of all
  CHECK(has(screen.drawn({80, 40}), "\n>      3 "));
  screen.press(key('?'));
  std::string all;
  int pages = 0;
  for (; !has(screen.drawn({40, 10}), "\n>      3 "); ++pages) {
    REQUIRE(pages < 10);
    const std::vector<std::string> page = lines_of(screen.drawn({40, 10}));
    for (std::size_t i = 1; i + 1 < page.size(); ++i) {
      CHECK(page[i].find("..") == std::string::npos);  // nothing is cut
      all += page[i] + '\n';
    }
    screen.press({Press::kEnter});
  }
  CHECK(pages > 1);
  CHECK(has(all, "q Ctrl-C"));
  CHECK(has(all, "the details say why"));
}

TEST_CASE("without colours there is no escape sequence, in any state", "[top]") {
  std::setlocale(LC_CTYPE, "C");
  Look look = look_of_many(3, 2);
  look.processes.unusable.push_back("/run/x\x1b[2J: bad");
  figures::put(look.processes.all[0].figures->devices[0].refused, 5);
  for (const bool plain : {true, false}) {
    Screen screen({}, plain);
    screen.show(look);
    std::string all = screen.drawn({100, 30});
    for (const KeyPress& each : {KeyPress{Press::kEnter}, key('?')}) {
      screen.press(each);
      all += screen.drawn({100, 30});
    }
    CHECK(has(all, "\x1b") != plain);
    CHECK_FALSE(has(all, "\x1b[2J"));
    CHECK(std::ranges::all_of(all,
                              [](char each) { return static_cast<unsigned char>(each) < 0x80; }));
  }
}

}  // namespace cubfc::cli::top
