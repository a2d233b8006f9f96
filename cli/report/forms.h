// The forms in which a report is written. Each takes its numbers from Told.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/recordings/recording.h"
#include "cli/report/figures.h"
#include "cli/report/history.h"
#include "cli/report/lines.h"
#include "cli/report/output.h"

namespace cubfc::report {

// All that a form may tell.
struct Told {
  const recordings::Recording& recording;
  const History& history;
  const Figures& figures;
  const CodeLines& lines;
};

// The report for a terminal of 80 columns. `bold`: with headings in bold.
std::string text_of(const Told& told, bool bold);

// The report for scripts. The names in it must not change; docs/recording.md describes them.
nlohmann::ordered_json json_of(const Told& told);
void write_json(const Told& told, Output& output);

// A log as RMM's logging adaptor writes it. Leaves out blocks that have handles instead of
// addresses, as RMM has none; returns how many.
std::uint64_t write_rmm(const Told& told, Output& output);

// A trace for ui.perfetto.dev: what was in use and taken as counters, out-of-memory moments as
// instants.
void write_perfetto(const Told& told, Output& output);

// One page, with all of the recording in it.
void write_page(const Told& told, Output& output);

}  // namespace cubfc::report
