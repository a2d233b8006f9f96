// Handles that other processes open.
#include <array>
#include <cstring>
#include <vector>

#include "cases.h"
#include "forked.h"
#include "json.h"

namespace probe {
namespace {

// Another process that holds a block and gave its handle. Must be made before this process touches
// CUDA: a child of a process that has used it cannot.
class Exporter {
 public:
  explicit Exporter(const Driver& driver) {
    std::array<int, 2> to_us{};
    std::array<int, 2> to_them{};
    if (pipe(to_us.data()) != 0 || pipe(to_them.data()) != 0) {
      return;
    }
    child_ = fork();
    if (child_ == 0) {
      close(to_them[1]);
      give_handle(driver, to_us[1]);
      char end = 0;
      (void)!read(to_them[0], &end, 1);  // until the importer is done, or gone
      _exit(0);
    }
    close(to_us[1]);
    close(to_them[0]);
    release_ = to_them[1];
    given_ = read(to_us[0], &handle_, sizeof(handle_)) == sizeof(handle_);
    close(to_us[0]);
  }
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  ~Exporter() {
    if (child_ > 0) {
      close(release_);
      waitpid(child_, nullptr, 0);
    }
  }

  [[nodiscard]] bool given() const { return given_; }
  [[nodiscard]] const CUipcMemHandle& handle() const { return handle_; }

 private:
  static void give_handle(const Driver& driver, int to) {
    Session session(driver, false);
    CUipcMemHandle handle{};
    if (session.start() == CUDA_SUCCESS &&
        driver.cuIpcGetMemHandle(&handle, session.block()) == CUDA_SUCCESS) {
      (void)!write(to, &handle, sizeof(handle));
    }
    close(to);
  }

