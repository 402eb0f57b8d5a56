// What another kernel computed for a problem: O, and LSE, m and l where it gave them. From an .npy (O alone), or from
// an .npz or .safetensors with arrays named o, lse, m, l.
//
// O may be (heads, Nq, dv), with a batch before it, or in layout nhd (Nq, heads, dv) or (Nq, heads dv); of one head
// also (Nq, dv). LSE, m and l have one number a row: (heads, Nq), or (Nq, heads) with layout nhd.
#pragma once

#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/attention/lse_convention.h"
#include "engine/attention/problem.h"
#include "engine/files/problem_file.h"

namespace flashscope {

// How an array was read: "o", "(Nq, heads, dv)".
struct ReadAs {
  std::string role, layout;
  std::string also;  // another layout that its shape fits as well; mostly empty
};

struct KernelOutput {
  std::string name;             // of the file
  DType type = DType::float32;  // of O, as the file stores it or as OutputFile::type says
  bool type_given = false;      // the latter
  Buffer<double> O;             // heads x Nq x dv of the problem
  Buffer<double> LSE, m, l;     // heads x Nq each, LSE as a natural log; empty where the file has none
  LseConvention lse;            // how the file's LSE was read
  std::vector<ReadAs> read_as;  // O first
};

struct OutputFile {
  std::filesystem::path path;
  std::optional<Layout> layout;  // unset: hnd, or nhd where only that fits
  std::int64_t batch = 0;
  std::optional<DType> type;         // of O, whatever the file stores; bfloat16 takes 16-bit integers as its bits
  LseConvention lse;                 // of its LSE
  std::optional<std::int64_t> head;  // of a file with all heads, for a problem of one: this query head
  std::int64_t memory_limit = std::int64_t{8} << 30;  // bytes
};

// For a problem of that shape. Throws InputError, Cancelled.
KernelOutput load_output(const OutputFile& file, const Shape& shape, const std::stop_token& stop = {},
                         const ReadProgress& progress = {});

}  // namespace flashscope
