// What a look says of the figures of processes, and how it fits into a terminal.
#include <array>
#include <clocale>
#include <limits>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "cli/top/width.h"
#include "made_up_figures.h"

namespace cubfc::cli::top {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

std::vector<live::Process> list_of(live::Process one, live::Process other) {
  std::vector<live::Process> all;
  all.push_back(std::move(one));
  all.push_back(std::move(other));
  return all;
}

std::vector<int> pids_of(const Gpu& gpu) {
  std::vector<int> pids;
  for (const Row& row : gpu.rows) {
    pids.push_back(row.figures().pid);
  }
  return pids;
}

std::string text_of(const std::vector<Line>& lines) {
  std::string text;
  for (const Line& line : lines) {
    text += line.text + '\n';
  }
  return text;
}

}  // namespace

TEST_CASE("a device has one table, whatever its number is in a process", "[top]") {
  live::Process one = made_up(1);
  live::Process other = made_up(2);
  add_device(one, 0, 3, 7, kGiB);
  add_device(other, 0, 0, 7, 2 * kGiB);
  add_device(other, 1, 1, 8, kGiB);
  const Look look = look_of(list_of(std::move(one), std::move(other)));
  REQUIRE(look.gpus.size() == 2);
  CHECK(pids_of(look.gpus[0]) == std::vector{2});
  CHECK(pids_of(look.gpus[1]) == std::vector{1, 2});
}

TEST_CASE("the rate is of the time between two looks", "[top]") {
  const auto look_with = [](std::uint64_t allocations, std::chrono::seconds when,
                            const Look* before) {
    live::Process process = made_up(1);
    figures::put(add_device(process, 0, 0, 7, 0).of[1].num_allocs, allocations);
    std::vector<live::Process> all;
    all.push_back(std::move(process));
    return look_of(std::move(all), when, before);
  };
  const Look first = look_with(100, std::chrono::seconds(10), nullptr);
  CHECK_FALSE(first.gpus[0].rows[0].allocations_per_second);
  const Look second = look_with(500, std::chrono::seconds(12), &first);
  CHECK(second.gpus[0].rows[0].allocations_per_second == 200.0);
  const Look third = look_with(400, std::chrono::seconds(13), &second);  // a context has ended
  CHECK(third.gpus[0].rows[0].allocations_per_second == 0.0);
}

TEST_CASE("the share of time in which frees waited is of the time between two looks", "[top]") {
  const auto look_with = [](std::chrono::nanoseconds waited, std::chrono::seconds when,
                            const Look* before) {
    live::Process process = made_up(1);
    figures::put(add_device(process, 0, 0, 7, 0).free_waits_ns,
                 static_cast<std::uint64_t>(waited.count()));
    std::vector<live::Process> all;
    all.push_back(std::move(process));
    return look_of(std::move(all), when, before);
  };
  using namespace std::chrono_literals;
  const Look first = look_with(5s, 10s, nullptr);
  CHECK_FALSE(first.gpus[0].rows[0].blocked);
  CHECK(nlohmann::json::parse(json(first))["processes"][0]["devices"][0]["blocked"].is_null());
  const Look second = look_with(6s, 14s, &first);
  CHECK(second.gpus[0].rows[0].blocked == 0.25);
  CHECK(text_of(table(second, kAnyWidth)).find(" 25% ") != std::string::npos);
  const Look third = look_with(24s, 16s, &second);  // nine threads
  CHECK(text_of(table(third, kAnyWidth)).find(" 900% ") != std::string::npos);
}

TEST_CASE("rows are sorted by any column and back", "[top]") {
  live::Process one = made_up(1, "/bin/zebra 1");
  live::Process other = made_up(2, "/sbin/ape 2");
  add_device(one, 0, 0, 7, kGiB);
  add_device(other, 0, 0, 7, 2 * kGiB);
  Look look = look_of(list_of(std::move(one), std::move(other)));
  sort(look, {Key::kInUse, false});
  CHECK(pids_of(look.gpus[0]) == std::vector{2, 1});
  sort(look, {Key::kInUse, true});
  CHECK(pids_of(look.gpus[0]) == std::vector{1, 2});
  sort(look, {Key::kProgram, false});
  CHECK(pids_of(look.gpus[0]) == std::vector{2, 1});
  sort(look, {Key::kPid, false});
  CHECK(pids_of(look.gpus[0]) == std::vector{1, 2});
}

