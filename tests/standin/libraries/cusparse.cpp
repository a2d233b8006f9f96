// cuSPARSE: handles and descriptors; what computes says its name and fails with
// CUSPARSE_STATUS_NOT_SUPPORTED.
#include "library.h"

namespace {

constexpr const char* kLibrary = "cuSPARSE";
constexpr int kNotSupported = 10;

}  // namespace

#include "functions/cusparse.inc"
