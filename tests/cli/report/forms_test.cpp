// Each form of a report says the same as the figures, whatever the recording holds; and a file that
// is written is there as a whole or not at all.
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "catch.h"
#include "cli/report/figures.h"
#include "cli/report/forms.h"
#include "cli/report/history.h"
#include "cli/report/output.h"
#include "cli/report/packed.h"
#include "cli/report/wording.h"
#include "tests/cli/report/made_up.h"

namespace report = cubfc::report;
namespace recordings = cubfc::recordings;
namespace fs = std::filesystem;

namespace {

// A folder that is gone afterwards.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "cubfc-report-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path_), {}));
  }

 private:
  fs::path path_;
};

std::string content_of(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

struct Reported {
  explicit Reported(recordings::Recording made)
      : recording(std::move(made)),
        history(report::history_of(recording)),
        figures(report::figures_of(recording, history)),
        lines(report::lines_of(recording, history, figures)) {}
  [[nodiscard]] report::Told told() const { return {recording, history, figures, lines}; }

  template <typename Write>
  [[nodiscard]] std::string written(Write write) const {
    const Folder folder;
    report::Output output{folder.file("report"), {folder.file("input")}};
    write(told(), output);
    output.finish();
    return content_of(folder.file("report"));
  }

  recordings::Recording recording;
  report::History history;
  report::Figures figures;
  report::CodeLines lines;
};

Reported hostile() {
  recordings::Recording recording = made_up::training(3000, 4);
  made_up::make_hostile(recording);
  return Reported{std::move(recording)};
}

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

std::uint64_t read_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.at(0));
    bytes.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
    if (byte < 0x80) {
      return value;
    }
  }
}

// A field of a protocol-buffer message: its number, and its number or its bytes.
struct Field {
  std::uint64_t number;
  std::string_view bytes;
};
std::multimap<std::uint64_t, Field> fields_of(std::string_view message) {
  std::multimap<std::uint64_t, Field> fields;
  while (!message.empty()) {
    const std::uint64_t key = read_varint(message);
    const std::uint64_t value = read_varint(message);
    Field field{value, {}};
    if ((key & 7U) == 2) {
      field.bytes = message.substr(0, value);
      message.remove_prefix(value);
    }
    fields.emplace(key >> 3U, field);
  }
  return fields;
}

