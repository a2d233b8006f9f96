// Where `cubfc metrics --listen` is asked to listen. Opens nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cubfc::cli {

struct Address {
  std::string host;  // a number or a name; an IPv6 number without brackets
  std::uint16_t port;
};

// "HOST:PORT", "[IPV6]:PORT", or a port alone, with or without its colon: then this machine alone
// is to get an answer. Throws Failure, with kUsage, for anything else.
Address address_of(std::string_view text);

// "127.0.0.1:9834", "[::1]:9834".
std::string text_of(const Address& address);

}  // namespace cubfc::cli
