// Where `cubfc metrics --listen` is asked to listen. Opens nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cubfc::cli {

struct Address {
  std::string host;  // an address or a name; an IPv6 address without brackets
  std::uint16_t port;
};

// Reads "HOST:PORT" or "[IPV6]:PORT". A port alone, with or without a colon before it, means that
// port of 127.0.0.1. Throws Failure, with kUsage, for anything else.
Address address_of(std::string_view text);

// "127.0.0.1:9834", "[::1]:9834".
std::string text_of(const Address& address);

}  // namespace cubfc::cli
