#include "engine/insight/traffic_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/attention/closed_form.h"

namespace flashscope {
namespace {

const TrafficLine& find(const std::vector<TrafficLine>& lines, std::string_view source) {
  const auto found = std::find_if(lines.begin(), lines.end(), [&](const TrafficLine& l) { return l.source == source; });
  EXPECT_NE(found, lines.end()) << source;
  return *found;
}

constexpr Shape kShape{16, 16, 4096, 4096, 64, 64, DType::bfloat16};

std::vector<TrafficLine> table(Algorithm algorithm, const Report* report) {
  Recipe recipe;
  recipe.algorithm = algorithm, recipe.Br = 128, recipe.Bc = 64;
  const Schedule schedule(kShape, {}, recipe);
  const Mask mask;
  return traffic_table(kShape, &mask, recipe, counted(schedule).bytes, report);
}

// As measured on an H200 (kernels/README.md): flash2 at N = 4096, 16 heads, d = 64, 128 x 64, bfloat16.
Report measured_on_h200() {
  Report report;
  report.device = "NVIDIA H200";
  report.gpu.emplace();
  report.gpu->measured.emplace();
  report.gpu->measured->l2_read = 545'259'520, report.gpu->measured->l2_written = 8'650'752;
  report.gpu->measured->dram_read = 25'206'016, report.gpu->measured->dram_written = 8'650'752;
  report.gpu->measured_warm = report.gpu->measured;
  report.gpu->measured_warm->dram_read = 4'096, report.gpu->measured_warm->dram_written = 0;
  return report;
}

TEST(TrafficTable, TheSourcesOfAMeasuredRunSideBySide) {
  const Report report = measured_on_h200();
  const std::vector<TrafficLine> lines = table(Algorithm::flash2, &report);
  ASSERT_EQ(lines.size(), 7u);
  const TrafficLine& form = lines.front();
  EXPECT_EQ(form.origin, Label::formula);
  EXPECT_EQ(form.bytes->read, 545'259'520);
  EXPECT_EQ(form.bytes->written, 8'650'752);
  const TrafficLine& l2 = find(lines, "L2 - SM");
  EXPECT_EQ(l2.origin, Label::measured);
  EXPECT_EQ(l2.caches, "cold");
  EXPECT_EQ(l2.against, "formula");
  EXPECT_EQ(difference(l2.bytes->read, l2.baseline.read).bytes, 0);
  const TrafficLine& dram = find(lines, "DRAM");
  EXPECT_EQ(dram.baseline.read, 3 * 16 * 4096 * 64 * 2);
  EXPECT_LE(std::abs(difference(dram.bytes->read, dram.baseline.read).percent.value() - 0.16), 0.005);
  EXPECT_EQ(find(lines, "kernel").missing, "not counted in this run");
  const TrafficLine &warm_l2 = lines[5], &warm_dram = lines[6];
  EXPECT_EQ(warm_l2.caches, "warm");
  EXPECT_EQ(warm_l2.against, "formula");
  EXPECT_EQ(warm_dram.caches, "warm");
  EXPECT_EQ(warm_dram.bytes->read, 4'096);
  EXPECT_EQ(warm_dram.against, "");
}

// The running O, m and l are float32, whatever the problem's type; normalised at the end, O and LSE go out besides.
TEST(TrafficTable, TheRunningStateOfFlash1CrossesDramToo) {
  const Report report = measured_on_h200();
  constexpr double rows = 16 * 4096, inputs = 3 * rows * 64 * 2, running = rows * (64 + 2) * 4;
  const std::vector<TrafficLine> each = table(Algorithm::flash1, &report);
  const TrafficLine& dram = find(each, "DRAM");
  EXPECT_EQ(dram.against, "Q, K, V and the running O, m, l once");
  EXPECT_EQ(dram.baseline.read, inputs + running);
  EXPECT_EQ(dram.baseline.written, running);
  Recipe recipe;
  recipe.algorithm = Algorithm::flash1, recipe.Br = 128, recipe.Bc = 64, recipe.normalise = Normalise::end;
  const Mask mask;
  const std::vector<TrafficLine> end =
      traffic_table(kShape, &mask, recipe, counted(Schedule(kShape, {}, recipe)).bytes, &report);
  EXPECT_EQ(find(end, "DRAM").baseline.read, inputs + running);
  EXPECT_EQ(find(end, "DRAM").baseline.written, running + rows * 64 * 2 + rows * 4);
}

TEST(TrafficTable, StandardsReReadsAreALineOfTheirOwn) {
  Report report = measured_on_h200();
  Recipe standard;
  standard.algorithm = Algorithm::standard;
  const Moved floor = closed_form(kShape, {}, standard).bytes.total();
  report.gpu->measured->l2_read = static_cast<double>(floor.read) + 12'345'678;
  const std::vector<TrafficLine> lines = table(Algorithm::standard, &report);
  const TrafficLine& again = find(lines, "less the formula: matrix products' re-reads");
  EXPECT_EQ(again.bytes->read, 12'345'678);
  EXPECT_EQ(find(lines, "DRAM").against, "formula");
}

// A kernel reads lengths as a plane of bytes, a bias of 16 bits as float32; the ledger counts what the file holds.
TEST(TrafficTable, MasksReadAsPlanesAreALineOfTheirOwn) {
  Report report = measured_on_h200();
  Recipe recipe;
  recipe.Br = 128, recipe.Bc = 64;
  report.gpu->counted = counted(Schedule(kShape, {}, recipe)).bytes;
  EXPECT_EQ(table(Algorithm::flash2, &report).size(), 7u);
  (*report.gpu->counted)[Operand::mask].read = 16'777'216, (*report.gpu->counted)[Operand::bias].read = 1'000;
  const std::vector<TrafficLine> lines = table(Algorithm::flash2, &report);
  ASSERT_EQ(lines.size(), 8u);
  const TrafficLine& beyond = find(lines, "of it, masks read as planes, beyond the ledger's");
  EXPECT_EQ(beyond.origin, Label::counted);
  EXPECT_EQ(beyond.bytes->read, 16'778'216);
  EXPECT_EQ(find(lines, "kernel").bytes->read - find(lines, "ledger").bytes->read, 16'778'216);
}

TEST(TrafficTable, WhatIsMissingSaysWhy) {
  const std::vector<TrafficLine> none = table(Algorithm::flash1, nullptr);
  for (const char* source : {"kernel", "L2 - SM", "DRAM"}) {
    EXPECT_FALSE(find(none, source).bytes) << source;
    EXPECT_FALSE(find(none, source).missing.empty()) << source;
  }
  Report report = measured_on_h200();
  report.gpu->measured.reset(), report.gpu->not_measured = "no permission to read counters";
  EXPECT_EQ(find(table(Algorithm::flash2, &report), "DRAM").missing, "no permission to read counters");
  Report older = measured_on_h200();  // by a program that knew cold caches only
  older.gpu->measured_warm.reset();
  const std::vector<TrafficLine> of_older = table(Algorithm::flash2, &older);
  EXPECT_EQ(of_older.back().caches, "warm");
  EXPECT_EQ(of_older.back().missing, "not measured in this run");
  Report on_cpu;
  EXPECT_NE(find(table(Algorithm::flash2, &on_cpu), "L2 - SM").missing.find("CPU"), std::string::npos);
}

// Whether the sets that take turns push each other out of the L2 before they are used again.
TEST(GpuFigures, HowALaunchFindsItsInputs) {
  GpuFigures gpu;
  gpu.input_sets = 5;
  EXPECT_FALSE(gpu.input_caches(25'165'824));
  gpu.l2_bytes = 62'914'560;
  EXPECT_EQ(gpu.input_caches(25'165'824), Caches::cold);
  EXPECT_EQ(gpu.input_caches(25'165'823), Caches::mixed);
  EXPECT_EQ(gpu.input_caches(6'291'457), Caches::mixed);
  EXPECT_EQ(gpu.input_caches(6'291'456), Caches::warm);
}

}  // namespace
}  // namespace flashscope