TEST_CASE("no line is wider than the terminal, and process id, bytes in use and program stay",
          "[top]") {
  std::setlocale(LC_CTYPE, "C.UTF-8");
  live::Process process = made_up(4711, "/opt/\xe6\xbc\xa2\xe5\xad\x97\x1b[2J\xff/run --all");
  add_device(process, 0, 0, 7, 3 * kGiB).name.set("\xe6\xbc\xa2\xe5\xad\x97 \x9b GPU");
  std::vector<live::Process> all;
  all.push_back(std::move(process));
  const Look look = look_of(std::move(all));
  for (std::size_t width = 0; width < 200; ++width) {
    const Order order;
    const Widths widths = widths_within(wanted_widths(look), width);
    std::vector<Line> lines = table(look, width);
    for (const std::vector<Line>& more :
         {std::vector{titles_line(widths, width, &order)}, list(look, widths, width, true),
          details(look.gpus[0].rows[0], {Map::kLate, std::chrono::seconds(9)}, width)}) {
      lines.insert(lines.end(), more.begin(), more.end());
    }
    for (const Line& line : lines) {
      CHECK(columns_of(line.text) <= width);
      CHECK(shown(line.text) == line.text);
    }
    const auto row = std::ranges::find(lines, Line::Kind::kRow, &Line::kind);
    if (width >= 40) {
      CHECK(row->text.rfind("    4711   3.00 GiB ", 0) == 0);
      CHECK(row->text.find("/run ") != std::string::npos);
    }
  }
  CHECK(text_of(table(look, kAnyWidth)).find("/opt/\xe6\xbc\xa2\xe5\xad\x97?[2J?/run --all\n") !=
        std::string::npos);
}

TEST_CASE("of a program's path the end is shown before the beginning", "[top]") {
  const std::string_view line = "/home/someone/very/long/models/train --epochs 3";
  CHECK(program_within(line, 60) == line);
  CHECK(program_within(line, line.size()) == line);
  CHECK(program_within(line, line.size() - 1) == ".../someone/very/long/models/train --epochs 3");
  CHECK(program_within(line, 30) == ".../models/train --epochs 3");
  CHECK(program_within(line, 26) == ".../train --epochs 3");
  CHECK(program_within(line, 19) == "train --epochs 3");
  CHECK(program_within(line, 12) == "train --ep..");
  CHECK(program_within("/a --data /sets/of/images", 10) == "a --data..");  // just the program's
  CHECK(program_within("train --data /sets/of/images", 12) == "train --da..");
  CHECK(program_within("/", 0).empty());
  CHECK(program_within("/////", 4) == ".../");
  CHECK(program_within("///// x", 3) == "///");
  for (std::size_t columns = 0; columns < 40; ++columns) {
    CHECK(columns_of(program_within("/\xe6\xbc\xa2/\xe5\xad\x97 \xe6\xbc\xa2 //", columns)) <=
          columns);
  }
}

TEST_CASE("a text goes on in the next line, at a blank where there is one", "[top]") {
  using Lines = std::vector<std::string>;
  CHECK(wrapped("", 10) == Lines{""});
  CHECK(wrapped("one two three", 13) == Lines{"one two three"});
  CHECK(wrapped("one two three", 8) == Lines{"one two", "three"});
  CHECK(wrapped("one two three", 7) == Lines{"one two", "three"});
  CHECK(wrapped("onetwothree x", 4) == Lines{"onet", "woth", "ree", "x"});
  CHECK(wrapped("\xe6\xbc\xa2\xe5\xad\x97", 0) == Lines{"\xe6\xbc\xa2", "\xe5\xad\x97"});
}

