// What device_bench found, as tables for a reader and as JSON for a program. Keys have their unit
// in their name; what could not be measured is null, and the reason stands beside it.
#pragma once

#include <vector>

#include "device.h"
#include "json_file.h"
#include "sections.h"

namespace cubfc::bench {

void print(const Device& device);
void print(const std::vector<PairPoint>& points);
void print(const std::vector<LoopPoint>& points);
void print(const std::vector<TraceResult>& traces);
void print(const Growth& growth);
void print(const Idle& idle);

Json json_of(const Device& device);
Json json_of(const std::vector<PairPoint>& points);
Json json_of(const std::vector<LoopPoint>& points);
Json json_of(const std::vector<TraceResult>& traces);
Json json_of(const Growth& growth);
Json json_of(const Idle& idle);

// The variables that set the mode, and whether the library is there: the dynamic linker only warns
// when it cannot preload.
Json json_of_environment();
bool is_cubfc_loaded();

}  // namespace cubfc::bench
