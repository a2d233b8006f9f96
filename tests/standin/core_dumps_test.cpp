// What the software driver promises of the settings of core dumps.
#include <cuda.h>

#include <string>

#include "catch.h"
#include "test_device.h"

#if CUDA_VERSION >= 12010

using standin_test::Device;

namespace {

std::string TextOfProcess(CUcoredumpSettings what) {
  std::string text(1024, 'x');
  std::size_t bytes = text.size();
  REQUIRE(cuCoredumpGetAttributeGlobal(what, text.data(), &bytes) == CUDA_SUCCESS);
  return text.c_str();
}

bool OfContext(CUcoredumpSettings what) {
  bool value = false;
  std::size_t bytes = sizeof value;
  REQUIRE(cuCoredumpGetAttribute(what, &value, &bytes) == CUDA_SUCCESS);
  return value;
}

}  // namespace

TEST_CASE(
    "a setting of core dumps is read again, for the process and for the context that has it") {
  const Device device;
  std::size_t bytes = 0;
  CHECK(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, nullptr, &bytes) == CUDA_SUCCESS);
  CHECK(bytes == 1024);
  CHECK(TextOfProcess(CU_COREDUMP_FILE).starts_with("core.cuda."));
  std::string name = "core of mine";
  bytes = name.size();  // without its NUL
  REQUIRE(cuCoredumpSetAttributeGlobal(CU_COREDUMP_FILE, name.data(), &bytes) == CUDA_SUCCESS);
  CHECK(TextOfProcess(CU_COREDUMP_FILE) == name);

  bool yes = true;
  bytes = sizeof yes;
  CHECK(OfContext(CU_COREDUMP_TRIGGER_HOST));
  CHECK_FALSE(OfContext(CU_COREDUMP_LIGHTWEIGHT));
  REQUIRE(cuCoredumpSetAttribute(CU_COREDUMP_LIGHTWEIGHT, &yes, &bytes) == CUDA_SUCCESS);
  CHECK(OfContext(CU_COREDUMP_LIGHTWEIGHT));
  CUcontext other = nullptr;
  REQUIRE(cuCtxCreate_v2(&other, 0, 0) == CUDA_SUCCESS);
  CHECK_FALSE(OfContext(CU_COREDUMP_LIGHTWEIGHT));
  REQUIRE(cuCtxDestroy_v2(other) == CUDA_SUCCESS);
}

TEST_CASE("what is no setting of core dumps, or too long, or not a context's, is refused") {
  const Device device;
  bool yes = true;
  std::size_t bytes = sizeof yes;
  CHECK(cuCoredumpSetAttributeGlobal(CU_COREDUMP_MAX, &yes, &bytes) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuCoredumpGetAttributeGlobal(CU_COREDUMP_MAX, &yes, &bytes) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuCoredumpSetAttributeGlobal(CU_COREDUMP_FILE, nullptr, &bytes) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuCoredumpSetAttributeGlobal(CU_COREDUMP_FILE, &yes, nullptr) == CUDA_ERROR_INVALID_VALUE);
  std::string name(1024, 'n');
  bytes = name.size();
  CHECK(cuCoredumpSetAttributeGlobal(CU_COREDUMP_FILE, name.data(), &bytes) ==
        CUDA_ERROR_INVALID_VALUE);
  char room[4];
  bytes = sizeof room;
  CHECK(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, room, &bytes) == CUDA_ERROR_INVALID_VALUE);
  bytes = sizeof yes;
  CHECK(cuCoredumpSetAttribute(CU_COREDUMP_ENABLE_USER_TRIGGER, &yes, &bytes) ==
        CUDA_ERROR_NOT_PERMITTED);
  cuCtxSetCurrent(nullptr);
  CHECK(cuCoredumpGetAttribute(CU_COREDUMP_LIGHTWEIGHT, &yes, &bytes) ==
        CUDA_ERROR_INVALID_CONTEXT);
  cuCtxSetCurrent(device.context());
}

#endif
