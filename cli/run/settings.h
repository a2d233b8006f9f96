// The environment as a program under cubfc will see it.
#pragma once

#include <map>
#include <string>

#include "config/policy.h"

namespace cubfc::cli {

// By name.
using Variables = std::map<std::string, std::string>;

// Empty where it is not set.
std::string variable(const char* name);

// What is in force with these variables beside those of this process, before which they count.
config::Policy policy_with(const Variables& settings);

}  // namespace cubfc::cli
