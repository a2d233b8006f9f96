// Writes the page: its sources (page_parts.h), and in them the recording, packed. The title and
// what a browser without scripts shows are escaped HTML. All other text of the recording is inside
// the packed data, and reaches the page as text only (words.js).
#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "cli/json_text.h"
#include "cli/recordings/own_code.h"
#include "cli/report/forms.h"
#include "cli/report/packed.h"
#include "cli/report/page_parts.h"
#include "cli/report/wording.h"

namespace cubfc::report {
namespace {

using Json = nlohmann::ordered_json;

std::string escaped(std::string_view text) {
  const std::map<char, const char*> entities{
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string safe;
  for (const char byte : text) {
    const auto entity = entities.find(byte);
    if (entity == entities.end()) {
      safe += byte;
    } else {
      safe += entity->second;
    }
  }
  return safe;
}

// The columns of numbers, and a list of their names and sizes, by which the page finds them.
class Columns {
 public:
  // Both add a column of number(n) for each n below `count`.
  template <typename Number>
  void varints(const char* name, std::size_t count, Number number) {
    std::string column;
    for (std::size_t n = 0; n < count; ++n) {
      add_varint(column, number(n));
    }
    add(name, "varint", count, std::move(column));
  }
  template <typename Number>
  void words(const char* name, std::size_t count, Number number) {
    std::string column;
    for (std::size_t n = 0; n < count; ++n) {
      add_u32(column, number(n));
    }
    add(name, "u32", count, std::move(column));
  }

  [[nodiscard]] const Json& list() const { return list_; }
  void write(Packer& packer) const {
    for (const std::string& column : columns_) {
      packer.add(column);
    }
  }

 private:
  // Fills the column up to a multiple of four bytes, so that the next one begins at such a
  // multiple.
  void add(const char* name, const char* kind, std::size_t count, std::string column) {
    column.resize((column.size() + 3) / 4 * 4);
    column.shrink_to_fit();
    list_.push_back({{"name", name}, {"kind", kind}, {"count", count}, {"bytes", column.size()}});
    columns_.push_back(std::move(column));
  }

  Json list_ = Json::array();
  std::vector<std::string> columns_;
};

// 0 if `event` is kNever, else by how much it is later than `before`, plus 1.
std::uint64_t later(std::uint32_t event, std::uint32_t before) {
  return event == kNever ? 0 : std::uint64_t{event} - before + 1;
}

Columns columns_of(const History& history) {
  const std::vector<std::uint64_t>& times = history.times_ns;
  const std::vector<Block>& blocks = history.blocks;
  const std::vector<Region>& regions = history.regions;
  const std::size_t count = blocks.size();
  Columns columns;
  columns.varints("time", times.size(),
                  [&](std::size_t n) { return n == 0 ? times[0] : times[n] - times[n - 1]; });
  columns.varints("begin", count, [&](std::size_t n) {
    return n == 0 ? blocks[0].begin : blocks[n].begin - blocks[n - 1].begin;
  });
  columns.varints("freed", count,
                  [&](std::size_t n) { return later(blocks[n].freed, blocks[n].begin); });
  columns.varints("end", count,
                  [&](std::size_t n) { return later(blocks[n].end, blocks[n].freed); });
  columns.words("addressLow", count,
                [&](std::size_t n) { return static_cast<std::uint32_t>(blocks[n].address); });
  columns.words("addressHigh", count, [&](std::size_t n) {
    return static_cast<std::uint32_t>(blocks[n].address >> 32U);
  });
  columns.varints("bytes", count, [&](std::size_t n) { return blocks[n].bytes; });
  columns.varints("padding", count, [&](std::size_t n) { return blocks[n].padding; });
  columns.varints("place", count, [&](std::size_t n) { return blocks[n].place; });
  columns.varints("thread", count, [&](std::size_t n) { return blocks[n].thread; });
  columns.varints("caller", count, [&](std::size_t n) { return blocks[n].caller; });
  columns.varints("stack", count, [&](std::size_t n) {
    return blocks[n].stack == kNone ? 0 : std::uint64_t{blocks[n].stack} + 1;
  });
  columns.words("regionAddressLow", regions.size(),
                [&](std::size_t n) { return static_cast<std::uint32_t>(regions[n].address); });
  columns.words("regionAddressHigh", regions.size(), [&](std::size_t n) {
    return static_cast<std::uint32_t>(regions[n].address >> 32U);
  });
  columns.varints("regionBytes", regions.size(), [&](std::size_t n) { return regions[n].bytes; });
  columns.varints("regionBegin", regions.size(), [&](std::size_t n) { return regions[n].begin; });
  columns.varints("regionEnd", regions.size(),
                  [&](std::size_t n) { return later(regions[n].end, regions[n].begin); });
  columns.varints("regionPlace", regions.size(), [&](std::size_t n) { return regions[n].place; });
  columns.varints("regionSeenOnly", regions.size(),
                  [&](std::size_t n) { return regions[n].seen_only ? 1U : 0U; });
  columns.varints("regionApart", regions.size(),
                  [&](std::size_t n) { return regions[n].apart ? 1U : 0U; });
  return columns;
}

// Adds each frame once, and stacks as lists of numbers of frames, since many stacks share frames.
void add_stacks(const Told& told, Json& json) {
  Json frames = Json::array();
  Json names = Json::array();
  Json kinds = Json::array();
  for (const recordings::Frame& frame : told.recording.frames) {
    frames.push_back(recordings::frame_text(frame));
    names.push_back(recordings::frame_text(frame, recordings::Path::kName));
    kinds.push_back(frame_kind_key(frame.kind));
  }
  json["frames"] = std::move(frames);
  json["frameNames"] = std::move(names);
  json["frameKinds"] = std::move(kinds);
  json["stacks"] = told.recording.stacks;
  Json& outlines = json["outlines"] = Json::array();  // null: the stack itself
  for (const std::vector<std::uint32_t>& stack : told.recording.stacks) {
    std::vector<std::uint32_t> outline = recordings::outline_of(told.recording, stack);
    outlines.push_back(outline == stack ? Json{} : Json(std::move(outline)));
  }
  json["lines"] = told.lines.texts;
  json["lineOfStack"] = told.lines.of_stack;
  const auto line_or_none = [](std::uint32_t line) {
    return line == kNone ? -1 : static_cast<std::int64_t>(line);
  };
  json["lineWithoutStack"] = line_or_none(told.lines.without_stack);
  json["lineWithoutStackBefore"] = line_or_none(told.lines.without_stack_before);
}

void add_notes(const Told& told, Json& json) {
  Json& notes = json["notes"] = Json::array();
  for (std::size_t n = 0; n < told.recording.events.size(); ++n) {
    const recordings::Event& event = told.recording.events[n];
    if (event.kind == trace::Kind::kNote && event.text < told.recording.texts.size()) {
      notes.push_back(
          {{"event", told.recording.number_of(n)}, {"text", told.recording.texts[event.text]}});
    }
  }
}

std::string header_of(const Told& told, const Columns& columns) {
  Json json{{"report", json_of(told)}, {"columns", columns.list()}};
  Json& threads = json["threads"] = Json::array();
  for (std::size_t n = 0; n < told.recording.threads.size(); ++n) {
    threads.push_back(thread_name(told.recording, static_cast<std::uint16_t>(n)));
  }
  add_stacks(told, json);
  add_notes(told, json);
  std::string text = cli::json_text(json);
  text.resize((text.size() + 3) / 4 * 4, ' ');
  return text;
}

void write_data(const Told& told, Output& output) {
  const Columns columns = columns_of(told.history);
  const std::string header = header_of(told, columns);
  std::string length;
  add_u32(length, static_cast<std::uint32_t>(header.size()));
  Packer packer{[&](std::string_view text) { output.write(text); }};
  packer.add(length);
  packer.add(header);
  columns.write(packer);
  packer.finish();
}

// Writes the part of the page that stands for {{name}} in page.html.
void write_part(std::string_view name, const Told& told, Output& output) {
  if (name == "title") {
    output.write(escaped("GPU memory of " + printable(title_of(told.recording))));
  } else if (name == "css") {
    output.write(kPageCss);
  } else if (name == "js") {
    output.write(kPageJs);
  } else if (name == "text") {
    output.write(escaped(text_of(told, /*bold=*/false)));
  } else if (name == "data") {
    write_data(told, output);
  } else {
    throw std::logic_error("the page has an unknown part");
  }
}

}  // namespace

void write_page(const Told& told, Output& output) {
  constexpr std::string_view kBegin = "{{";
  constexpr std::string_view kEnd = "}}";
  std::string_view rest = kPageHtml;
  for (;;) {
    const std::size_t begin = rest.find(kBegin);
    output.write(rest.substr(0, begin));
    if (begin == std::string_view::npos) {
      return;
    }
    const std::size_t end = rest.find(kEnd, begin);
    write_part(rest.substr(begin + kBegin.size(), end - begin - kBegin.size()), told, output);
    rest.remove_prefix(end + kEnd.size());
  }
}

}  // namespace cubfc::report
