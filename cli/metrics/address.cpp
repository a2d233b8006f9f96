#include "cli/metrics/address.h"

#include <charconv>
#include <optional>
#include <system_error>

#include "cli/failure.h"
#include "config/values.h"

namespace cubfc::cli {
namespace {

[[noreturn]] void refuse_address(std::string_view text, const std::string& why) {
  refuse("--listen " + config::quoted(text) + ": " + why +
         "; such as 9834, 0.0.0.0:9834, [::1]:9834 or localhost:9834");
}

std::optional<std::uint16_t> port_of(std::string_view text) {
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, port);
  return !text.empty() && error == std::errc() && rest == end ? std::optional(port) : std::nullopt;
}

bool may_be_name(std::string_view host) {
  return host.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") ==
         std::string_view::npos;
}

// May have a zone: "fe80::1%eth0".
bool may_be_ipv6(std::string_view host) {
  return host.find(':') != std::string_view::npos &&
         host.substr(0, host.find('%')).find_first_not_of("0123456789abcdefABCDEF:.") ==
             std::string_view::npos;
}

}  // namespace

Address address_of(std::string_view text) {
  constexpr std::string_view kThisMachine = "127.0.0.1";
  if (const auto port = port_of(text)) {
    return {std::string(kThisMachine), *port};
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || text.ends_with(']')) {
    refuse_address(text, "there is no port");
  }
  const auto port = port_of(text.substr(colon + 1));
  if (!port) {
    refuse_address(text, "a port is a number from 0 to 65535");
  }
  std::string_view host = text.substr(0, colon);
  if (host.empty()) {
    return {std::string(kThisMachine), *port};
  }
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
    if (!may_be_ipv6(host)) {
      refuse_address(text, "an IPv6 address stands between the brackets");
    }
  } else if (may_be_ipv6(host)) {
    refuse_address(text, "an IPv6 address stands between brackets");
  } else if (!may_be_name(host)) {
    refuse_address(text, "this is neither an address nor a name");
  }
  return {std::string(host), *port};
}

std::string text_of(const Address& address) {
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  return (is_ipv6 ? '[' + address.host + ']' : address.host) + ':' + std::to_string(address.port);
}

}  // namespace cubfc::cli
