// The ledger: what each step moves across the HBM boundary, and the closed form it must equal.
//
// Reads the walk, never the numbers. Nothing is reused between tiles; a partial tile counts whole; GQA
// reads K, V once per query head. `source` units count elements (the papers' tables); `kernel` units
// count bytes: Q K V S P O the problem's type, flash1's running O and m, l, LSE float32 (all float64
// for float64). `counted` adds up the walk; `formula` is a closed form (floor sums under a mask); the
// two share no code.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/attention/schedule.h"

namespace flashscope {

enum class Operand : std::uint8_t { Q, K, V, O, m, l, LSE, S, P, mask, bias };
inline constexpr int kOperands = 11;
std::string_view name(Operand operand);

struct Moved {
  std::int64_t read = 0, written = 0;  // HBM -> chip, chip -> HBM
  std::int64_t total() const { return read + written; }
  Moved& operator+=(const Moved& other) {
    read += other.read, written += other.written;
    return *this;
  }
  bool operator==(const Moved&) const = default;
};

struct Traffic {
  std::array<Moved, kOperands> by_operand{};
  Moved& operator[](Operand o) { return by_operand[static_cast<std::size_t>(o)]; }
  const Moved& operator[](Operand o) const { return by_operand[static_cast<std::size_t>(o)]; }
  Moved total() const;
  Traffic& operator+=(const Traffic& other);
  bool operator==(const Traffic&) const = default;
};

struct ElementsAndBytes {
  Traffic elements;  // source units
  Traffic bytes;     // kernel units
};

// One transfer of one step: what moves, from where in HBM.
struct Transfer {
  Operand operand = Operand::Q;
  bool read = true;                           // HBM -> chip
  std::int64_t row0 = 0, rows = 0, cols = 0;  // rows of the operand that move (S, P, mask: col0 too)
  std::int64_t col0 = 0;
  std::int64_t elements = 0, bytes = 0;
};
// What step(k) moves; empty for compute stages. At most 6 entries.
std::vector<Transfer> transfers(const Schedule& schedule, const Step& step);

// Counted: the sum of transfers() over steps [0, K), by walking row blocks or column blocks rather
// than steps. Exact. O(Tr + Tc) for structural masks.
ElementsAndBytes counted(const Schedule& schedule, std::int64_t K);
ElementsAndBytes counted(const Schedule& schedule);  // the whole run

// Closed form of the whole run in elements. Null where there is none (skip=all with a file mask),
// with the reason.
struct Formula {
  std::optional<Moved> elements;
  std::string text;    // "Nq (d + dv + 1) + sum over tiles visited of bc (d + dv)"
  std::string reason;  // why there is none
};
Formula formula(const Schedule& schedule);
std::int64_t formula_tiles(const Schedule& schedule);  // visited tiles, closed form; -1 where there is none

// Setting up O, l, m for flash1: outside the total, a line of its own.
Moved init_elements(const Shape& shape, const Recipe& recipe);
// The I/O lower bound: Q, K, V (per kv head) and O once each. Elements and bytes; never "measured".
struct Minimum {
  Moved elements, bytes;
};
Minimum minimum(const Shape& shape);
// Standard attention's traffic for the same problem: 4 Nq Nk + (Nq + Nk)(d + dv) per head.
Moved standard_elements(const Shape& shape);
// How much of (standard - this run) is tiling and how much is skipped tiles, in elements: the same
// recipe without a mask is compared first.
struct Saving {
  std::int64_t standard = 0, unmasked = 0, run = 0;  // elements, total
  std::int64_t by_tiling() const { return standard - unmasked; }
  std::int64_t by_skipping() const { return unmasked - run; }
};
Saving saving(const Schedule& schedule);

std::int64_t matmul_flops(const Schedule& schedule);  // 2 br bc (d + dv) per visited tile, all heads

// Bytes on chip for one thread block. State: m, l, alpha, O. Scores: 0 where they stay in registers.
struct OnChip {
  struct BufferInfo {
    std::string_view name;  // "Q", "K", "V", "S/P", "m", "l", "alpha", "O"
    std::int64_t bytes = 0;
    bool registers = false;  // else shared memory
  };
  std::int64_t qkv = 0, state = 0, scores = 0;
  std::int64_t total() const { return qkv + state + scores; }
  std::vector<BufferInfo> buffers;
};
OnChip on_chip(const Shape& shape, const Recipe& recipe, int pipeline_stages = 1);

// HBM footprint of one algorithm: bytes that must be allocated, by operand. All heads.
struct Footprint {
  std::array<std::int64_t, kOperands> bytes{};
  std::int64_t total() const;
  std::int64_t extra() const;  // beyond Q, K, V, O
};
Footprint footprint(const Shape& shape, Algorithm algorithm);

}  // namespace flashscope
