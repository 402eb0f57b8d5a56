#include "engine/files/output_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "engine/error.h"
#include "engine/files/loading.h"

namespace flashscope {
namespace {

using Dims = std::vector<std::int64_t>;

// How one array lies: element (head, row, e) is at first + head * head_step + row * row_step + e.
struct Lie {
  std::int64_t first = 0, head_step = 0, row_step = 0;
  std::string layout;  // in words
};

class OutputLoader {
 public:
  OutputLoader(const OutputFile& wanted, const Shape& shape) : wanted_(wanted), shape_(shape) {}

  KernelOutput load(const std::stop_token& stop, const ReadProgress& progress) {
    file_ = std::make_shared<const TensorFile>(TensorFile::open(wanted_.path));
    if (!wanted_.layout) stated_ = files::stated_layout(*file_);
    const auto o = find("o", {"o", "out", "output", "attn_output", "attn_out"});
    if (!o) {
      std::vector<std::string> names;
      for (const ArrayInfo& info : file_->arrays()) names.push_back(info.name);
      throw InputError(wanted_.path.string(), fmt::format("arrays {}", fmt::join(names, ", ")),
                       "one named o (and lse, m, l if the kernel gives them), or one array alone");
    }
    KernelOutput output;
    output.name = wanted_.path.filename().string();
    output.type_given = wanted_.type.has_value();
    output.O = read(*o, shape_.dv, stop, progress, output.read_as, "o");
    output.type = wanted_.type ? *wanted_.type : files::number_type(*o);
    const auto optional = [&](const char* role, const std::vector<std::string_view>& names, Buffer<double>& values) {
      if (const auto source = find(role, names)) values = read(*source, 1, stop, progress, output.read_as, role);
    };
    optional("lse", {"lse", "softmax_lse", "logsumexp"}, output.LSE);
    optional("m", {"m", "row_max"}, output.m);
    optional("l", {"l", "row_sum"}, output.l);
    output.lse = wanted_.lse;
    for (double& lse : output.LSE) lse = natural_lse(wanted_.lse, lse);
    return output;
  }

 private:
  std::optional<files::Source> find(std::string_view role, const std::vector<std::string_view>& names) const {
    if (role == "o" && file_->arrays().size() == 1) return files::Source{file_, file_->arrays().front()};
    const auto roles = files::guess_roles(*file_);
    if (const auto guessed = roles.find(std::string(role)); guessed != roles.end())
      return files::Source{file_, *file_->find(guessed->second)};
    for (const std::string_view name : names)
      if (const ArrayInfo* info = file_->find(name)) return files::Source{file_, *info};
    return {};
  }

  // Whether that many heads are the problem's, and the first of them that is wanted.
  std::optional<std::int64_t> first_head(std::int64_t heads) const {
    if (heads == shape_.heads) return 0;
    if (shape_.heads == 1 && wanted_.head && *wanted_.head < heads) return *wanted_.head;
    return {};
  }

  // (heads, Nq, width) or (Nq, heads, width), whichever of the two `nhd` says; width 1 may be left out.
  std::optional<Lie> lies(Dims dims, std::int64_t width, bool nhd) const {
    std::string inner;  // what stands behind the heads and rows
    if (width == 1 && dims.size() > 1 && dims.back() == 1 && dims.size() > 2) dims.pop_back(), inner = ", 1";
    if (width > 1) {
      inner = ", dv";
      if (dims.empty()) return {};
      // Heads side by side in one row.
      if (nhd && dims.size() >= 2 && dims.back() != width && dims.back() % width == 0) {
        const std::int64_t heads = dims.back() / width;
        dims.back() = heads, dims.push_back(width);
        inner = " dv";
      }
      if (dims.back() != width) return {};
      dims.pop_back();
    }
    std::int64_t batch_size = width, batch = 0;
    for (const std::int64_t extent : dims) batch_size *= extent;
    if (dims.size() == 1 && shape_.heads == 1 && dims[0] == shape_.Nq) return Lie{0, 0, width, "(Nq" + inner + ")"};
    const bool batches = dims.size() == 3;
    if (batches) {
      if (wanted_.batch >= dims[0]) return {};
      batch_size /= dims[0], batch = wanted_.batch;
      dims.erase(dims.begin());
    }
    if (dims.size() != 2) return {};
    const std::int64_t heads = nhd ? dims[1] : dims[0], rows = nhd ? dims[0] : dims[1];
    const auto head = first_head(heads);
    if (!head || rows != shape_.Nq) return {};
    Lie lie;
    lie.head_step = nhd ? width : rows * width;
    lie.row_step = nhd ? heads * width : width;
    lie.first = batch * batch_size + *head * lie.head_step;
    lie.layout = fmt::format("({}{}{})", batches ? "batch, " : "", nhd ? "Nq, heads" : "heads, Nq", inner);
    return lie;
  }