TEST_CASE("whose a process is has a column where there are several, and is always in the JSON",
          "[top]") {
  const auto look_of_users = [](uid_t one_user, uid_t other_user) {
    live::Process one = made_up(1);
    live::Process other = made_up(2);
    add_device(one, 0, 0, 7, kGiB);
    add_device(other, 0, 0, 7, kGiB);
    one.user = one_user;
    other.user = other_user;
    return look_of(list_of(std::move(one), std::move(other)));
  };
  const Look alike = look_of_users(0, 0);
  CHECK(text_of(table(alike, 100)).find("USER") == std::string::npos);
  Look different = look_of_users(4'000'000'001, 0);
  CHECK(text_of(table(different, 100)).find("     PID USER  ") != std::string::npos);
  CHECK(text_of(table(different, 100)).find("       1 4000000001 ") != std::string::npos);
  CHECK(text_of(table(different, 100)).find("       2 root       ") != std::string::npos);
  CHECK(text_of(table(different, 40)).find("USER") == std::string::npos);
  sort(different, {Key::kUser, true});
  CHECK(pids_of(different.gpus[0]) == std::vector{2, 1});
  for (const Look* const look : std::array<const Look*, 2>{&alike, &different}) {
    const auto process = nlohmann::json::parse(json(*look))["processes"][1];
    CHECK(process["user"] == "root");
    CHECK(process["uid"] == 0);
  }
}

TEST_CASE("wide characters are cut between, not in them", "[top]") {
  std::setlocale(LC_CTYPE, "C.UTF-8");
  const std::string wide = "\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2";
  CHECK(columns_of(wide) == 6);
  CHECK(cut(wide, 6) == wide);
  CHECK(cut(wide, 5) == "\xe6\xbc\xa2..");
  CHECK(left(wide, 5) == "\xe6\xbc\xa2.. ");
  CHECK(right(wide, 7) == " " + wide);
  CHECK(shown("a\tb\x7f\xe2\x80\xae") == "a?b??");
  CHECK(shown("\xc0\x80\xe0\x80\x80\xed\xa0\x80\xf4\x90\x80\x80") == "????????????");
}

TEST_CASE("the JSON has what is not known as null, and any text as UTF-8", "[top]") {
  live::Process process = made_up(1, "\xff\xfe\"\n");
  add_device(process, 0, 0, 0, 5);
  std::vector<live::Process> all;
  all.push_back(std::move(process));
  const Look look = look_of(std::move(all));
  const auto told = nlohmann::json::parse(json(look));
  const auto& device = told["processes"][0]["devices"][0];
  CHECK(told["processes"][0]["program"] == "??\"?");
  CHECK(device["bytes_limit"].is_null());
  CHECK(device["allocs_per_second"].is_null());
  CHECK(device["uuid"] == "");
  CHECK(device["bytes_in_use"] == 5);
  CHECK(device["memory"]["managed"]["bytes_in_use"] == 5);
}

TEST_CASE("keys are known by their bytes, however these arrive", "[top]") {
  Keys keys;
  const auto presses = [](const std::vector<KeyPress>& all) {
    std::vector<Press> found;
    for (const KeyPress& each : all) {
      found.push_back(each.press);
    }
    return found;
  };
  CHECK(presses(keys.read("\x1b[A\x1bOB\x1b[5~\x1b[6~\x1b[H\x1b[4~\rq")) ==
        std::vector{Press::kUp, Press::kDown, Press::kPageUp, Press::kPageDown, Press::kHome,
                    Press::kEnd, Press::kEnter, Press::kCharacter});
  CHECK(keys.read("\x1b").empty());
  CHECK(keys.is_waiting());
  CHECK(keys.read("[").empty());
  CHECK(presses(keys.read("B")) == std::vector{Press::kDown});
  CHECK(keys.read("\x1b").empty());
  CHECK(presses(keys.give_up_waiting()) == std::vector{Press::kEscape});
  CHECK_FALSE(keys.is_waiting());
  CHECK(presses(keys.read("\x1b[1;5A\x1b[200~")) == std::vector{Press::kUp, Press::kOther});
  CHECK(presses(keys.read("\x1b[" + std::string(100, '1'))).size() == 1);
}

}  // namespace cubfc::cli::top
