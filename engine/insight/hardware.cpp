#include "engine/insight/hardware.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "engine/error.h"

namespace flashscope {
namespace {

using enum Quantity;

constexpr double kKiB = 1 << 10, kMiB = 1 << 20, kGiB = 1 << 30, kGBps = 1e9, kTBps = 1e12, kTFLOPS = 1e12;

// Of every figure that no driver reported here: the documents themselves were not at hand.
constexpr const char* kQuoted = "; as quoted elsewhere, not read in the document itself";
constexpr const char* kGuide = "CUDA C++ Programming Guide, Technical Specifications per Compute Capability";
constexpr const char* kCustom = "custom";
constexpr const char* kReported = "reported by the driver";

// What the compute capability says of every chip that has it.
struct Limits {
  std::string_view capability;
  double shared_per_sm, shared_per_block, threads_per_sm;  // KiB, KiB
};
constexpr std::array kLimits{Limits{"7.5", 64, 64, 1024},   Limits{"8.0", 164, 163, 2048},
                             Limits{"8.6", 100, 99, 1536},  Limits{"8.9", 100, 99, 1536},
                             Limits{"9.0", 228, 227, 2048}, Limits{"10.0", 228, 227, 2048},
                             Limits{"12.0", 100, 99, 1536}};

void add_limits(HardwareSheet& sheet) {
  for (const Limits& limits : kLimits) {
    if (limits.capability != sheet.compute_capability) continue;
    const std::string source = std::string(kGuide) + kQuoted;
    sheet[shared_per_sm] = Figure{limits.shared_per_sm * kKiB, source};
    sheet[shared_per_block] = Figure{limits.shared_per_block * kKiB, source};
    sheet[threads_per_sm] = Figure{limits.threads_per_sm, source};
    sheet[threads_per_block] = Figure{1024, source};
    sheet[registers_per_sm] = Figure{64 * kKiB, source};
  }
}

struct Given {
  Quantity quantity;
  double value;
  const char* source;
};

HardwareSheet sheet(const char* name, const char* capability, std::initializer_list<Given> given) {
  HardwareSheet sheet;
  sheet.name = name, sheet.compute_capability = capability;
  add_limits(sheet);
  for (const Given& figure : given) {
    std::string source = figure.source;
    if (!source.starts_with("cudaDeviceProp")) source += kQuoted;
    sheet[figure.quantity] = Figure{figure.value, std::move(source)};
  }
  return sheet;
}

HardwareSheet a100(const char* name, double memory, double bytes_per_second) {
  const char* data = "NVIDIA A100 Tensor Core GPU data sheet";
  const char* paper = "NVIDIA A100 Tensor Core GPU Architecture whitepaper";
  return sheet(name, "8.0",
               {{sms, 108, paper},
                {l2, 40 * kMiB, paper},
                {dram, memory * kGiB, data},
                {bandwidth, bytes_per_second, data},
                {bf16_tensor, 312 * kTFLOPS, data},
                {fp16_tensor, 312 * kTFLOPS, data},
                {fp32_vector, 19.5 * kTFLOPS, data},
                {fp64_vector, 9.7 * kTFLOPS, data}});
}

std::vector<HardwareSheet> make_sheets() {
  std::vector<HardwareSheet> sheets;
  sheets.push_back(a100("A100 40GB", 40, 1555 * kGBps));
  sheets.push_back(a100("A100 80GB", 80, 2039 * kGBps));  // SXM; the PCIe card has 1,935 GB/s

  const char* hopper = "NVIDIA H100 Tensor Core GPU Architecture whitepaper";
  const char* h100 = "NVIDIA H100 Tensor Core GPU data sheet";
  const char* h100_halved = "NVIDIA H100 Tensor Core GPU data sheet, 1,979 TFLOPS with sparsity halved";
  const char* h100_pcie_halved = "NVIDIA H100 Tensor Core GPU data sheet, 1,513 TFLOPS with sparsity halved";
  sheets.push_back(sheet("H100 SXM", "9.0",
                         {{sms, 132, hopper},
                          {l2, 50 * kMiB, hopper},
                          {dram, 80 * kGiB, h100},
                          {bandwidth, 3.35 * kTBps, h100},
                          {bf16_tensor, 989.5 * kTFLOPS, h100_halved},
                          {fp16_tensor, 989.5 * kTFLOPS, h100_halved},
                          {fp32_vector, 67 * kTFLOPS, h100},
                          {fp64_vector, 34 * kTFLOPS, h100}}));
  sheets.push_back(sheet("H100 PCIe", "9.0",
                         {{sms, 114, hopper},
                          {l2, 50 * kMiB, hopper},
                          {dram, 80 * kGiB, h100},
                          {bandwidth, 2 * kTBps, h100},
                          {bf16_tensor, 756.5 * kTFLOPS, h100_pcie_halved},
                          {fp16_tensor, 756.5 * kTFLOPS, h100_pcie_halved},
                          {fp32_vector, 51 * kTFLOPS, h100},
                          {fp64_vector, 26 * kTFLOPS, h100}}));

  const char* h200 = "NVIDIA H200 Tensor Core GPU data sheet";
  const char* h200_halved = "NVIDIA H200 Tensor Core GPU data sheet, 1,979 TFLOPS with sparsity halved";
  const char* h200_query = "cudaDeviceProp of an NVIDIA H200, driver 580";
  sheets.push_back(sheet("H200", "9.0",
                         {{sms, 132, h200_query},
                          {l2, 60 * kMiB, h200_query},
                          {dram, 141 * kGiB, h200},
                          {bandwidth, 4.8 * kTBps, h200},
                          {bf16_tensor, 989.5 * kTFLOPS, h200_halved},
                          {fp16_tensor, 989.5 * kTFLOPS, h200_halved},
                          {fp32_vector, 67 * kTFLOPS, h200},
                          {fp64_vector, 34 * kTFLOPS, h200}}));

  const char* blackwell = "NVIDIA Blackwell Architecture Technical Brief, HGX B200, of one GPU";
  sheets.push_back(
      sheet("B200", "10.0",
            {{sms, 148, "cudaDeviceProp of an NVIDIA B200, as quoted in pytorch/ao#4002"},
             {l2, 126 * kMiB, "NVIDIA Blackwell Tuning Guide"},
             {dram, 180 * kGiB, "NVIDIA DGX B200 data sheet, 1,440 GB of eight GPUs"},
             {bandwidth, 8 * kTBps,
              "NVIDIA Blackwell Architecture Technical Brief, HGX B200, of one GPU; bus width and clock that "
              "a driver reports give 7.67 TB/s (pytorch/ao#4002)"},
             {bf16_tensor, 2250 * kTFLOPS, blackwell},
             {fp16_tensor, 2250 * kTFLOPS, blackwell},
             {fp32_vector, 80 * kTFLOPS, blackwell},
             {fp64_vector, 40 * kTFLOPS, blackwell}}));

  const char* ada = "NVIDIA Ada GPU Architecture whitepaper";
  const char* l4 = "NVIDIA L4 Tensor Core GPU data sheet";
  const char* l4_halved = "NVIDIA L4 Tensor Core GPU data sheet, 242 TFLOPS with sparsity halved";
  sheets.push_back(sheet("L4", "8.9",
                         {{sms, 58, "NVIDIA L4 data sheet: 30.3 TFLOPS at 2.04 GHz and 128 lanes an SM"},
                          {l2, 48 * kMiB, "NVIDIA Ada GPU Architecture whitepaper, AD104"},
                          {dram, 24 * kGiB, l4},
                          {bandwidth, 300 * kGBps, l4},
                          {bf16_tensor, 121 * kTFLOPS, l4_halved},
                          {fp16_tensor, 121 * kTFLOPS, l4_halved},
                          {fp32_vector, 30.3 * kTFLOPS, l4}}));
  const char* l40s = "NVIDIA L40S data sheet";
  sheets.push_back(sheet("L40S", "8.9",
                         {{sms, 142, "NVIDIA L40S data sheet: 18,176 CUDA cores of 128 an SM"},
                          {l2, 96 * kMiB, "NVIDIA Ada GPU Architecture whitepaper, AD102"},
                          {dram, 48 * kGiB, l40s},
                          {bandwidth, 864 * kGBps, l40s},
                          {bf16_tensor, 362.05 * kTFLOPS, l40s},
                          {fp16_tensor, 362.05 * kTFLOPS, l40s},
                          {fp32_vector, 91.6 * kTFLOPS, l40s}}));

  const char* ampere = "NVIDIA Ampere GA102 GPU Architecture whitepaper";
  sheets.push_back(sheet("RTX 3090", "8.6",
                         {{sms, 82, ampere},
                          {l2, 6 * kMiB, ampere},
                          {dram, 24 * kGiB, ampere},
                          {bandwidth, 936 * kGBps, ampere},
                          {bf16_tensor, 71 * kTFLOPS, ampere},
                          {fp16_tensor, 71 * kTFLOPS, ampere},
                          {fp32_vector, 35.6 * kTFLOPS, ampere}}));
  sheets.push_back(sheet("RTX 4090", "8.9",
                         {{sms, 128, ada},
                          {l2, 72 * kMiB, ada},
                          {dram, 24 * kGiB, ada},
                          {bandwidth, 1008 * kGBps, ada},
                          {bf16_tensor, 165.2 * kTFLOPS, ada},
                          {fp16_tensor, 165.2 * kTFLOPS, ada},
                          {fp32_vector, 82.6 * kTFLOPS, ada}}));
  const char* gb202 = "NVIDIA RTX Blackwell GPU Architecture whitepaper";
  sheets.push_back(sheet("RTX 5090", "12.0",
                         {{sms, 170, gb202},
                          {l2, 96 * kMiB, gb202},
                          {dram, 32 * kGiB, gb202},
                          {bandwidth, 1792 * kGBps, gb202},
                          {bf16_tensor, 209.5 * kTFLOPS, gb202},
                          {fp16_tensor, 209.5 * kTFLOPS, gb202},
                          {fp32_vector, 104.8 * kTFLOPS, gb202}}));

  const char* t4 = "NVIDIA T4 data sheet";
  const char* turing = "NVIDIA Turing GPU Architecture whitepaper";
  sheets.push_back(sheet("T4", "7.5",
                         {{sms, 40, turing},
                          {l2, 4 * kMiB, turing},
                          {dram, 16 * kGiB, t4},
                          {bandwidth, 320 * kGBps, turing},
                          {fp16_tensor, 65 * kTFLOPS, t4},
                          {fp32_vector, 8.1 * kTFLOPS, t4}}));
  return sheets;
}

// CUDA's names of devices that do not hold a sheet's name as it is.
struct DeviceName {
  std::string_view device, sheet;
};
constexpr std::array kDeviceNames{DeviceName{"NVIDIA A100-SXM4-40GB", "A100 40GB"},
                                  DeviceName{"NVIDIA A100-PCIE-40GB", "A100 40GB"},
                                  DeviceName{"NVIDIA A100-SXM4-80GB", "A100 80GB"},
                                  DeviceName{"NVIDIA H100 80GB HBM3", "H100 SXM"},
                                  DeviceName{"NVIDIA H100 PCIe", "H100 PCIe"},
                                  DeviceName{"NVIDIA GeForce RTX 3090", "RTX 3090"},
                                  DeviceName{"NVIDIA GeForce RTX 4090", "RTX 4090"},
                                  DeviceName{"NVIDIA GeForce RTX 5090", "RTX 5090"},
                                  DeviceName{"Tesla T4", "T4"}};

// "A100-80gb" and "A100 80GB" are the same name.
std::string plain(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c != ' ' && c != '-' && c != '_') text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

}  // namespace

std::string_view name(Quantity quantity) {
  constexpr std::array<std::string_view, kQuantities> names{"SMs",
                                                            "shared memory per block",
                                                            "shared memory per SM",
                                                            "registers per SM",
                                                            "threads per block",
                                                            "threads per SM",
                                                            "L2",
                                                            "DRAM",
                                                            "DRAM bandwidth",
                                                            "bfloat16 tensor peak",
                                                            "float16 tensor peak",
                                                            "float32 vector peak",
                                                            "float64 vector peak"};
  return names[static_cast<std::size_t>(quantity)];
}

std::string_view unit(Quantity quantity) {
  switch (quantity) {
    case sms:
    case registers_per_sm:
    case threads_per_block:
    case threads_per_sm:
      return "";
    case shared_per_block:
    case shared_per_sm:
    case l2:
    case dram:
      return "bytes";
    case bandwidth:
      return "bytes/s";
    case bf16_tensor:
    case fp16_tensor:
    case fp32_vector:
    case fp64_vector:
      return "FLOP/s";
  }
  return "";
}

std::optional<double> HardwareSheet::value(Quantity q) const {
  const std::optional<Figure>& figure = (*this)[q];
  return figure ? std::optional(figure->value) : std::nullopt;
}

const std::vector<HardwareSheet>& hardware_sheets() {
  static const std::vector<HardwareSheet> sheets = make_sheets();
  return sheets;
}

const HardwareSheet* find_sheet(std::string_view name) {
  std::string wanted = plain(name);
  for (const DeviceName& known : kDeviceNames) {
    if (wanted == plain(known.device)) wanted = plain(known.sheet);
  }
  if (wanted.starts_with("nvidia")) wanted.erase(0, 6);
  for (const HardwareSheet& sheet : hardware_sheets()) {
    if (wanted == plain(sheet.name)) return &sheet;
  }
  return nullptr;
}

const HardwareSheet& sheet_named(std::string_view name) {
  if (const HardwareSheet* found = find_sheet(name)) return *found;
  std::string names, meant;  // those that begin with it: H100 is SXM or PCIe
  for (const HardwareSheet& sheet : hardware_sheets()) {
    names += (names.empty() ? "" : ", ") + sheet.name;
    if (!plain(name).empty() && plain(sheet.name).starts_with(plain(name)))
      meant += (meant.empty() ? "" : " or ") + sheet.name;
  }
  throw InputError("hardware sheet", fmt::format("\"{}\"", name),
                   "one of " + names + (meant.empty() ? "" : " (did you mean " + meant + "?)"));
}

HardwareSheet sheet_of_device(const ReportedDevice& device) {
  HardwareSheet sheet;
  if (const HardwareSheet* known = find_sheet(device.name)) sheet = *known;
  sheet.name = device.name;
  sheet.compute_capability = fmt::format("{}.{}", device.major, device.minor);
  add_limits(sheet);
  const auto report = [&](Quantity quantity, std::int64_t value) {
    if (value > 0) sheet[quantity] = Figure{static_cast<double>(value), kReported};
  };
  report(sms, device.sms);
  report(shared_per_block, device.shared_per_block);
  report(shared_per_sm, device.shared_per_sm);
  report(l2, device.l2);
  report(dram, device.dram);
  return sheet;
}

HardwareSheet custom_sheet() { return {kCustom, {}, {}}; }

HardwareSheet what_if(HardwareSheet sheet, Quantity quantity, double value) {
  constexpr std::string_view mark = ", what-if";
  if (sheet.name == kCustom) {
    sheet[quantity] = Figure{value, "entered"};
    return sheet;
  }
  if (!sheet.name.ends_with(mark)) sheet.name += mark;
  sheet[quantity] = Figure{value, "what-if"};
  return sheet;
}

Quantity peak_quantity(DType type) {
  switch (type) {
    case DType::bfloat16:
      return bf16_tensor;
    case DType::float16:
      return fp16_tensor;
    case DType::float32:
      return fp32_vector;
    case DType::float64:
      return fp64_vector;
  }
  return fp32_vector;
}

std::optional<double> balance(const HardwareSheet& sheet, DType type) {
  const std::optional<double> peak = sheet.value(peak_quantity(type)), bytes = sheet.value(bandwidth);
  return peak && bytes ? std::optional(*peak / *bytes) : std::nullopt;
}

std::optional<double> attainable(const HardwareSheet& sheet, DType type, double flop_per_byte) {
  const std::optional<double> peak = sheet.value(peak_quantity(type)), bytes = sheet.value(bandwidth);
  return peak && bytes ? std::optional(std::min(*peak, flop_per_byte * *bytes)) : std::nullopt;
}

std::optional<double> dram_seconds(const HardwareSheet& sheet, double bytes) {
  const std::optional<double> per_second = sheet.value(bandwidth);
  return per_second ? std::optional(bytes / *per_second) : std::nullopt;
}

std::optional<TimeFloor> time_floor(const HardwareSheet& sheet, DType type, double least_bytes, double flops) {
  const std::optional<double> moved = dram_seconds(sheet, least_bytes), peak = sheet.value(peak_quantity(type));
  if (!peak) return moved ? std::optional(TimeFloor{*moved, false}) : std::nullopt;
  const double computed = flops / *peak;
  if (moved && *moved > computed) return TimeFloor{*moved, false};
  return TimeFloor{computed, true};
}

}  // namespace flashscope
