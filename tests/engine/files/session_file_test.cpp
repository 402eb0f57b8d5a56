// Sessions: every number comes back bit for bit; faults say where; a failed write leaves what was there.
#include "engine/files/session_file.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/files/problem_file.h"
#include "engine/files/session_json.h"
#include "tests/engine/files/fixtures.h"
#include "tests/engine/support.h"
#include "tests/measured_points.h"

namespace flashscope {
namespace {

using namespace fixtures;
using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();

template <class T>
bool same_bits(const Buffer<T>& a, const Buffer<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}
void expect_same(const Tensor& found, const Tensor& expected) {
  EXPECT_EQ(found.type, expected.type);
  EXPECT_EQ(std::vector({found.heads, found.rows, found.cols}),
            std::vector({expected.heads, expected.rows, expected.cols}));
  EXPECT_TRUE(same_bits(found.f32, expected.f32));
  EXPECT_TRUE(same_bits(found.f64, expected.f64));
}

// Infinities, a NaN, a subnormal and a negative zero in Q.
std::shared_ptr<const Problem> awkward_problem(DType type, Mask mask) {
  const Shape shape{.heads = 4, .kv_heads = 2, .Nq = 19, .Nk = 23, .d = 8, .dv = 6, .type = type};
  auto random = random_problem(shape, 3, 0.1, std::move(mask));
  Tensor Q = random->Q();
  set(Q, 0, 1, 2, kInf), set(Q, 0, 1, 3, -kInf), set(Q, 1, 0, 0, std::nan(""));
  set(Q, 2, 0, 0, 3e-8), set(Q, 2, 0, 1, -0.0);
  auto problem = std::make_shared<Problem>(*random);
  problem->q = std::make_shared<const Tensor>(std::move(Q));
  problem->name = "a name with \"quotes\" and \xc3\xa9";
  problem->given_O = std::make_shared<const Tensor>(make_tensor(DType::float32, 4, 19, 6));
  Tensor LSE = make_tensor(DType::float64, 4, 19, 1);
  for (std::int64_t n = 0; n < LSE.size(); ++n) LSE.f64[n] = n == 5 ? -kInf : 0.1 * static_cast<double>(n);
  problem->given_LSE = std::make_shared<const Tensor>(std::move(LSE));
  return problem;
}

Mask file_masks(int bias_bytes) {
  KeepMask keep = make_keep_mask(1, 19, 23);
  for (std::int64_t r = 0; r < 19; ++r)
    for (std::int64_t c = 0; c < 23; ++c)
      if ((r * 7 + c * 3) % 5 != 0) set_keep(keep, 0, r, c);
  Bias bias;
  bias.heads = 4, bias.rows = 1, bias.cols = 23, bias.element_bytes = bias_bytes;
  for (int n = 0; n < 4 * 23; ++n) {
    if (bias_bytes == 8)
      bias.f64.push_back(n == 7 ? -kInf : 0.1 * n);
    else
      bias.f32.push_back(n == 7            ? -HUGE_VALF
                         : bias_bytes == 4 ? 0.1F * static_cast<float>(n)
                                           : 0.25F * static_cast<float>(n));
  }
  Mask mask;
  mask.causal = Causal::bottom_right, mask.window = Window{11, 2};
  mask.keep = std::make_shared<const KeepMask>(std::move(keep));
  mask.bias = std::make_shared<const Bias>(std::move(bias));
  return mask;
}

// As a run on a GPU would leave it, no two figures alike.
GpuFigures gpu_figures() {
  GpuFigures gpu;
  gpu.median = 0.1, gpu.fastest = 0.1 - 1e-17, gpu.slowest = 1.0 / 3, gpu.repeats = 20, gpu.input_sets = 7;
  gpu.flops = 6.9e10, gpu.architecture = "sm_90a", gpu.registers = 168, gpu.spill_stores = 12, gpu.spill_loads = 16;
  gpu.shared_bytes = 98304, gpu.threads = 128, gpu.blocks = 512, gpu.blocks_per_sm = 2, gpu.sms = 132;
  gpu.peak_run_bytes = (std::int64_t{1} << 53) + 1, gpu.peak_statistics_bytes = 176, gpu.peak_tensor_bytes = 25165824;
  gpu.counted.emplace();
  for (int n = 0; n < kOperands; ++n) (*gpu.counted)[static_cast<Operand>(n)] = {100 + n, 200 + n};
  gpu.timeline = Timeline{{{5, 6, 7, 8, -1, 10, std::int64_t{1} << 60}, {1, 2, 3, 4, 5, 6, 7}}, 132, 9, 32};
  gpu.measured = HardwareFigures{545259520, 8650752, 25165825.5, 8650751, 88.25, 12.5, 61, kInf, 104.5e-6, 3, 4096.5};
  gpu.measured_warm = HardwareFigures{545259521, 8650753, 0.5, 0, 99.5, 12.25, 62, 7, {}, 3, {}};
  gpu.l2_bytes = 62914560;
  return gpu;
}

SessionFile whole_session(std::shared_ptr<const Problem> problem) {
  SessionFile session;
  session.recipe.algorithm = Algorithm::flash1, session.recipe.Br = 5, session.recipe.Bc = 7;
  session.recipe.guard = Guard::none, session.recipe.defect = Defect::finite_sentinel;
  session.recipe.numerics = tensor_core_numerics(DType::bfloat16);
  session.recipe.sentinel = -1e-300, session.recipe.sentinel_added = true, session.recipe.sram = 77;
  session.head = 3, session.K = std::int64_t{1} << 40, session.window = R"({"docks": ["traffic"], "zoom": 1.25})";
  Recipe recipe;
  recipe.Br = 8, recipe.Bc = 4;
  RunOptions options;
  options.threads = 1;
  Report cpu = run_on_cpu(*problem, recipe, options), gpu = cpu;
  gpu.device = "NVIDIA H200", gpu.kernel = "flash2_mma", gpu.gpu = gpu_figures();
  gpu.O[3] = 0.1;  // not a float32: the array becomes float64
  Report unmeasured = gpu;
  unmeasured.gpu->measured.reset(), unmeasured.gpu->measured_warm.reset(), unmeasured.gpu->l2_bytes.reset();
  unmeasured.gpu->counted.reset(), unmeasured.gpu->not_measured = "no permission";
  unmeasured.error.reset();
  for (const Report* report : {&cpu, &gpu, &unmeasured})
    session.reports.push_back(make_saved(std::make_shared<const Report>(*report), problem, "0.1.0"));
  session.problem = std::move(problem);
  return session;
}

TEST(SessionFile, ComesBackBitForBit) {
  const Folder folder;
  for (const DType type : {DType::float64, DType::float32, DType::float16, DType::bfloat16})
    for (const int bias_bytes : {2, 4, 8}) {
      SCOPED_TRACE(std::string(name(type)) + ", bias of " + std::to_string(bias_bytes));
      const SessionFile session = whole_session(awkward_problem(type, file_masks(bias_bytes)));
      write_session(folder / "a.fscope", session);
      ASSERT_TRUE(is_session(folder / "a.fscope"));
      const SessionFile found = read_session(folder / "a.fscope");

      const Problem &there = *session.problem, &here = *found.problem;
      EXPECT_EQ(here.name, there.name);
      EXPECT_EQ(here.scale, there.scale);
      expect_same(here.Q(), there.Q()), expect_same(here.K(), there.K()), expect_same(here.V(), there.V());
      expect_same(*here.given_O, *there.given_O), expect_same(*here.given_LSE, *there.given_LSE);
      EXPECT_EQ(here.mask.causal, there.mask.causal);
      EXPECT_EQ(here.mask.window, there.mask.window);
      EXPECT_TRUE(same_bits(here.mask.keep->bits, there.mask.keep->bits));
      EXPECT_EQ(here.mask.bias->element_bytes, bias_bytes);
      EXPECT_TRUE(same_bits(here.mask.bias->f32, there.mask.bias->f32));
      EXPECT_TRUE(same_bits(here.mask.bias->f64, there.mask.bias->f64));
      EXPECT_EQ(found.recipe, session.recipe);
      EXPECT_EQ(found.head, 3);
      EXPECT_EQ(found.K, session.K);
      EXPECT_EQ(nlohmann::json::parse(found.window), nlohmann::json::parse(session.window));

      ASSERT_EQ(found.reports.size(), 3u);
      for (std::size_t n = 0; n < 3; ++n) {
        const Report &a = *found.reports[n].report, &b = *session.reports[n].report;
        EXPECT_TRUE(same_bits(a.O, b.O)) << n;
        EXPECT_TRUE(same_bits(a.LSE, b.LSE)) << n;
        EXPECT_EQ(a.nan_rows, b.nan_rows);
        EXPECT_EQ(a.recipe, b.recipe);
        EXPECT_EQ(a.traffic.bytes, b.traffic.bytes);
        EXPECT_EQ(a.traffic.elements, b.traffic.elements);
        EXPECT_EQ(a.error.has_value(), b.error.has_value());
        EXPECT_EQ(found.reports[n].date, session.reports[n].date);
        EXPECT_EQ(found.reports[n].conventions, session.reports[n].conventions);
        EXPECT_EQ(found.reports[n].problem, found.problem);  // by a fingerprint that outlives the file
      }
      const GpuFigures& gpu = *found.reports[1].report->gpu;
      EXPECT_EQ(gpu.fastest, 0.1 - 1e-17);
      EXPECT_EQ(gpu.slowest, 1.0 / 3);
      EXPECT_EQ(gpu.peak_run_bytes, (std::int64_t{1} << 53) + 1);
      EXPECT_EQ((*gpu.counted)[Operand::bias].written, 210);
      EXPECT_EQ(gpu.measured->dram_read, 25165825.5);
      EXPECT_EQ(gpu.measured->bank_conflicts, kInf);
      EXPECT_EQ(gpu.measured->passes, 3);
      EXPECT_EQ(gpu.measured->dram_written_idle, 4096.5);
      EXPECT_EQ(gpu.measured_warm->dram_read, 0.5);
      EXPECT_FALSE(gpu.measured_warm->dram_written_idle);
      EXPECT_EQ(gpu.l2_bytes, 62914560);
      ASSERT_EQ(gpu.timeline->spans.size(), 2u);
      EXPECT_EQ(gpu.timeline->spans[0].end_ns, std::int64_t{1} << 60);
      EXPECT_EQ(gpu.timeline->spans[1].i, 4);
      EXPECT_EQ(gpu.timeline->lost, 9);
      EXPECT_FALSE(found.reports[2].report->gpu->measured);
      EXPECT_EQ(found.reports[2].report->gpu->not_measured, "no permission");

      // Whatever else a report holds: written again it gives the same file.
      write_session(folder / "b.fscope", found);
      EXPECT_EQ(content(folder / "b.fscope"), content(folder / "a.fscope"));
    }
}

TEST(SessionFile, AReportIsOfTheVeryProblemOrOfNone) {
  const Folder folder;
  const auto problem = awkward_problem(DType::float32, file_masks(4));
  SessionFile session = whole_session(problem);
  session.reports[1].problem = with_scale(problem, 0.2);
  session.reports[2].problem.reset();
  write_session(folder / "a.fscope", session);
  SessionFile found = read_session(folder / "a.fscope");
  EXPECT_EQ(found.reports[0].problem, found.problem);
  EXPECT_FALSE(found.reports[1].problem);
  EXPECT_FALSE(found.reports[2].problem);
  EXPECT_TRUE(found.reports[1].fingerprint);
  EXPECT_FALSE(found.reports[2].fingerprint);
  found.problem = with_scale(found.problem, 0.2);  // the second one's
  write_session(folder / "b.fscope", found);
  found = read_session(folder / "b.fscope");
  EXPECT_FALSE(found.reports[0].problem);
  EXPECT_EQ(found.reports[1].problem, found.problem);
  // A file of an older program says nothing.
  auto json = files::session_to_json(found);
  for (auto& report : json["reports"]) report.erase("problem");
  for (const SavedReport& saved : files::session_from_json(json, "old").saved) EXPECT_FALSE(saved.fingerprint);
}

TEST(SessionFile, ReportsNeedNoProblem) {
  const Folder folder;
  SessionFile session = whole_session(awkward_problem(DType::float32, {}));
  session.problem.reset();
  write_session(folder / "a.fscope", session);
  const SessionFile found = read_session(folder / "a.fscope");
  EXPECT_FALSE(found.problem);
  EXPECT_EQ(found.reports.size(), 3u);
  ProblemFiles files;
  files.input = folder / "a.fscope";
  EXPECT_THAT(fault([&] { load_problem(files); }), HasSubstr("a session of reports only"));
}

TEST(SessionFile, IsAProblemFileToo) {
  const Folder folder;
  const auto problem = awkward_problem(DType::bfloat16, file_masks(4));
  write_session(folder / "a.fscope", whole_session(problem));
  ProblemFiles files;
  files.input = folder / "a.fscope";
  const auto loaded = load_problem(files).problem;
  EXPECT_EQ(loaded->scale, problem->scale);
  EXPECT_EQ(loaded->name, problem->name);
  EXPECT_EQ(loaded->mask.causal, Causal::bottom_right);
  EXPECT_EQ(loaded->mask.window, problem->mask.window);
  EXPECT_TRUE(same_bits(loaded->mask.keep->bits, problem->mask.keep->bits));
  expect_same(loaded->K(), problem->K());
  expect_same(*loaded->given_O, *problem->given_O);
  files.head = 3, files.causal = Causal::top_left, files.scale = 2;  // what is asked for wins
  const auto other = load_problem(files).problem;
  EXPECT_EQ(other->Q().heads, 1);
  EXPECT_EQ(other->scale, 2);
  EXPECT_EQ(other->mask.causal, Causal::top_left);
  EXPECT_FALSE(other->mask.window);
}

// By a program that knew cold caches only, and that did not count NaN rows by side.
TEST(SessionFile, AnOlderReportOpens) {
  const SessionFile session = whole_session(awkward_problem(DType::float32, {}));
  nlohmann::ordered_json json = files::session_to_json(session);
  const NanRows& nan = session.reports[0].report->error->nan.value();
  EXPECT_GT(nan.both, 0);  // of the NaN in Q
  EXPECT_EQ(files::session_from_json(json, "new").reports[0].error->nan->both, nan.both);
  ASSERT_EQ(json["reports"][0]["error"].erase("nan"), 1u);
  EXPECT_FALSE(files::session_from_json(json, "old").reports[0].error->nan);
  nlohmann::ordered_json& gpu = json["reports"][1]["gpu"];
  ASSERT_EQ(gpu.erase("measured_warm") + gpu.erase("l2_bytes") + gpu["measured"].erase("dram_written_idle"), 3u);
  const files::SessionFacts facts = files::session_from_json(json, "session.json");
  const GpuFigures& found = facts.reports[1].gpu.value();
  EXPECT_EQ(found.measured->dram_read, 25165825.5);
  EXPECT_FALSE(found.measured->dram_written_idle);
  EXPECT_FALSE(found.measured_warm);
  EXPECT_FALSE(found.input_caches(1));
  gpu.erase("not_measured");  // what every program writes
  EXPECT_THAT(fault([&] { files::session_from_json(json, "session.json"); }), HasSubstr("no \"not_measured\""));
}

Mask rule_masks() {
  Mask mask;
  mask.rules = make_rules({.lengths = {23, 5, 19, 11},
                           .document_ids = {1, 1, 1, 1, 1, 1, 1, 1, 7, 7, 7, 7, 7, 7, 7, 3, 3, 3, 3, 3, 3, 3, 3},
                           .prefix = 4,
                           .alibi = {0.5, 0.1, 1.0 / 3, 0},
                           .softcap = 5},
                          4, {}, 19, 23, false);
  return mask;
}
void expect_same(const MaskRules& found, const MaskRules& expected) {
  EXPECT_EQ(found.lengths, expected.lengths);
  ASSERT_TRUE(found.documents);
  EXPECT_EQ(found.documents->rows, expected.documents->rows);
  EXPECT_EQ(found.documents->keys, expected.documents->keys);
  EXPECT_EQ(found.documents->last, expected.documents->last);
  EXPECT_EQ(found.prefix, expected.prefix);
  EXPECT_EQ(found.alibi, expected.alibi);
  EXPECT_EQ(found.softcap, expected.softcap);
}

TEST(SessionFile, MasksByRuleComeBackBothWays) {
  const Folder folder;
  const auto problem = awkward_problem(DType::float32, rule_masks());
  write_session(folder / "a.fscope", whole_session(problem));
  expect_same(read_session(folder / "a.fscope").problem->mask.rules, problem->mask.rules);
  ProblemFiles files;
  files.input = folder / "a.fscope";
  expect_same(load_problem(files).problem->mask.rules, problem->mask.rules);

  MaskRules expected = problem->mask.rules;
  expected.lengths = {19}, expected.alibi = {1.0 / 3}, expected.softcap = 9;  // one head's; what is asked for wins
  files.head = 2, files.rules.softcap = 9;
  expect_same(load_problem(files).problem->mask.rules, expected);
  files.rules.lengths = {3}, files.rules.prefix = 0, files.rules.alibi = {2};
  files.rules.document_ids.assign(23, 4);
  const MaskRules asked = load_problem(files).problem->mask.rules;
  EXPECT_EQ(asked.lengths, std::vector<std::int64_t>{3});
  EXPECT_EQ(asked.prefix, 0);
  EXPECT_EQ(asked.alibi, std::vector<double>{2});
  EXPECT_EQ(asked.documents->keys, std::vector<std::int64_t>(23, 4));
}

// session.json with one edit, and the arrays as they are.
Bytes edited(const std::filesystem::path& path, const std::function<void(nlohmann::json&)>& edit) {
  const TensorFile file = TensorFile::open(path);
  std::vector<Member> members;
  for (const ArrayInfo& info : file.arrays()) {
    std::vector<float> floats;
    for (const double value : values(file.read(info.name))) floats.push_back(static_cast<float>(value));
    members.push_back(stored(info.name + ".npy", floats_npy(shape_text(info.shape), floats)));
  }
  nlohmann::json json = {{"format", "flashscope session"}, {"version", 1}, {"problem", nullptr}};
  edit(json);
  members.push_back(squeezed("session.json", json.dump()));
  return zip(members);
}

TEST(SessionFile, FaultsSayWhereAndWhatWasExpected) {
  const Folder folder;
  SessionFile session = whole_session(awkward_problem(DType::float32, {}));
  write_session(folder / "a.fscope", session);
  const Bytes whole = content(folder / "a.fscope");
  const auto fault_of = [&](const std::function<void(nlohmann::json&)>& edit) {
    const auto path = folder.put("edited.fscope", edited(folder / "a.fscope", edit));
    return fault([&] { read_session(path); });
  };
  EXPECT_THAT(fault_of([](auto& json) { json["format"] = "other"; }),
              HasSubstr("session.json: format: found \"other\", expected \"flashscope session\""));
  EXPECT_THAT(fault_of([](auto& json) { json["version"] = 2; }),
              HasSubstr("session.json: version: found 2, expected 1 to 1: a newer flashscope wrote it"));
  EXPECT_THAT(fault_of([](auto& json) { json.erase("problem"); }), HasSubstr("found no \"problem\", expected one"));
  EXPECT_THAT(fault_of([](auto& json) {
                json["recipe"] = {{"algorithm", "flash9"}};
              }),
              HasSubstr("session.json: recipe.algorithm: found"));
  EXPECT_THAT(fault_of([](auto& json) {
                json["recipe"] = {{"algorithm", "flash1"}, {"br", 0.5}};
              }),
              HasSubstr("session.json: recipe.br: found 0.5, expected a whole number"));
  EXPECT_THAT(fault_of([](auto& json) { json["recipe"] = 3; }), HasSubstr("recipe: found 3, expected a JSON object"));
  // However deep, it is refused and not followed down.
  for (const std::size_t depth : {std::size_t{100}, std::size_t{400'000}}) {
    const Bytes lists = Bytes(depth, '[') + Bytes(depth, ']');
    for (const Bytes& text : {lists, "{\"format\": " + lists + "}", Bytes(depth, '[')}) {
      const auto path = folder.put("deep.fscope", zip({squeezed("session.json", text)}));
      EXPECT_THAT(fault([&] { read_session(path); }), HasSubstr("more than 64, expected at most 64"));
    }
  }

  const auto huge = folder.put("huge.fscope", zip({stored("session.json", "{\"version\": 1e999}")}));
  EXPECT_THAT(fault([&] { read_session(huge); }), HasSubstr("a number beyond float64"));
  // Rules that no problem can have are refused by both readers.
  const auto fault_of_rules = [&](const std::function<void(MaskRules&)>& change) {
    SessionFile other = session;
    auto problem = std::make_shared<Problem>(*session.problem);
    change(problem->mask.rules);
    other.problem = problem;
    write_session(folder / "rules.fscope", other);
    ProblemFiles files;
    files.input = folder / "rules.fscope";
    const std::string loaded = fault([&] { load_problem(files); });
    EXPECT_EQ(fault([&] { read_session(files.input); }), loaded);
    return loaded;
  };
  EXPECT_THAT(fault_of_rules([](MaskRules& rules) { rules.softcap = -3; }), HasSubstr("softcap: found -3"));
  EXPECT_THAT(fault_of_rules([](MaskRules& rules) { rules.lengths = {1, 2, 3}; }), HasSubstr("of each of 4 heads"));
  EXPECT_THAT(fault_of_rules([](MaskRules& rules) { rules.alibi = {kInf}; }), HasSubstr("slope inf"));
  EXPECT_THAT(fault_of_rules([](MaskRules& rules) { rules.prefix = 24; }), HasSubstr("prefix: found 24"));

  EXPECT_THAT(fault([&] { read_session(folder / "nowhere.fscope"); }), HasSubstr("no such file"));
  EXPECT_THAT(fault([&] { read_session(data("numpy/stored.npz")); }), HasSubstr("a zip without session.json"));
  EXPECT_FALSE(is_session(data("numpy/stored.npz")));
  EXPECT_FALSE(is_session(folder / "nowhere.fscope"));
  EXPECT_THAT(fault([&] { read_session(folder / "a.fscope", 1000); }), HasSubstr("at most 1000, the memory setting"));

  // Cut short anywhere, or with one byte changed anywhere: an InputError, or the same session where the byte does not
  // matter (a date, a field that is not read); never anything else.
  for (std::size_t size = 0; size < whole.size(); size += 997) {
    const auto path = folder.put("cut.fscope", whole.substr(0, size));
    fault([&] { read_session(path); });
  }
  std::int64_t refused = 0, tried = 0;
  for (std::size_t at = 0; at < whole.size(); at += 211, ++tried) {
    Bytes changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x55);
    const auto path = folder.put("changed.fscope", changed);
    try {
      const SessionFile found = read_session(path);
      expect_same(found.problem->Q(), session.problem->Q());
    } catch (const InputError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, tried / 2);
}

TEST(SessionFile, AFailedWriteLeavesWhatWasThere) {
  const Folder folder;
  SessionFile session = whole_session(awkward_problem(DType::float32, {}));
  write_session(folder / "a.fscope", session);
  const Bytes first = content(folder / "a.fscope");
  std::stop_source source;
  source.request_stop();
  EXPECT_THROW(write_session(folder / "a.fscope", session, source.get_token()), Cancelled);
  session.window = "[1]";
  EXPECT_THAT(fault([&] { write_session(folder / "a.fscope", session); }), HasSubstr("expected a JSON object"));
  EXPECT_EQ(content(folder / "a.fscope"), first);
  EXPECT_FALSE(std::filesystem::exists(folder / "a.fscope.part"));
  session.window.clear();
  EXPECT_THAT(fault([&] { write_session("/nowhere/a.fscope", session); }), HasSubstr("/nowhere/a.fscope"));
  std::int64_t last = 0;
  write_session(folder / "a.fscope", session, {}, [&](std::int64_t done, std::int64_t total) {
    EXPECT_GE(done, last);
    EXPECT_LE(done, total);
    last = done;
  });
  EXPECT_GT(last, 0);
}

TEST(SessionFile, MeasuredSweepsComeBackWithoutAProblem) {
  const Folder folder;
  const std::filesystem::path path = folder / "s.fscope";
  const Shape shape{.heads = 2, .kv_heads = 1, .Nq = 300, .Nk = 400, .d = 64, .dv = 32, .type = DType::bfloat16};
  MeasuredSweep sweep;
  sweep.on = measured_on_h200(), sweep.date = "2026-11-30T13:00:00Z", sweep.version = "0.1.0", sweep.seed = 7;
  sweep.points.push_back(measured_point(asked_point(shape, 128, 64, Causal::bottom_right)));
  sweep.points.back().gpu = gpu_figures();
  sweep.points.back().gpu->timeline.reset();
  sweep.points.push_back(asked_point(shape, 256, 256));
  sweep.points.back().failed = "328,000 bytes of \"shared\" memory";
  sweep.points.push_back(measured_point(asked_point(shape, 64, 16)));
  sweep.points.back().gpu->measured.reset(), sweep.points.back().gpu->not_measured = "no permission";
  SessionFile session;
  session.sweeps = {sweep, sweep};
  session.sweeps[1].seed = 8;
  write_session(path, session);
  EXPECT_TRUE(is_session(path));
  const SessionFile found = read_session(path);
  EXPECT_FALSE(found.problem);
  ASSERT_EQ(found.sweeps.size(), 2u);
  EXPECT_EQ(found.sweeps[1].seed, 8);
  const MeasuredSweep& back = found.sweeps[0];
  EXPECT_EQ(back.on, sweep.on);
  EXPECT_EQ(back.date, sweep.date);
  EXPECT_EQ(back.version, sweep.version);
  ASSERT_EQ(back.points.size(), 3u);
  for (std::size_t n = 0; n < 3; ++n)  // every field, bit for bit: numbers are written to be read back
    EXPECT_EQ(files::point_to_json(back.points[n]), files::point_to_json(sweep.points[n])) << n;
  EXPECT_EQ(back.points[0].gpu->median, sweep.points[0].gpu->median);
  EXPECT_EQ(back.points[1].failed, sweep.points[1].failed);
  EXPECT_EQ(back.points[0].mask.causal, Causal::bottom_right);
}

}  // namespace
}  // namespace flashscope
