// For functions that only forward: a table of names is all that is written of them. The parameters
// are those that the header declares; what the runtime and the driver have by different names but
// in the same form (handles, enumerations, addresses) is converted.
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>

#include "runtime.h"

namespace cudart {

template <typename Function>
struct Signature;
template <typename Result, typename... Arguments>
struct Signature<Result(Arguments...)> {
  using Parameters = std::tuple<Arguments...>;
};
template <typename Function, std::size_t kIndex>
using Parameter = std::tuple_element_t<kIndex, typename Signature<Function>::Parameters>;

// Whether both are known to be structures or numbers of different forms; a handle's type is not
// known.
template <typename To, typename From>
constexpr bool DifferentSize() {
  if constexpr (!std::is_pointer_v<To> || !std::is_pointer_v<From>) {
    if constexpr (requires { sizeof(To) + sizeof(From); }) return sizeof(To) != sizeof(From);
  }
  return false;
}

// What the driver calls the same thing.
template <typename To, typename From>
To As(From from) {
  if constexpr (std::is_same_v<To, From>) {
    return from;
  } else if constexpr (std::is_pointer_v<To> || std::is_pointer_v<From>) {
    if constexpr (std::is_pointer_v<To> && std::is_pointer_v<From>) {
      using Target = std::remove_pointer_t<To>;
      using Source = std::remove_pointer_t<From>;
      static_assert(std::is_function_v<Target> || std::is_void_v<Target> ||
                    std::is_void_v<Source> || !DifferentSize<Target, Source>());
    }
    // The runtime has some addresses to const, the driver all of them as numbers; some parameters
    // are const in one of the two only.
    return (To)(from);  // NOLINT(google-readability-casting)
  } else {
    return static_cast<To>(from);
  }
}

template <typename... Wanted, typename... Given>
cudaError_t Ask(CUresult (*function)(Wanted...), Given... given) {
  if (!function) return cudaErrorCallRequiresNewerDriver;
  return ToRuntime(function(As<Wanted>(given)...));
}

template <auto kFunction, typename... Given>
cudaError_t Forward(Given... given) noexcept {
  return WithContext([&](const Driver& driver) { return Ask(driver.*kFunction, given...); });
}

template <auto kFunction, typename... Given>
cudaError_t ForwardWithoutContext(Given... given) noexcept {
  return WithDriver([&](const Driver& driver) { return Ask(driver.*kFunction, given...); });
}

}  // namespace cudart

#define CUDART_PARAMETER(function, index) \
  ::cudart::Parameter<decltype(::function), index> parameter##index
#define CUDART_PARAMETERS_0(function)
#define CUDART_PARAMETERS_1(function) CUDART_PARAMETER(function, 0)
#define CUDART_PARAMETERS_2(function) CUDART_PARAMETERS_1(function), CUDART_PARAMETER(function, 1)
#define CUDART_PARAMETERS_3(function) CUDART_PARAMETERS_2(function), CUDART_PARAMETER(function, 2)
#define CUDART_PARAMETERS_4(function) CUDART_PARAMETERS_3(function), CUDART_PARAMETER(function, 3)
#define CUDART_PARAMETERS_5(function) CUDART_PARAMETERS_4(function), CUDART_PARAMETER(function, 4)
#define CUDART_PARAMETERS_6(function) CUDART_PARAMETERS_5(function), CUDART_PARAMETER(function, 5)
#define CUDART_PARAMETERS_7(function) CUDART_PARAMETERS_6(function), CUDART_PARAMETER(function, 6)
#define CUDART_PARAMETERS_8(function) CUDART_PARAMETERS_7(function), CUDART_PARAMETER(function, 7)
#define CUDART_PARAMETERS_9(function) CUDART_PARAMETERS_8(function), CUDART_PARAMETER(function, 8)
#define CUDART_ARGUMENTS_0
#define CUDART_ARGUMENTS_1 parameter0
#define CUDART_ARGUMENTS_2 CUDART_ARGUMENTS_1, parameter1
#define CUDART_ARGUMENTS_3 CUDART_ARGUMENTS_2, parameter2
#define CUDART_ARGUMENTS_4 CUDART_ARGUMENTS_3, parameter3
#define CUDART_ARGUMENTS_5 CUDART_ARGUMENTS_4, parameter4
#define CUDART_ARGUMENTS_6 CUDART_ARGUMENTS_5, parameter5
#define CUDART_ARGUMENTS_7 CUDART_ARGUMENTS_6, parameter6
#define CUDART_ARGUMENTS_8 CUDART_ARGUMENTS_7, parameter7
#define CUDART_ARGUMENTS_9 CUDART_ARGUMENTS_8, parameter8

// CUDART_FORWARD(2, cudaFoo, cuFoo): cudaFoo, of 2 parameters, is cuFoo with a context current.
#define CUDART_FORWARD(count, runtime_function, driver_function)                            \
  CUDART_API runtime_function(CUDART_PARAMETERS_##count(runtime_function)) {                \
    return ::cudart::Forward<&::cudart::Driver::driver_function>(CUDART_ARGUMENTS_##count); \
  }

// The same for a function that makes no context.
#define CUDART_FORWARD_WITHOUT_CONTEXT(count, runtime_function, driver_function) \
  CUDART_API runtime_function(CUDART_PARAMETERS_##count(runtime_function)) {     \
    return ::cudart::ForwardWithoutContext<&::cudart::Driver::driver_function>(  \
        CUDART_ARGUMENTS_##count);                                               \
  }

// CUDART_PER_THREAD(2, cudaFoo, _ptsz): cudaFoo_ptsz is cudaFoo where stream 0 is the thread's own.
#define CUDART_PER_THREAD(count, function, suffix)                   \
  CUDART_API function##suffix(CUDART_PARAMETERS_##count(function)) { \
    const ::cudart::PerThreadDefaultStream scope;                    \
    return function(CUDART_ARGUMENTS_##count);                       \
  }
