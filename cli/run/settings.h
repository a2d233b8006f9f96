// Variables of the environment: this process's, and those of a program that it starts.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/policy.h"

namespace cubfc::cli {

// Values by name.
using Variables = std::map<std::string, std::string>;

// Its value in this process's environment; empty where it is not set.
std::string variable(const char* name);

// The folders in which programs are looked for: $PATH, or where that is not set, "/bin:/usr/bin".
std::string search_path();

// The entries of this process's environment, with `changes` in place of its own. A variable that is
// empty in `changes` is left out.
std::vector<std::string> environment_with(const Variables& changes);

// Pointers to the strings, for execve(), with a nullptr at the end. `strings` must outlive them.
std::vector<char*> pointers_to(const std::vector<std::string>& strings);

// The policy of a program with this process's environment, with `settings` in place of its own, and
// with the policy file of this machine.
config::Policy policy_with(const Variables& settings);

}  // namespace cubfc::cli
