// The names of users, as this system knows them.
#pragma once

#include <sys/types.h>

#include <string>

namespace cubfc::live {

// The name of the user of this number. Empty where the system's list of users has none, as for
// users of containers, or does not answer. A name may have any bytes.
std::string listed_name(uid_t user);

// The same, but the number as text where there is no name. Looks each up once. For one thread.
const std::string& user_name(uid_t user);

}  // namespace cubfc::live