std::string decoded(std::string_view text) {
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char digit : text) {
    if (digit == '=') {
      break;
    }
    const std::string_view digits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bits = bits << 6U | static_cast<std::uint32_t>(digits.find(digit));
    if ((count += 6) >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> static_cast<unsigned>(count) & 0xffU);
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("JSON tells the figures") {
  const Reported reported{made_up::training(5000, 3)};
  const auto json = nlohmann::json::parse(reported.written(report::write_json));
  const report::Figures& figures = reported.figures;
  CHECK(json["cubfc_report"] == 1);
  CHECK(json["peak"]["in_use_bytes"] == figures.whole.in_use.bytes);
  CHECK(json["peak"]["event"] == figures.whole.in_use.event);
  CHECK(json["peak"]["waiting_bytes"] == figures.at_peak.waiting.bytes);
  CHECK(json["end"]["in_use_bytes"] == figures.whole.in_use_at_end);
  CHECK(json["totals"]["allocations"] == reported.history.allocations);
  CHECK(json["devices"].size() == 2);
  CHECK(json["places"].size() == reported.recording.places.size());
  CHECK(json["out_of_memory"].size() == figures.failures.size());
  std::uint64_t of_callers = 0;
  for (const auto& caller : json["peak"]["by_caller"]) {
    of_callers += caller["bytes"].get<std::uint64_t>();
  }
  CHECK(of_callers == figures.whole.in_use.bytes);
  CHECK(json["samples"].back()["in_use_bytes"] == figures.whole.in_use_at_end);
}

TEST_CASE("Names that are no UTF-8 make JSON all the same") {
  CHECK_NOTHROW(nlohmann::json::parse(hostile().written(report::write_json)));
}

TEST_CASE("A text has lines of at most 80 characters, and nothing in them steers a terminal") {
  for (const bool is_hostile : {false, true}) {
    const Reported reported = is_hostile ? hostile() : Reported{made_up::training(20000, 5)};
    const std::string text = report::text_of(reported.told(), /*bold=*/false);
    std::istringstream lines{text};
    for (std::string line; std::getline(lines, line);) {
      // The last report is what a program was told, as wide as it is.
      const bool is_report =
          line.starts_with("cubfc:") || line.find("</script>") != std::string::npos;
      const auto characters = std::count_if(line.begin(), line.end(), [](char byte) {
        return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
      });
      INFO(line);
      CHECK((is_report || characters <= 80));
      CHECK(std::none_of(line.begin(), line.end(), [](char byte) {
        return static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f;
      }));
    }
    CHECK(text.find(report::count_text(reported.figures.whole.in_use.bytes)) != std::string::npos);
  }
}

TEST_CASE("An RMM log has each block of an address once, with its free") {
  const Reported reported{made_up::training(4000, 6)};
  std::istringstream lines{reported.written(report::write_rmm)};
  std::string line;
  std::getline(lines, line);
  REQUIRE(reported.figures.devices.size() > 1);
  CHECK(line == "Thread,Time,Action,Pointer,Size,Stream,Device ID");
  std::map<std::string, std::string> live;
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t failures = 0;
  while (std::getline(lines, line)) {
    std::vector<std::string> cells;
    std::istringstream rest{line};
    for (std::string cell; std::getline(rest, cell, ',');) {
      cells.push_back(cell);
    }
    REQUIRE(cells.size() == 7);
    if (cells[2] == "allocate") {
      ++allocations;
      CHECK(live.emplace(cells[3], cells[4]).second);
    } else if (cells[2] == "free") {
      ++frees;
      REQUIRE(live.count(cells[3]) == 1);
      CHECK(live[cells[3]] == cells[4]);
      live.erase(cells[3]);
    } else {
      CHECK(cells[2] == "allocate failure");
      ++failures;
    }
  }
  CHECK(allocations == reported.history.allocations - 2);  // one array, one of physical memory
  CHECK(frees == reported.history.frees);
  CHECK(failures == reported.figures.failures.size());
}

TEST_CASE("Perfetto's counters end with what is in use and taken at the end") {
  const Reported reported{made_up::training(4000, 7)};
  const std::string trace = reported.written(report::write_perfetto);
  std::map<std::uint64_t, std::uint64_t> last;  // of each track
  std::map<std::uint64_t, std::string> names;
  std::uint64_t before = 0;
  std::size_t instants = 0;
  for (const auto& [field, packet] : fields_of(trace)) {
    REQUIRE(field == 1);
    const auto fields = fields_of(packet.bytes);
    if (const auto track = fields.find(60); track != fields.end()) {
      const auto descriptor = fields_of(track->second.bytes);
      if (descriptor.count(2) == 1) {
        names[descriptor.find(1)->second.number] = descriptor.find(2)->second.bytes;
      }
      continue;
    }
    CHECK(fields.find(8)->second.number >= before);
    before = fields.find(8)->second.number;
    const auto event = fields_of(fields.find(11)->second.bytes);
    if (event.find(9)->second.number == 4) {
      last[event.find(11)->second.number] = event.find(30)->second.number;
    } else {
      ++instants;
    }
  }
  std::uint64_t in_use = 0;
  std::uint64_t taken = 0;
  for (const auto& [track, value] : last) {
    (names.at(track).ends_with(" in use") ? in_use : taken) += value;
  }
  CHECK(in_use == reported.figures.whole.in_use_at_end);
  CHECK(taken == reported.figures.whole.taken_at_end);
  CHECK(instants == reported.figures.failures.size());
}

TEST_CASE("No text of a recording becomes a part of the page, and the page asks for nothing") {
  const std::string page = hostile().written(report::write_page);
  const std::string plain = Reported{made_up::training(3000, 4)}.written(report::write_page);
  for (const char* part : {"<script", "</script", "<img", "<!--"}) {
    CHECK(count_of(page, part) == count_of(plain, part));
  }
  CHECK(count_of(page, "http://") == 0);
  CHECK(count_of(page, "https://") == 0);
  CHECK(page.find("default-src 'none'") != std::string::npos);
}

TEST_CASE("What is packed can be unpacked, whatever its length") {
  for (std::size_t size = 0; size < 300; size += 7) {
    std::string data;
    for (std::size_t n = 0; n < size; ++n) {
      report::add_varint(data, n * n * 977);
    }
    std::string text;
    report::Packer packer{[&](std::string_view part) { text += part; }};
    packer.add(std::string_view(data).substr(0, data.size() / 2));
    packer.add(std::string_view(data).substr(data.size() / 2));
    packer.finish();
    CHECK(text.size() % 4 == 0);
    const std::string packed = decoded(text);
    std::string back(data.size() + 1, '\0');
    auto length = static_cast<uLongf>(back.size());
    REQUIRE(::uncompress(reinterpret_cast<Bytef*>(back.data()), &length,
                         reinterpret_cast<const Bytef*>(packed.data()),
                         static_cast<uLong>(packed.size())) == Z_OK);
    back.resize(length);
    CHECK(back == data);
  }
}

TEST_CASE("Every form tells of recordings that make no sense, and of one without events") {
  std::vector<recordings::Recording> all;
  for (std::uint64_t seed = 100; seed < 120; ++seed) {
    all.push_back(made_up::nonsense(1500, seed));
  }
  all.emplace_back();
  all.push_back(made_up::nonsense(1, 1));
  for (recordings::Recording& recording : all) {
    const Reported reported{std::move(recording)};
    CHECK_NOTHROW(nlohmann::json::parse(reported.written(report::write_json)));
    CHECK_FALSE(reported.written(report::write_page).empty());
    CHECK_FALSE(report::text_of(reported.told(), true).empty());
    CHECK_NOTHROW(reported.written(report::write_rmm));
    CHECK_NOTHROW(reported.written(report::write_perfetto));
  }
}

TEST_CASE("What was not finished leaves what was there as it was, and nothing beside it") {
  const Folder folder;
  const std::string path = folder.file("report.html");
  std::ofstream{path} << "before";
  {
    report::Output output{path, {folder.file("none")}};
    output.write("half of it");
  }
  CHECK(content_of(path) == "before");
  CHECK(folder.files() == 1);
  {
    report::Output output{path, {folder.file("none")}};
    output.write("all of it");
    output.finish();
  }
  CHECK(content_of(path) == "all of it");
  CHECK(folder.files() == 1);
}

TEST_CASE("A recording is never overwritten by its report, under whatever name") {
  const Folder folder;
  const std::string input = folder.file("run.cubfc");
  std::ofstream{input} << "recording";
  fs::create_symlink(input, folder.file("link"));
  fs::create_hard_link(input, folder.file("other"));
  for (const std::string& name : {input, folder.file("link"), folder.file("other")}) {
    CHECK_THROWS_AS((report::Output{name, {folder.file("none"), input}}), report::CannotWrite);
  }
  CHECK(content_of(input) == "recording");
}

TEST_CASE("A link stays a link: what it points to is written") {
  const Folder folder;
  std::ofstream{folder.file("real")} << "before";
  fs::create_symlink(folder.file("real"), folder.file("link"));
  report::Output output{folder.file("link"), {folder.file("none")}};
  output.write("after");
  output.finish();
  CHECK(fs::is_symlink(folder.file("link")));
  CHECK(content_of(folder.file("real")) == "after");
}

TEST_CASE("Amounts, times and names are written as cubfc's own lines write them") {
  CHECK(report::bytes_text(0) == "0 B");
  CHECK(report::bytes_text(1536) == "1.50 KiB");
  CHECK(report::bytes_text(std::uint64_t{200} << 20) == "200.0 MiB");
  CHECK(report::count_text(1204311) == "1,204,311");
  CHECK(report::time_text(999) == "999 ns");
  CHECK(report::time_text(12'345'678'900) == "12.35 s");
  CHECK(report::clock_text(12'345'678'900) == "12.345679 s");
  CHECK(report::printable("a\x1b[31m\xff\xc2\x9b \xe2\x80\xae\xc3\xa4\n") == "a?[31m?? ?\xc3\xa4?");
  CHECK(report::end_of("/opt/torch/lib/libtorch_cuda.so", 16) == "...torch_cuda.so");
}
