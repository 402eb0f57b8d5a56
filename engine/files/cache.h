// What the program keeps on disk between starts and can make again: compiled kernels, measured points. Under
// $XDG_CACHE_HOME/flashscope, else ~/.cache/flashscope. A cache that cannot be read or written is no error.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace flashscope {

std::filesystem::path cache_folder();  // empty where there is no place for one

// A name of 32 hexadecimal digits that stands for all the parts.
std::string cache_name(std::span<const std::string> parts);

// The whole file, or nothing.
std::optional<std::string> read_cached(const std::filesystem::path& path);
// Written beside its place and renamed when it is whole, so that readers of other processes never see half of it.
void write_cached(const std::filesystem::path& path, std::string_view bytes);

}  // namespace flashscope
