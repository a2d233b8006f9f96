// The names of users, as this system knows them.
#pragma once

#include <sys/types.h>

#include <string>

namespace cubfc::live {

// Empty where the list of users has none of this number, as of those of containers, or does not
// answer. Any bytes may stand in a name.
std::string listed_name(uid_t user);

// The same, but the number where there is no name. Each is looked up once. For one thread.
const std::string& user_name(uid_t user);

}  // namespace cubfc::live
