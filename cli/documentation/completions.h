// What a shell completes behind "cubfc".
#pragma once

#include <string>
#include <vector>

#include "cli/documentation/tree.h"

namespace cubfc::cli::documentation {

std::string bash_completion(const std::vector<Command>& commands);
std::string zsh_completion(const std::vector<Command>& commands);
std::string fish_completion(const std::vector<Command>& commands);

}  // namespace cubfc::cli::documentation
