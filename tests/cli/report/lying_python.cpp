// A library that says that it is a Python: of the version in LYING_PYTHON, with the state of a
// thread at the address in LYING_STATE (0: none). call_from_python() calls what it is given.
#include <cstdlib>

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED const char* Py_GetVersion();
EXPORTED const char* Py_GetVersion() {
  const char* const version = std::getenv("LYING_PYTHON");
  return version == nullptr ? "3.12.1 (main)" : version;
}
EXPORTED void* PyGILState_GetThisThreadState();
EXPORTED void* PyGILState_GetThisThreadState() {
  const char* const state = std::getenv("LYING_STATE");
  return state == nullptr ? nullptr : reinterpret_cast<void*>(std::strtoul(state, nullptr, 0));
}
EXPORTED unsigned long _PyRuntime[100];
unsigned long _PyRuntime[100];
EXPORTED unsigned long PyCode_Type[50];
unsigned long PyCode_Type[50];
EXPORTED unsigned long PyUnicode_Type[50];
unsigned long PyUnicode_Type[50];
EXPORTED unsigned long PyBytes_Type[50];
unsigned long PyBytes_Type[50];
EXPORTED int call_from_python(int (*function)(void*), void* argument);
EXPORTED int call_from_python(int (*function)(void*), void* argument) {
  const int result = function(argument);
  asm volatile("" ::: "memory");
  return result;
}