  // `also`: another layout that fits as well.
  Lie place(const files::Source& source, std::int64_t width, std::string_view role, std::string& also) const {
    const Dims& dims = source.info.shape;
    const std::optional<Layout> layout = wanted_.layout ? wanted_.layout : stated_;
    // FlashAttention gives LSE as (batch, heads, N) whatever the layout of its tensors.
    std::vector<bool> orders = {false, true};
    if (layout) orders = {*layout == Layout::nhd};
    if (layout && width == 1) orders = {false, true};
    for (const bool nhd : orders)
      if (const auto lie = lies(dims, width, nhd)) {
        const auto other = nhd || orders.size() == 1 ? std::nullopt : lies(dims, width, true);
        if (other && other->layout != lie->layout && shape_.heads > 1) also = other->layout;
        return *lie;
      }
    std::string expected;
    if (width == 1)
      expected = shape_text(std::vector{shape_.heads, shape_.Nq}) + ": heads, Nq";
    else if (!layout || *layout == Layout::hnd)
      expected = shape_text(std::vector{shape_.heads, shape_.Nq, width}) + ": heads, Nq, dv of the problem";
    if (width > 1 && (!layout || *layout == Layout::nhd))
      expected += fmt::format("{}{}: Nq, heads, dv{}", layout ? "" : "; or ",
                              shape_text(std::vector{shape_.Nq, shape_.heads, width}), layout ? " of the problem" : "");
    if (dims.size() == 4 && wanted_.batch >= dims[0])
      throw InputError(source.where(), fmt::format("{} batches", dims[0]),
                       fmt::format("batch {} to exist (--batch)", wanted_.batch));
    throw InputError(source.where(), fmt::format("{} of shape {}", role, shape_text(dims)), expected);
  }

  Buffer<double> read(const files::Source& source, std::int64_t width, const std::stop_token& stop,
                      const ReadProgress& progress, std::vector<ReadAs>& read_as, std::string_view role) const {
    const ElementType stored = source.info.type;
    const bool bits16 = role == "o" && (stored == ElementType::uint16 || stored == ElementType::int16);
    if (bits16 && wanted_.type != DType::bfloat16)
      throw InputError(source.where(), "type " + std::string(name(stored)),
                       "float64, float32, float16 or bfloat16; --against-dtype bfloat16 takes it as the bits of those");
    if (!bits16) files::number_type(source);
    std::string also;
    const Lie lie = place(source, width, role, also);
    const std::int64_t bytes = source.info.elements() * 8 + shape_.heads * shape_.Nq * width * 8;
    if (bytes > wanted_.memory_limit)
      throw InputError(source.where(), fmt::format("{} bytes in memory", bytes),
                       fmt::format("at most {}, the memory setting", wanted_.memory_limit));
    const Array array = source.file->read(source.info.name, stop, progress);
    Buffer<double> values = make_buffer<double>(shape_.heads * shape_.Nq * width);
    for (std::int64_t h = 0, n = 0; h < shape_.heads; ++h)
      for (std::int64_t r = 0; r < shape_.Nq; ++r)
        for (std::int64_t e = 0; e < width; ++e, ++n)
          values[n] = array.at(lie.first + h * lie.head_step + r * lie.row_step + e);
    if (bits16)
      for (double& value : values)  // a bfloat16 is the upper half of a float32
        value = std::bit_cast<float>(static_cast<std::uint32_t>(static_cast<std::int64_t>(value)) << 16);
    read_as.push_back({std::string(role), lie.layout, also});
    return values;
  }

  const OutputFile& wanted_;
  Shape shape_;
  std::shared_ptr<const TensorFile> file_;
  std::optional<Layout> stated_;
};

}  // namespace

KernelOutput load_output(const OutputFile& file, const Shape& shape, const std::stop_token& stop,
                         const ReadProgress& progress) {
  return OutputLoader(file, shape).load(stop, progress);
}

}  // namespace flashscope
