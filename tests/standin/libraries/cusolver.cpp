// cuSOLVER: handles and descriptors; what computes says its name and fails with
// CUSOLVER_STATUS_NOT_SUPPORTED.
#include "library.h"

namespace {

constexpr const char* kLibrary = "cuSOLVER";
constexpr int kNotSupported = 9;

}  // namespace

#include "functions/cusolver.inc"
