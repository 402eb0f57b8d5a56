#include <benchmark/benchmark.h>

#include "engine/attention/online_softmax.h"

namespace flashscope {
void register_diagnose_benchmarks();
void register_fold_benchmarks();
void register_run_benchmarks();
void register_search_benchmarks();
void register_sweep_benchmarks();
}  // namespace flashscope

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  std::string isas;
  for (const std::string_view isa : flashscope::available_isas()) isas += std::string(isa) + ' ';
  benchmark::AddCustomContext("instruction_sets", isas);
  flashscope::register_diagnose_benchmarks();
  flashscope::register_fold_benchmarks();
  flashscope::register_run_benchmarks();
  flashscope::register_search_benchmarks();
  flashscope::register_sweep_benchmarks();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
