// The report for scripts, and the figures in the page.
#include <array>
#include <nlohmann/json.hpp>

#include "cli/json_text.h"
#include "cli/report/forms.h"
#include "cli/report/wording.h"

namespace cubfc::report {
namespace {

using Json = nlohmann::ordered_json;

Json time_of(const Told& told, std::uint32_t event) {
  return event == kNever || !told.recording.has_times ? Json{} : Json(told.history.times_ns[event]);
}

Json duration_of(const Told& told, std::uint64_t nanoseconds) {
  return told.recording.has_times ? Json(nanoseconds) : Json{};
}

Json event_or_null(std::uint32_t event) {
  return event == kNever ? Json{} : Json(event);
}

Json segments_json(const recordings::Recording& recording) {
  return recording.segments ? Json{{"blocks", recording.segments->blocks},
                                   {"peak_bytes", recording.segments->peak_bytes}}
                            : Json{};
}

Json recording_json(const Told& told) {
  const recordings::Recording& recording = told.recording;
  return {{"path", recording.path},
          {"format", recording.format},
          {"start_unix_ns", recording.start_unix_ns},
          {"pid", recording.pid},
          {"command_line", recording.command_line},
          {"settings", recording.settings},
          {"events", recording.events.size() - recording.before},
          {"has_before", recording.before > 0},
          {"has_times", recording.has_times},
          {"duration_ns",
           duration_of(told, told.history.times_ns.empty() ? 0 : told.history.times_ns.back())},
          {"longest_pause_ns", duration_of(told, told.history.longest_pause_ns)},
          {"reached_limit", recording.reached_limit},
          {"closed", recording.closed},
          {"cut", recording.is_cut},
          {"state", recording.is_state},
          {"threads_are", recording.threads_are},
          {"callers_are", recording.callers_are},
          {"arena_is", recording.arena_is},
          {"tensors_for_segments", segments_json(recording)}};
}

Json totals_json(const Told& told) {
  const History& history = told.history;
  const Figures& figures = told.figures;
  return {{"before_blocks", history.blocks_before},
          {"before_bytes", history.bytes_before},
          {"allocations", history.allocations},
          {"allocated_bytes", figures.whole.bytes_allocated},
          {"frees", history.frees},
          {"failures", history.failures.size()},
          {"grows", history.grows},
          {"shrinks", history.shrinks},
          {"epochs", history.epochs},
          {"waits", history.waits},
          {"waited_ns", history.waited_ns},
          {"sleeps", history.asleep.times},
          {"asleep_ns", history.asleep.ns},
          {"most_asleep_bytes", history.asleep.most_bytes},
          {"left_at_end_bytes", figures.whole.in_use_at_end},
          {"left_at_end_blocks", history.left_at_end}};
}

Json course_json(const Told& told, const Course& course, Json names) {
  names.update({{"allocations", course.allocations},
                {"allocated_bytes", course.bytes_allocated},
                {"failures", course.failures},
                {"peak_in_use_bytes", course.in_use.bytes},
                {"peak_event", event_or_null(course.in_use.event)},
                {"peak_time_ns", time_of(told, course.in_use.event)},
                {"peak_taken_bytes", course.taken.bytes},
                {"in_use_at_end_bytes", course.in_use_at_end},
                {"taken_at_end_bytes", course.taken_at_end}});
  return names;
}

Json device_names(const Told& told, std::size_t index) {
  const std::uint32_t number = told.figures.device_numbers[index];
  Json names{{"number", number}, {"label", device_label(told.recording, number)}};
  if (told.figures.device_names[index] != kNone) {
    const recordings::Device& device = told.recording.devices[told.figures.device_names[index]];
    std::string uuid;
    for (const unsigned char byte : device.uuid) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      uuid += {kDigits[byte >> 4U], kDigits[byte & 15U]};
    }
    names["name"] = device.name;
    names["uuid"] = uuid;
    names["total_bytes"] = device.total_bytes;
    names["limit_bytes"] = device.limit_bytes == ~0ULL ? Json{} : Json(device.limit_bytes);
  }
  return names;
}

Json place_names(const Told& told, std::uint32_t index) {
  const recordings::Place& place = told.recording.places[index];
  return {{"place", index},
          {"name", place_name(told.recording, index)},
          {"device", place.device},
          {"memory", memory_key(place.memory)},
          {"context_id", place.context_id}};
}

void add_courses(const Told& told, Json& json) {
  const Figures& figures = told.figures;
  for (std::size_t n = 0; n < figures.devices.size(); ++n) {
    json["devices"].push_back(course_json(told, figures.devices[n], device_names(told, n)));
  }
  for (std::size_t n = 0; n < figures.memories.size(); ++n) {
    if (figures.memories.at(n).allocations > 0 || figures.memories.at(n).taken.bytes > 0) {
      json["memories"].push_back(course_json(told, figures.memories.at(n),
                                             {{"memory", memory_key(static_cast<Memory>(n))}}));
    }
  }
  for (std::uint32_t n = 0; n < figures.places.size(); ++n) {
    json["places"].push_back(course_json(told, figures.places[n], place_names(told, n)));
  }
  for (std::size_t n = 0; n < figures.callers.size(); ++n) {
    const std::string& name = told.recording.callers[n];
    json["callers"].push_back(course_json(told, figures.callers[n], {{"caller", name}}));
  }
}

Json share_json(const Share& share, Json names) {
  names.update({{"bytes", share.bytes}, {"blocks", share.blocks}});
  return names;
}

Json block_json(const Told& told, std::uint32_t index) {
  const Block& block = told.history.blocks[index];
  return {{"block", index},
          {"address", block.address},
          {"bytes", block.bytes},
          {"padding", block.padding},
          {"place", block.place},
          {"caller", told.recording.callers[block.caller]},
          {"thread", thread_name(told.recording, block.thread)},
          {"stack", block.stack == kNone ? Json{} : Json(block.stack)},
          {"allocated_event", block.begin},
          {"allocated_time_ns", time_of(told, block.begin)},
          {"freed_event", event_or_null(block.freed)},
          {"freed_time_ns", time_of(told, block.freed)},
          {"free_event", event_or_null(block.end)}};
}

void add_gaps(const Gaps& gaps, Json& json) {
  json["free_bytes"] = gaps.free_bytes;
  json["free_pieces"] = gaps.pieces;
  json["largest_free_bytes"] = gaps.largest_bytes;
}

Json moment_json(const Told& told, std::uint32_t event, const Moment& moment) {
  Json json{{"event", event_or_null(event)},           {"time_ns", time_of(told, event)},
            {"in_use_bytes", moment.in_use.bytes},     {"in_use_blocks", moment.in_use.blocks},
            {"asked_bytes", moment.asked_bytes},       {"waiting_bytes", moment.waiting.bytes},
            {"waiting_blocks", moment.waiting.blocks}, {"taken_bytes", moment.taken_bytes},
            {"taken_pieces", moment.taken_pieces}};
  add_gaps(moment.gaps, json);
  Json& memories = json["by_memory"] = Json::array();
  for (std::size_t n = 0; n < moment.by_memory.size(); ++n) {
    if (moment.by_memory.at(n).blocks > 0) {
      memories.push_back(
          share_json(moment.by_memory.at(n), {{"memory", memory_key(static_cast<Memory>(n))}}));
    }
  }
  Json& places = json["by_place"] = Json::array();
  for (std::uint32_t n = 0; n < moment.by_place.size(); ++n) {
    if (moment.by_place[n].blocks > 0) {
      places.push_back(share_json(moment.by_place[n], {{"place", n}}));
    }
  }
  Json& callers = json["by_caller"] = Json::array();
  for (std::size_t n = 0; n < moment.by_caller.size(); ++n) {
    if (moment.by_caller[n].blocks > 0) {
      callers.push_back(share_json(moment.by_caller[n], {{"caller", told.recording.callers[n]}}));
    }
  }
  Json& biggest = json["biggest_blocks"] = Json::array();
  for (const std::uint32_t block : moment.biggest) {
    biggest.push_back(block_json(told, block));
  }
  return json;
}

void add_sizes_and_lifetimes(const Told& told, Json& json) {
  const Figures& figures = told.figures;
  for (std::size_t n = 0; n < figures.sizes.size(); ++n) {
    const SizeClass& size = figures.sizes[n];
    if (size.all.blocks + size.at_peak.blocks + size.at_end.blocks == 0) {
      continue;
    }
    json["sizes"].push_back({{"from_bytes", n == 0 ? 0 : std::uint64_t{1} << n},
                             {"blocks", size.all.blocks},
                             {"bytes", size.all.bytes},
                             {"at_peak_blocks", size.at_peak.blocks},
                             {"at_peak_bytes", size.at_peak.bytes},
                             {"at_end_blocks", size.at_end.blocks},
                             {"at_end_bytes", size.at_end.bytes},
                             {"freed", size.freed},
                             {"median_lifetime_ns", duration_of(told, size.median_lifetime_ns)},
                             {"longest_lifetime_ns", duration_of(told, size.longest_lifetime_ns)}});
  }
  std::uint64_t from = 0;
  for (const Share& share : figures.lifetimes.classes) {
    if (share.blocks > 0) {
      json["lifetimes"].push_back(share_json(share, {{"from_ns", from}}));
    }
    from = from == 0 ? 10 : from * 10;
  }
  if (figures.lifetimes.never_freed.blocks > 0) {
    json["lifetimes"].push_back(share_json(figures.lifetimes.never_freed, {{"from_ns", nullptr}}));
  }
}

void add_moments(const Told& told, Json& json) {
  for (const Sample& sample : told.figures.samples) {
    Json one{{"event", sample.event},
             {"time_ns", time_of(told, sample.event)},
             {"in_use_bytes", sample.in_use_bytes},
             {"taken_bytes", sample.taken_bytes}};
    add_gaps(sample.gaps, one);
    json["samples"].push_back(std::move(one));
  }
  for (const Failure& failure : told.figures.failures) {
    const recordings::Event& event = told.recording.event(failure.event);
    Json one{{"event", failure.event},
             {"time_ns", time_of(told, failure.event)},
             {"asked_bytes", failure.asked_bytes},
             {"place", place_name(told.recording, event.place)},
             {"device", event.place < told.recording.places.size()
                            ? Json(told.recording.places[event.place].device)
                            : Json{}},
             {"caller", caller_name(told.recording, event.caller)},
             {"thread", thread_name(told.recording, event.thread)},
             {"in_use_bytes", failure.in_use_bytes},
             {"taken_bytes", failure.taken_bytes}};
    if (failure.gaps) {
      add_gaps(*failure.gaps, one);
    }
    one["text"] = event.text < told.recording.texts.size() ? told.recording.texts[event.text] : "";
    json["out_of_memory"].push_back(std::move(one));
  }
}

Json share_of(const Share& share) {
  return {{"bytes", share.bytes}, {"blocks", share.blocks}};
}

Json held_json(const HeldByCode& held) {
  return {{"at_peak", share_of(held.at_peak)},
          {"at_end", share_of(held.at_end)},
          {"in_all", share_of(held.all)}};
}

// Adds the lines of the program's code (docs/recording.md).
void add_lines(const Told& told, Json& json) {
  const auto frame_or_null = [](std::uint32_t frame) {
    return frame == kNone ? Json{} : Json(frame);
  };
  for (const std::uint32_t line : told.lines.by_peak) {
    Json one{{"line", told.lines.texts[line]},
             {"frame", frame_or_null(told.lines.own[line].frame)},
             {"from_frame", frame_or_null(told.lines.own[line].from)}};
    one.update(held_json(told.lines.held[line]));
    json["lines"].push_back(std::move(one));
  }
}

void add_stacks(const Told& told, Json& json) {
  for (const recordings::Frame& frame : told.recording.frames) {
    json["frames"].push_back({{"kind", frame_kind_key(frame.kind)},
                              {"function", frame.function},
                              {"file", frame.file},
                              {"line", frame.line},
                              {"object", frame.object},
                              {"offset", frame.offset}});
  }
  for (std::size_t n = 0; n < told.recording.stacks.size(); ++n) {
    Json one{{"frames", told.recording.stacks[n]}};
    one.update(held_json(told.lines.held_by_stack[n]));
    json["stacks"].push_back(std::move(one));
  }
}

Json faults_json(const Faults& faults) {
  return {{"frees_of_nothing", faults.frees_of_nothing},
          {"reclaims_of_nothing", faults.reclaims_of_nothing},
          {"two_at_one_address", faults.two_at_one_address},
          {"overlapping", faults.overlapping},
          {"outside_taken", faults.outside_taken},
          {"other_sizes", faults.other_sizes},
          {"shrinks_of_nothing", faults.shrinks_of_nothing},
          {"grown_twice", faults.grown_twice},
          {"impossible_numbers", faults.impossible_numbers},
          {"times_going_back", faults.times_going_back}};
}

}  // namespace

Json json_of(const Told& told) {
  Json json{{"cubfc_report", 1},
            {"recording", recording_json(told)},
            {"totals", totals_json(told)},
            {"peak", moment_json(told, told.figures.whole.in_use.event, told.figures.at_peak)},
            {"peak_taken_bytes", told.figures.whole.taken.bytes},
            {"end", moment_json(told, told.history.last_event(), told.figures.at_end)},
            {"faults", faults_json(told.history.faults)}};
  constexpr std::array kLists{"devices", "memories",  "places",  "callers",      "lines",
                              "sizes",   "lifetimes", "samples", "out_of_memory"};
  for (const char* list : kLists) {
    json[list] = Json::array();
  }
  add_courses(told, json);
  add_sizes_and_lifetimes(told, json);
  add_moments(told, json);
  add_lines(told, json);
  return json;
}

void write_json(const Told& told, Output& output) {
  nlohmann::ordered_json json = json_of(told);
  json["frames"] = Json::array();
  json["stacks"] = Json::array();
  add_stacks(told, json);
  output.write(cli::json_text(json, 1));
  output.write("\n");
}

}  // namespace cubfc::report
