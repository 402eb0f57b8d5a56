#include "engine/insight/hardware.h"

#include <cmath>
#include <set>

#include "engine/attention/ledger.h"
#include "engine/error.h"
#include "support.h"

namespace flashscope::testing {
namespace {

TEST(Hardware, every_sheet_has_its_limits_and_every_figure_a_source) {
  std::set<std::string> names;
  for (const HardwareSheet& sheet : hardware_sheets()) {
    EXPECT_TRUE(names.insert(sheet.name).second) << sheet.name;
    EXPECT_FALSE(sheet.compute_capability.empty()) << sheet.name;
    for (const Quantity always :
         {Quantity::sms, Quantity::shared_per_block, Quantity::shared_per_sm, Quantity::registers_per_sm,
          Quantity::threads_per_block, Quantity::threads_per_sm, Quantity::l2, Quantity::dram, Quantity::bandwidth,
          Quantity::fp16_tensor, Quantity::fp32_vector})
      EXPECT_TRUE(sheet[always].has_value()) << sheet.name << ": " << name(always);
    for (int q = 0; q < kQuantities; ++q) {
      const std::optional<Figure>& figure = sheet.figures[q];
      if (!figure) continue;
      EXPECT_GT(figure->value, 0) << sheet.name << ": " << name(static_cast<Quantity>(q));
      EXPECT_FALSE(figure->source.empty()) << sheet.name << ": " << name(static_cast<Quantity>(q));
    }
    // A block may use all of an SM's shared memory but what the system keeps, and tensor cores beat vector units.
    EXPECT_LE(*sheet.value(Quantity::shared_per_block), *sheet.value(Quantity::shared_per_sm)) << sheet.name;
    EXPECT_GT(*sheet.value(Quantity::fp16_tensor), *sheet.value(Quantity::fp32_vector)) << sheet.name;
  }
  EXPECT_EQ(names.size(), 12u);
}

TEST(Hardware, limits_of_shared_memory_are_those_that_reports_quote) {
  const Json limits = read_json("tests/data/cases/open-20-block-size-traffic.json")["expected"]["on_chip_footprint"];
  for (const auto& [sheet, bytes] : {std::pair{"T4", "65536"},
                                     {"RTX 3090", "101376"},
                                     {"L4", "101376"},
                                     {"A100 40GB", "166912"},
                                     {"H100 SXM", "232448"},
                                     {"B200", "232448"}}) {
    EXPECT_TRUE(limits["limits_quoted_in_reports"].contains(bytes));
    EXPECT_EQ(*sheet_named(sheet).value(Quantity::shared_per_block), std::stod(bytes)) << sheet;
  }
}

TEST(Hardware, found_by_its_name_or_by_its_device_name) {
  const auto found = [](std::string_view name) {
    const HardwareSheet* sheet = find_sheet(name);
    return sheet ? sheet->name : "";
  };
  EXPECT_EQ(found("NVIDIA H200"), "H200");
  EXPECT_EQ(found("h200"), "H200");
  EXPECT_EQ(found("NVIDIA H100 80GB HBM3"), "H100 SXM");
  EXPECT_EQ(found("NVIDIA H100 PCIe"), "H100 PCIe");
  EXPECT_EQ(found("NVIDIA A100-SXM4-40GB"), "A100 40GB");
  EXPECT_EQ(found("a100-80gb"), "A100 80GB");
  EXPECT_EQ(found("NVIDIA GeForce RTX 4090"), "RTX 4090");
  EXPECT_EQ(found("Tesla T4"), "T4");
  EXPECT_EQ(found("NVIDIA L4"), "L4");
  EXPECT_EQ(found("NVIDIA L40S"), "L40S");
  EXPECT_EQ(found("H100"), "");                   // of which there are two
  EXPECT_EQ(found("NVIDIA A100 80GB PCIe"), "");  // another bandwidth than the sheet's
  EXPECT_THROW(sheet_named("abacus"), InputError);
  const auto expected = [](std::string_view name) -> std::string {
    try {
      return sheet_named(name).name;
    } catch (const InputError& refused) {
      return refused.expected();
    }
  };
  EXPECT_TRUE(expected("h100").ends_with(" (did you mean H100 SXM or H100 PCIe?)")) << expected("h100");
  EXPECT_TRUE(expected("A100").ends_with(" (did you mean A100 40GB or A100 80GB?)")) << expected("A100");
  for (const char* unlike : {"abacus", ""}) EXPECT_TRUE(expected(unlike).ends_with(", T4")) << expected(unlike);
}

TEST(Hardware, balance_points_and_floors_of_the_documents) {
  const Json golden = read_json("tests/data/seed_figures.json");
  const HardwareSheet& a100 = sheet_named("A100 80GB");
  EXPECT_DOUBLE_EQ(*balance(a100, DType::bfloat16), golden["a100_balance_flops_per_byte"].get<double>());
  EXPECT_DOUBLE_EQ(kSoftmaxFlopPerByte, 1.25);
  const double reached = *attainable(a100, DType::bfloat16, kSoftmaxFlopPerByte) / *a100.value(Quantity::bf16_tensor);
  EXPECT_LE(reached, 0.01);
  EXPECT_NEAR(reached * 100, 0.8, 0.05);

  const Json interview = golden["interview_bytes"];
  const HardwareSheet& h100 = sheet_named("H100 SXM");
  EXPECT_EQ(*h100.value(Quantity::bandwidth), 3.35e12);
  EXPECT_DOUBLE_EQ(*dram_seconds(h100, interview["materializing_total"].get<double>()),
                   interview["floor_seconds_at_3.35TBps"].get<double>());
  // 0.163 ms; the I/O minimum takes 65 times less, and the matrix products more than that.
  EXPECT_NEAR(*dram_seconds(h100, interview["materializing_total"].get<double>()), 0.163e-3, 0.0005e-3);
  const double least = interview["io_minimum"], flops = interview["matmul_flops"];
  const TimeFloor floor = time_floor(h100, DType::float16, least, flops).value();
  EXPECT_TRUE(floor.by_peak);
  EXPECT_DOUBLE_EQ(floor.seconds, flops / 989.5e12);
  const TimeFloor moved = time_floor(h100, DType::float16, least, flops / 100).value();
  EXPECT_FALSE(moved.by_peak);
  EXPECT_DOUBLE_EQ(moved.seconds, least / 3.35e12);
  EXPECT_FALSE(time_floor(sheet_named("T4"), DType::bfloat16, least, flops)->by_peak);  // it has no such peak
  EXPECT_FALSE(time_floor(HardwareSheet{}, DType::float16, least, flops));
  // The sheet's I/O minimum of the same problem, and standard attention's total.
  const Shape shape{1, 1, 8192, 8192, 128, 128, DType::float16};
  EXPECT_EQ(minimum(shape).bytes.total(), interview["io_minimum"].get<std::int64_t>());
  EXPECT_EQ(standard_elements(shape).total() * 2, interview["materializing_total"].get<std::int64_t>());
  EXPECT_EQ(*attainable(h100, DType::bfloat16, 1e9), *h100.value(Quantity::bf16_tensor));
}

// A figure says whether its document was read: of these, only what a driver reported here was.
TEST(Hardware, what_was_not_read_in_the_document_says_so) {
  for (const HardwareSheet& sheet : hardware_sheets()) {
    for (int q = 0; q < kQuantities; ++q) {
      const std::optional<Figure>& figure = sheet[static_cast<Quantity>(q)];
      if (!figure || figure->source.starts_with("cudaDeviceProp")) continue;
      EXPECT_TRUE(figure->source.ends_with("as quoted elsewhere, not read in the document itself"))
          << sheet.name << ": " << figure->source;
    }
  }
}

TEST(Hardware, a_figure_without_a_source_is_absent) {
  const HardwareSheet& t4 = sheet_named("T4");  // its tensor cores know no bfloat16
  EXPECT_FALSE(t4[Quantity::bf16_tensor]);
  EXPECT_FALSE(balance(t4, DType::bfloat16));
  EXPECT_FALSE(attainable(t4, DType::bfloat16, 1));
  EXPECT_TRUE(balance(t4, DType::float16));
}

TEST(Hardware, the_device_found_and_what_if) {
  ReportedDevice device{"NVIDIA H200", 9, 0, 132, 227 << 10, 228 << 10, 60 << 20, std::int64_t{140} << 30};
  const HardwareSheet h200 = sheet_of_device(device);
  EXPECT_EQ(h200[Quantity::l2]->source, "reported by the driver");
  EXPECT_NE(h200[Quantity::bandwidth]->source, "reported by the driver");
  EXPECT_EQ(*h200.value(Quantity::bandwidth), 4.8e12);

  device.name = "NVIDIA Imaginary 9";
  const HardwareSheet unknown = sheet_of_device(device);
  EXPECT_EQ(*unknown.value(Quantity::shared_per_block), 227 << 10);
  EXPECT_EQ(*unknown.value(Quantity::threads_per_sm), 2048);  // of its compute capability
  EXPECT_FALSE(unknown[Quantity::bandwidth]);

  const HardwareSheet changed = what_if(what_if(h200, Quantity::bandwidth, 1e12), Quantity::bandwidth, 2e12);
  EXPECT_EQ(changed.name, "NVIDIA H200, what-if");
  EXPECT_EQ(changed[Quantity::bandwidth]->source, "what-if");
  EXPECT_DOUBLE_EQ(*balance(changed, DType::float16), *h200.value(Quantity::fp16_tensor) / 2e12);
}

}  // namespace
}  // namespace flashscope::testing
