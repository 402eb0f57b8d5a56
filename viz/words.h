// Numbers and names as they are written on the stage.
#pragma once

#include <cstdint>
#include <string>

#include "viz/heat_image.h"
#include "viz/stage.h"

namespace flashscope::viz {

std::string number(double value);             // 4 significant digits; "NaN", "inf", "-inf"
std::string exact(DType type, double value);  // enough digits to tell neighbours of the type apart
std::string bytes(std::int64_t count);        // "8 KiB"
std::string count(std::int64_t value);        // "1,445,888"
std::string label(TraceStage stage);          // "load K"
std::string label(ChipBuffer buffer);
std::string label(Algorithm algorithm);                                     // "flash2"
std::string loop_order(const Recipe& recipe);                               // "Q outside, reverse"
std::string tile_name(const Schedule& schedule, const Transfer& transfer);  // "K3"
std::string masked_scores(const Recipe& recipe);           // what masked scores become: "-inf", "-10000", "-inf added"
DType type_of(const Problem& problem, ChipBuffer buffer);  // of the numbers in that buffer
double written(const StageData& data, ChipBuffer buffer, double value);  // LSE in its convention; else the value

}  // namespace flashscope::viz
