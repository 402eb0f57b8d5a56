// The built-in demo and "the first three minutes": real attention inputs of a small trained model.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "app/document.h"
#include "embedded/asset_file.h"
#include "engine/insight/diagnosis.h"

namespace flashscope {
namespace {

// A file that lives in memory as long as this object, for readers that take a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const std::byte> bytes) : descriptor_(memfd_create("flashscope-demo", MFD_CLOEXEC)) {
    if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "the built-in demo");
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t written = write(descriptor_, bytes.data() + done, bytes.size() - done);
      if (written < 0) throw std::system_error(errno, std::generic_category(), "the built-in demo");
      done += static_cast<std::size_t>(written);
    }
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  int descriptor_;
};

}  // namespace

std::shared_ptr<const Problem> demo_problem() {
  const MemoryFile file(asset_file("codelm_layer1.npz"));
  ProblemFiles files;
  files.input = file.path();
  files.head = 2;
  files.causal = Causal::top_left;
  auto problem = std::make_shared<Problem>(*load_problem(files).problem);
  problem->name = "codelm layer 1, head 2 (kv head 1)";
  return problem;
}

Recipe demo_recipe() {
  Recipe recipe;
  recipe.Br = 128, recipe.Bc = 64, recipe.guard = Guard::none;
  return recipe;
}

std::vector<FirstMinute> first_three_minutes() {
  const Recipe forward = demo_recipe();
  Recipe reverse = forward;
  reverse.order = Order::reverse;
  Recipe square = reverse;
  square.Bc = 128;
  Recipe small = reverse;
  small.Br = 64;
  Recipe guarded = reverse;
  guarded.guard = Guard::clamp;
  return {{forward, "Forward: rows meet larger scores again and again, and are rescaled"},
          {reverse, "Reverse order, as public FlashAttention-2 kernels loop: half of all rows are NaN, in stripes"},
          {square, "Bc 64 -> 128: the NaN is gone and the traffic is the same"},
          {small, "Br 128 -> 64 at Bc 64: no NaN either, but more traffic"},
          {guarded, "Back to 128 x 64 with guard clamp: no NaN, and every row right"}};
}

FirstMinuteNumbers compute(const Problem& problem, const FirstMinute& line) {
  const auto shared = std::make_shared<const Problem>(problem);
  FirstMinuteNumbers numbers;
  Scan scan(shared, line.recipe, 0);
  scan.wait();
  numbers.rescales = scan.totals().rescale;
  const Schedule schedule(problem.shape(), problem.mask, line.recipe);
  numbers.tiles_visited = schedule.tiles();
  numbers.bytes = counted(schedule).bytes.total().total();
  const Diagnosis diagnosis = diagnose(shared, line.recipe);
  for (const auto& rows : diagnosis.nan_rows) numbers.nan_rows += static_cast<std::int64_t>(rows.size());
  if (diagnosis.first_nan) {
    const FirstNan& first = *diagnosis.first_nan;
    numbers.first_nan = fmt::format("tile ({}, {}), row {}: {}", first.i, first.j, first.row,
                                    first.cause == Cause::inf_minus_inf ? "(-inf) - (-inf)" : name(first.cause));
  }
  return numbers;
}

}  // namespace flashscope
