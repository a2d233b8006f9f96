// A claim on a group's budget that nobody else is at, for instructions.py to count: claims a byte
// so many times, with or without giving it back. Prints the claims of a pass.
//
//     group_claims <take | take_and_give | nothing> <passes>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>

#include "shim/meet/group.h"

namespace {

constexpr int kClaims = 10000;  // of a pass

class Nothing final : public cubfc::arena::SharedAccount {
 public:
  bool take(std::uint64_t /*bytes*/) noexcept override { return true; }
  void force(std::uint64_t /*bytes*/) noexcept override {}
  void give(std::uint64_t /*bytes*/) noexcept override {}
  std::uint64_t used() const noexcept override { return 0; }
  std::uint64_t limit() const noexcept override { return 0; }
};

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc == 3 ? argv[1] : "";
  if (what != "take" && what != "take_and_give" && what != "nothing") {
    std::fprintf(stderr, "usage: group_claims <take | take_and_give | nothing> <passes>\n");
    return 2;
  }
  std::string why_not;
  const std::unique_ptr<cubfc::arena::SharedAccount> account =
      what == "nothing" ? std::make_unique<Nothing>()
                        : std::unique_ptr<cubfc::arena::SharedAccount>(
                              cubfc::Group::join("claims", {'d'}, std::uint64_t{1} << 40, why_not));
  if (account == nullptr) {
    std::fprintf(stderr, "group_claims: %s\n", why_not.c_str());
    return 1;
  }
  const int claims = std::atoi(argv[2]) * kClaims;
  const bool gives = what == "take_and_give";
  for (int i = 0; i < claims; ++i) {
    if (!account->take(1)) {
      std::fprintf(stderr, "group_claims: a claim has failed\n");
      return 1;
    }
    if (gives) {
      account->give(1);
    }
  }
  std::printf("%d\n", kClaims);
  return 0;
}