  pid_t child_ = -1;
  int release_ = -1;
  bool given_ = false;
  CUipcMemHandle handle_{};
};

template <class Use>
Answer with_imported_handle(Session& s, const Use& use) {
  const Exporter exporter(s.cu);
  if (!exporter.given()) {
    return unanswered("another process could not export a block");
  }
  if (const CUresult error = s.start()) {
    return unanswered("no context: " + name_of(s.cu, error));
  }
  return use(exporter.handle());
}

Answer free_mapping(Session& s) {
  return with_imported_handle(s, [&](const CUipcMemHandle& handle) {
    CUdeviceptr mapped = 0;
    const CUresult opened =
        s.cu.cuIpcOpenMemHandle(&mapped, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (opened != CUDA_SUCCESS) {
      return unanswered("cuIpcOpenMemHandle: " + name_of(s.cu, opened));
    }
    return answer(s.cu.cuMemFree(mapped));
  });
}

Answer open_with_bad_flags(Session& s) {
  return with_imported_handle(s, [&](const CUipcMemHandle& handle) {
    CUdeviceptr mapped = 0;
    return answer(s.cu.cuIpcOpenMemHandle(&mapped, handle, 77));
  });
}

Answer open_in_second_context(Session& s) {
  return with_imported_handle(s, [&](const CUipcMemHandle& handle) {
    CUdeviceptr mapped = 0;
    CUdeviceptr again = 0;
    CUcontext const second = s.second_context();
    if (second == nullptr) {
      return unanswered("there is no second context on the device");
    }
    const CUresult opened =
        s.cu.cuIpcOpenMemHandle(&mapped, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (opened != CUDA_SUCCESS) {
      return unanswered("cuIpcOpenMemHandle: " + name_of(s.cu, opened));
    }
    s.cu.cuCtxSetCurrent(second);
    return answer(s.cu.cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  });
}

Answer open_again(Session& s) {
  return with_imported_handle(s, [&](const CUipcMemHandle& handle) {
    CUdeviceptr mapped = 0;
    CUdeviceptr again = 0;
    const CUresult opened =
        s.cu.cuIpcOpenMemHandle(&mapped, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    return opened != CUDA_SUCCESS ? unanswered("cuIpcOpenMemHandle: " + name_of(s.cu, opened))
                                  : answer(s.cu.cuIpcOpenMemHandle(
                                        &again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  });
}

// The same handle opened twice by one process: whether the second is refused, or gives the same
// address and is counted.
Answer opened_twice(Session& s) {
  return with_imported_handle(s, [&](const CUipcMemHandle& handle) {
    CUdeviceptr first = 0;
    CUdeviceptr second = 0;
    char byte = 0;
    JsonObject found;
    const auto open = [&](CUdeviceptr& mapped) {
      return s.cu.cuIpcOpenMemHandle(&mapped, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    };
    found.add("first", open(first));
    found.add("second", open(second));
    found.add("same_address", std::int64_t{first == second ? 1 : 0});
    found.add("close", s.cu.cuIpcCloseMemHandle(first));
    found.add("read_then", s.cu.cuMemcpyDtoH(&byte, first, 1));
    found.add("close_again", s.cu.cuIpcCloseMemHandle(first));
    found.add("read_at_last", s.cu.cuMemcpyDtoH(&byte, first, 1));
    found.add("close_once_more", s.cu.cuIpcCloseMemHandle(first));
    found.add("opened_anew", open(first));
    return answer_json(found.text());
  });
}

CUresult export_handle(Session& s, CUdeviceptr address) {
  CUipcMemHandle handle{};
  return s.cu.cuIpcGetMemHandle(&handle, address);
}

Answer export_of_managed(Session& s) {
  CUdeviceptr block = 0;
  if (const CUresult error = s.cu.cuMemAllocManaged(&block, 100000, CU_MEM_ATTACH_GLOBAL)) {
    return unanswered("cuMemAllocManaged: " + name_of(s.cu, error));
  }
  const CUresult result = export_handle(s, block);
  s.cu.cuMemFree(block);
  return answer(result);
}

Answer export_of_pool(Session& s) {
  HeldStream stream(s.cu);
  CUdeviceptr block = 0;
  if (const CUresult error = s.cu.cuMemAllocAsync(&block, 100000, stream.get())) {
    return unanswered("cuMemAllocAsync: " + name_of(s.cu, error));
  }
  s.cu.cuStreamSynchronize(stream.get());
  const CUresult result = export_handle(s, block);
  s.cu.cuMemFreeAsync(block, stream.get());
  return answer(result);
}

Answer open_garbage(Session& s) {
  CUipcMemHandle handle{};
  std::memset(&handle, 0x5a, sizeof(handle));
  CUdeviceptr mapped = 0;
  return answer(s.cu.cuIpcOpenMemHandle(&mapped, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

Answer open_own(Session& s) {
  const CUdeviceptr block = s.block();
  CUipcMemHandle handle{};
  CUdeviceptr mapped = 0;
  Answer found = unanswered("no handle");
  if (s.cu.cuIpcGetMemHandle(&handle, block) == CUDA_SUCCESS) {
    found = answer(s.cu.cuIpcOpenMemHandle(&mapped, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  }
  s.cu.cuMemFree(block);
  return found;
}

}  // namespace

void add_sharing_cases(Cases& cases) {
  cases.push_back({"cuMemFree.ipc_mapping", free_mapping, Begins::kNothingDone});
  cases.push_back(
      {"cuIpcOpenMemHandle_twice", opened_twice, Begins::kNothingDone, Kind::kMeasurement});
  cases.push_back({"cuIpcOpenMemHandle.already_open", open_again, Begins::kNothingDone});
  cases.push_back({"cuIpcOpenMemHandle.bad_flags", open_with_bad_flags, Begins::kNothingDone});
  cases.push_back(
      {"cuIpcOpenMemHandle.second_context", open_in_second_context, Begins::kNothingDone});
  const auto of_block = [&](const char* id, std::size_t offset, bool freed) {
    cases.push_back({id, [offset, freed](Session& s) {
                       const CUdeviceptr block = s.block();
                       if (freed) {
                         s.cu.cuMemFree(block);
                       }
                       const CUresult result = export_handle(s, block + offset);
                       if (!freed) {
                         s.cu.cuMemFree(block);
                       }
                       return answer(result);
                     }});
  };
  of_block("cuIpcGetMemHandle.live", 0, false);
  of_block("cuIpcGetMemHandle.interior", 512, false);
  of_block("cuIpcGetMemHandle.freed", 0, true);
  cases.push_back({"cuIpcGetMemHandle.host_pointer", [](Session& s) {
                     std::vector<char> host(100000);
                     return answer(export_handle(s, address_of(host.data())));
                   }});
  cases.push_back({"cuIpcGetMemHandle.managed", export_of_managed});
  cases.push_back({"cuIpcGetMemHandle.async_pointer", export_of_pool});
  cases.push_back({"cuIpcGetMemHandle.null_output", [](Session& s) {
                     const CUdeviceptr block = s.block();
                     const CUresult result = s.cu.cuIpcGetMemHandle(nullptr, block);
                     s.cu.cuMemFree(block);
                     return answer(result);
                   }});
  cases.push_back({"cuIpcOpenMemHandle.same_process", open_own});
  cases.push_back({"cuIpcOpenMemHandle.garbage", open_garbage});
  cases.push_back({"cuIpcCloseMemHandle.garbage",
                   [](Session& s) { return answer(s.cu.cuIpcCloseMemHandle(kGarbage)); }});
}

}  // namespace probe
