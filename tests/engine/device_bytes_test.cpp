#include "engine/attention/device_bytes.h"

#include <gtest/gtest.h>

#include "engine/attention/gpu_figures.h"

namespace flashscope {
namespace {

constexpr Shape kShape{.heads = 4, .kv_heads = 2, .Nq = 100, .Nk = 130, .d = 32, .dv = 64, .type = DType::float16};

// What a mask takes is what the planes take that `lowered` makes for the device.
TEST(DeviceBytes, MasksAreThePlanesThatAreMade) {
  MaskRules lengths, each_length, documents, prefix, alibi, alibi_of_all;
  lengths.lengths = {70}, each_length.lengths = {1, 2, 3, 4};
  documents.documents = std::make_shared<const Documents>(
      make_documents(std::vector<std::int64_t>(kShape.Nk, 1), kShape.Nq, kShape.Nk, false));
  prefix.prefix = 7;
  alibi.alibi = {0.5}, alibi_of_all.alibi = {0.5, 0.25, 0.125, 0.0625};
  auto keep = std::make_shared<const KeepMask>(make_keep_mask(4, kShape.Nq, kShape.Nk));
  auto bias = std::make_shared<Bias>();
  bias->cols = kShape.Nk, bias->f32.assign(static_cast<std::size_t>(kShape.Nk), 0);

  for (const MaskRules& rules : {MaskRules{}, lengths, each_length, documents, prefix, alibi, alibi_of_all}) {
    for (const bool with_keep : {false, true}) {
      for (const bool with_bias : {false, true}) {
        Mask mask;
        mask.causal = Causal::top_left, mask.rules = rules;
        if (with_keep) mask.keep = keep;
        if (with_bias) mask.bias = bias;
        SCOPED_TRACE(text(rules) + (with_keep ? ", keep" : "") + (with_bias ? ", bias" : ""));
        const Mask planes = lowered(mask, kShape.heads, kShape.Nq, kShape.Nk);
        std::int64_t bytes = 0;
        if (planes.keep) bytes += planes.keep->heads * planes.keep->rows * planes.keep->cols;
        if (planes.bias) bytes += 4 * planes.bias->heads * planes.bias->rows * planes.bias->cols;
        EXPECT_EQ(device_bytes(kShape, mask, {}).masks, bytes);
      }
    }
  }
}

TEST(DeviceBytes, EveryPartByFormula) {
  Recipe standard;
  standard.algorithm = Algorithm::standard;
  const DeviceBytes bytes = device_bytes(kShape, {}, standard);
  EXPECT_EQ(bytes.tensors, 2 * (4 * 100 * 32 + 2 * 130 * (32 + 64)));
  EXPECT_EQ(bytes.outputs, 4 * 100 * (64 * 2 + 4) + 2 * 2 * 4 * 100 * 130);
  EXPECT_EQ(bytes.workspace, kProductsWorkspaceBytes);
  EXPECT_EQ(bytes.total(), bytes.tensors + bytes.outputs + bytes.workspace);
  EXPECT_EQ(text(device_bytes(kShape, {}, {})),
            "75520 bytes of Q, K, V and 52800 bytes of outputs, running state, S and P");
  Shape vast = kShape;
  vast.Nq = vast.Nk = std::int64_t{1} << 40;
  EXPECT_GT(device_bytes(vast, {}, standard).total(), std::int64_t{1} << 61);
}

}  // namespace
}  // namespace flashscope
