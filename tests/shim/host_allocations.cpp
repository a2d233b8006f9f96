#include "shim/host_allocations.h"

#include <cstddef>
#include <cstdlib>
#include <new>

// The linker's names for where the program's code is.
extern "C" const char __executable_start;  // NOLINT(readability-identifier-naming)
extern "C" const char etext;               // NOLINT(readability-identifier-naming)

namespace cubfc::test {

thread_local bool (*may_allocate)() = nullptr;

namespace {

bool is_ours(const void* caller) {
  return caller >= &__executable_start && caller < &etext;
}

void* take(std::size_t bytes, const void* caller) {
  const bool refused = may_allocate != nullptr && is_ours(caller) && !may_allocate();
  if (void* const got = refused ? nullptr : std::malloc(bytes == 0 ? 1 : bytes)) {
    return got;
  }
  throw std::bad_alloc();
}

}  // namespace
}  // namespace cubfc::test

void* operator new(std::size_t bytes) {
  return cubfc::test::take(bytes, __builtin_return_address(0));
}
void* operator new[](std::size_t bytes) {
  return cubfc::test::take(bytes, __builtin_return_address(0));
}
void* operator new(std::size_t bytes, const std::nothrow_t& /*no_throw*/) noexcept {
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t& /*no_throw*/) noexcept {
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* block) noexcept {
  std::free(block);
}
void operator delete[](void* block) noexcept {
  std::free(block);
}
void operator delete(void* block, std::size_t /*bytes*/) noexcept {
  std::free(block);
}
void operator delete[](void* block, std::size_t /*bytes*/) noexcept {
  std::free(block);
}
