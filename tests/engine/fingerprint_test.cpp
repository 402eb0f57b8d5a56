// A fingerprint moves with every number that a run computes from, and with nothing else.
#include "engine/attention/fingerprint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "engine/error.h"
#include "tests/engine/support.h"

namespace flashscope {
namespace {

Mask every_mask() {
  Mask mask;
  mask.causal = Causal::top_left, mask.window = Window{3, 1};
  KeepMask keep = make_keep_mask(1, 9, 7);
  set_keep(keep, 0, 2, 3);
  mask.keep = std::make_shared<const KeepMask>(std::move(keep));
  Bias bias;
  bias.cols = 7, bias.f32.assign(7, 0.5F);
  mask.bias = std::make_shared<const Bias>(std::move(bias));
  mask.rules.lengths = {7, 5}, mask.rules.prefix = 2, mask.rules.alibi = {0.5, 0.25}, mask.rules.softcap = 4;
  mask.rules.documents = std::make_shared<const Documents>(make_documents(
      {
          0,
          0,
          0,
          0,
          0,
          1,
          1,
          1,
          1,
      },
      {0, 0, 0, 0, 1, 1, 1}));
  return mask;
}

TEST(Fingerprint, MovesWithEveryNumber) {
  const Shape shape{.heads = 2, .kv_heads = 1, .Nq = 9, .Nk = 7, .d = 4, .dv = 3, .type = DType::float32};
  const auto problem = random_problem(shape, 3, 0.1, every_mask());
  std::set<std::string> seen{fingerprint(*problem)};
  EXPECT_EQ(seen.begin()->size(), 16u);
  const auto expect_other = [&](const char* what, const std::function<void(Problem&)>& change) {
    Problem other = *problem;
    change(other);
    EXPECT_TRUE(seen.insert(fingerprint(other)).second) << what;
  };
  const auto changed = [](const auto& from, const auto& change) {
    auto copy = *from;
    change(copy);
    return std::make_shared<const std::remove_const_t<decltype(copy)>>(std::move(copy));
  };
  for (auto part : {&Problem::q, &Problem::k, &Problem::v})
    for (const std::size_t n : {std::size_t{0}, std::size_t{20}})
      expect_other("a tensor", [&](Problem& p) { p.*part = changed(p.*part, [n](Tensor& t) { t.f32[n] += 1e-6F; }); });
  expect_other("type", [&](Problem& p) { p.q = changed(p.q, [](Tensor& t) { t.type = DType::float16; }); });
  expect_other("scale", [](Problem& p) { p.scale = std::nextafter(p.scale, 1); });
  expect_other("causal", [](Problem& p) { p.mask.causal = Causal::bottom_right; });
  expect_other("window", [](Problem& p) { p.mask.window->right = 2; });
  expect_other("no window", [](Problem& p) { p.mask.window.reset(); });
  expect_other("keep",
               [&](Problem& p) { p.mask.keep = changed(p.mask.keep, [](KeepMask& m) { set_keep(m, 0, 8, 6); }); });
  expect_other("no keep", [](Problem& p) { p.mask.keep.reset(); });
  expect_other("bias", [&](Problem& p) { p.mask.bias = changed(p.mask.bias, [](Bias& b) { b.f32[6] = -0.5F; }); });
  expect_other("a NaN", [&](Problem& p) { p.mask.bias = changed(p.mask.bias, [](Bias& b) { b.f32[6] = NAN; }); });
  expect_other("lengths", [](Problem& p) { p.mask.rules.lengths[1] = 6; });
  expect_other("prefix", [](Problem& p) { p.mask.rules.prefix = 3; });
  expect_other("alibi", [](Problem& p) { p.mask.rules.alibi[0] = 0.125; });
  expect_other("softcap", [](Problem& p) { p.mask.rules.softcap = 0; });
  expect_other("documents", [&](Problem& p) {
    p.mask.rules.documents = changed(p.mask.rules.documents, [](Documents& d) { d.keys[3] = 1; });
  });

  Problem same = *problem;  // copies, another name, an answer that came with it
  same.q = changed(same.q, [](Tensor&) {});
  same.mask.keep = changed(same.mask.keep, [](KeepMask&) {});
  same.name = "another", same.given_O = same.q;
  EXPECT_EQ(fingerprint(same), fingerprint(*problem));
  for (const float nan : {std::nanf("1"), -std::nanf("77")}) {
    Problem with_nan = *problem;
    with_nan.q = changed(with_nan.q, [nan](Tensor& t) { t.f32[1] = nan; });
    seen.insert(fingerprint(with_nan));
  }
  EXPECT_EQ(seen.size(), 22u);  // both NaN are one

  std::stop_source source;
  source.request_stop();
  EXPECT_THROW(fingerprint(*problem, source.get_token()), Cancelled);
}

}  // namespace
}  // namespace flashscope
