// Results as text for a reader and as JSON for a program.
#pragma once

#include <string>

#include "arguments.h"
#include "results.h"

namespace cubfc::bench {

void print_tables(const Results& results);

// False when the file cannot be written.
bool write_json(const Results& results, const Arguments& arguments, const std::string& file);

}  // namespace cubfc::bench
