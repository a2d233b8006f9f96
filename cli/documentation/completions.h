// What a shell completes behind "cubfc".
#pragma once

#include <string>

#include "cli/documentation/tree.h"

namespace cubfc::cli::documentation {

std::string bash_completion(const Tree& tree);
std::string zsh_completion(const Tree& tree);
std::string fish_completion(const Tree& tree);

}  // namespace cubfc::cli::documentation
