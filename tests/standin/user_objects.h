// User objects: counted references to what belongs to the program, released by a callback. Needs no
// lock of its caller's and takes none but its own.
#pragma once

#include <cuda.h>

#include <map>

namespace standin {

// The references that a graph or an executable graph owns. A copy owns as many again.
class UserReferences {
 public:
  UserReferences() = default;
  UserReferences(const UserReferences& other);
  UserReferences& operator=(UserReferences other) noexcept;
  ~UserReferences();

  // With `moved`, they are taken from those that the program owns.
  CUresult Retain(CUuserObject object, unsigned count, bool moved);
  CUresult Release(CUuserObject object, unsigned count);
  void Retain(const UserReferences& others);

 private:
  std::map<CUuserObject, unsigned long long> counts_;
};

}  // namespace standin
