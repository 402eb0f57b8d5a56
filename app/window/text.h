// How numbers and places are written in the window: digits grouped, NaN and infinities by name.
#pragma once

#include <QString>
#include <cstdint>
#include <string_view>

#include "engine/attention/schedule.h"

namespace flashscope::window {

QString text(std::string_view utf8);
QString grouped(std::int64_t value);                                             // "1,445,888"
QString counted(std::int64_t n, const QString& what, const QString& many = {});  // "1 row", "2,048 rows"
QString bytes_text(std::int64_t bytes);                                          // "1,445,888 bytes (1.38 MiB)"
QString short_bytes(std::int64_t bytes);                                         // "1.38 MiB"
QString number(double value, int digits = 5);                                    // "9.9432", "NaN", "-inf"
QString stage_text(Stage stage);                                                 // "load q"
QString place_text(const Step& step);                                            // "i 5, j 3: rescale"

}  // namespace flashscope::window
