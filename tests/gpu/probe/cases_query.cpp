// What the driver says of memory: how much there is, which block an address belongs to, its
// attributes.
#include <array>
#include <thread>
#include <vector>

#include "cases.h"

namespace probe {
namespace {

using Ask = CUresult (*)(Session&, CUdeviceptr);

CUresult ask_range(Session& s, CUdeviceptr address) {
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  return s.cu.cuMemGetAddressRange(&base, &bytes, address);
}

CUresult ask_attribute(Session& s, CUdeviceptr address) {
  CUmemorytype type{};
  return s.cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
}

CUresult ask_attributes(Session& s, CUdeviceptr address) {
  CUmemorytype type{};
  CUdeviceptr start = 0;
  std::array attributes{CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
  std::array<void*, 2> outputs{&type, &start};
  return s.cu.cuPointerGetAttributes(2, attributes.data(), outputs.data(), address);
}

CUresult set_attribute(Session& s, CUdeviceptr address) {
  const unsigned on = 1;
  return s.cu.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address);
}

Answer of_live(Session& s, Ask ask, std::size_t offset = 0) {
  const CUdeviceptr block = s.block();
  const CUresult result = ask(s, block + offset);
  s.cu.cuMemFree(block);
  return answer(result);
}

Answer of_freed(Session& s, Ask ask) {
  const CUdeviceptr block = s.block();
  s.cu.cuMemFree(block);
  return answer(ask(s, block));
}

Answer of_host(Session& s, Ask ask) {
  std::vector<char> host(100000);
  return answer(ask(s, address_of(host.data())));
}

void add_for_each_pointer(Cases& cases, const std::string& function, Ask ask) {
  cases.push_back({function + ".live", [ask](Session& s) { return of_live(s, ask); }});
  cases.push_back({function + ".freed", [ask](Session& s) { return of_freed(s, ask); }});
  cases.push_back({function + ".host_pointer", [ask](Session& s) { return of_host(s, ask); }});
  cases.push_back(
      {function + ".never_mapped", [ask](Session& s) { return answer(ask(s, kGarbage)); }});
}

// The same question from a thread that has no context.
Answer from_bare_thread(Session& s, CUresult (*ask)(Session&, CUdeviceptr)) {
  const CUdeviceptr block = s.block();
  CUresult result = CUDA_SUCCESS;
  std::thread([&] { result = ask(s, block); }).join();
  s.cu.cuMemFree(block);
  return answer(result);
}

void add_memory_info(Cases& cases) {
  cases.push_back({"cuMemGetInfo.null_free", [](Session& s) {
                     std::size_t total = 0;
                     return answer(s.cu.cuMemGetInfo(nullptr, &total));
                   }});
  cases.push_back({"cuMemGetInfo.null_total", [](Session& s) {
                     std::size_t free_bytes = 0;
                     return answer(s.cu.cuMemGetInfo(&free_bytes, nullptr));
                   }});
  cases.push_back({"cuMemGetInfo.null_both",
                   [](Session& s) { return answer(s.cu.cuMemGetInfo(nullptr, nullptr)); }});
  cases.push_back({"cuMemGetInfo.no_context", [](Session& s) {
                     return from_bare_thread(s, [](Session& inner, CUdeviceptr) {
                       std::size_t free_bytes = 0;
                       std::size_t total = 0;
                       return inner.cu.cuMemGetInfo(&free_bytes, &total);
                     });
                   }});
}

CUresult ask_for_device_pointer(Session& s, CUdeviceptr address) {
  CUdeviceptr pointer = 0;
  return s.cu.cuPointerGetAttribute(&pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address);
}

CUresult ask_for_host_pointer(Session& s, CUdeviceptr address) {
  void* pointer = nullptr;
  return s.cu.cuPointerGetAttribute(&pointer, CU_POINTER_ATTRIBUTE_HOST_POINTER, address);
}

// The highest value that the enumeration's type can hold, far above the last attribute.
constexpr auto kUnknownAttribute = static_cast<CUpointer_attribute>(31);

CUresult ask_for_nothing_known(Session& s, CUdeviceptr address) {
  std::array<char, 64> output{};
  return s.cu.cuPointerGetAttribute(output.data(), kUnknownAttribute, address);
}

CUresult set_what_cannot_be_set(Session& s, CUdeviceptr address) {
  const unsigned type = 1;
  return s.cu.cuPointerSetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
}

void add_attribute_misuse(Cases& cases) {
  const auto add = [&](const char* id, Ask ask) {
    cases.push_back({id, [ask](Session& s) { return of_live(s, ask); }});
  };
  add("cuPointerGetAttribute.null_output", [](Session& s, CUdeviceptr address) {
    return s.cu.cuPointerGetAttribute(nullptr, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
  });
  add("cuPointerGetAttribute.unknown_attribute", ask_for_nothing_known);
  add("cuPointerGetAttribute.host_pointer_of_device_memory", ask_for_host_pointer);
  add("cuPointerGetAttributes.null_output", [](Session& s, CUdeviceptr address) {
    std::array attributes{CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
    return s.cu.cuPointerGetAttributes(1, attributes.data(), nullptr, address);
  });
  add("cuPointerSetAttribute.unsupported_attribute", set_what_cannot_be_set);
  add("cuPointerSetAttribute.null_value", [](Session& s, CUdeviceptr address) {
    return s.cu.cuPointerSetAttribute(nullptr, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address);
  });
  cases.push_back({"cuPointerGetAttribute.no_context",
                   [](Session& s) { return from_bare_thread(s, ask_attribute); }});
  cases.push_back({"cuPointerGetAttribute.device_pointer.no_context",
                   [](Session& s) { return from_bare_thread(s, ask_for_device_pointer); }});
}

}  // namespace

void add_query_cases(Cases& cases) {
  add_memory_info(cases);
  add_for_each_pointer(cases, "cuMemGetAddressRange", ask_range);
  cases.push_back(
      {"cuMemGetAddressRange.interior", [](Session& s) { return of_live(s, ask_range, 50000); }});
  cases.push_back({"cuMemGetAddressRange.null_outputs", [](Session& s) {
                     return of_live(s, [](Session& inner, CUdeviceptr address) {
                       return inner.cu.cuMemGetAddressRange(nullptr, nullptr, address);
                     });
                   }});
  cases.push_back({"cuMemGetAddressRange.no_context",
                   [](Session& s) { return from_bare_thread(s, ask_range); }});
  add_for_each_pointer(cases, "cuPointerGetAttribute", ask_attribute);
  add_for_each_pointer(cases, "cuPointerGetAttributes", ask_attributes);
  add_for_each_pointer(cases, "cuPointerSetAttribute", set_attribute);
  add_attribute_misuse(cases);
}

}  // namespace probe
