#include "engine/insight/condition.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace flashscope {

using namespace condition;

ConditionError::ConditionError(std::size_t at, std::size_t length, const std::string& found,
                               const std::string& expected)
    : InputError(fmt::format("condition, character {}", at + 1), found, expected), at_(at), length_(length) {}

namespace {

constexpr int kDeepest = 64;  // of parentheses, so that no text can exhaust the stack
constexpr std::size_t kLongest = 4096;

struct NameEntry {
  std::string_view text;
  Name name;
  Over over;
};
constexpr std::array<NameEntry, 16> kNames = {{{"m", Name::m, Over::row},
                                               {"l", Name::l, Over::row},
                                               {"alpha", Name::alpha, Over::row},
                                               {"m_old", Name::m_old, Over::row},
                                               {"l_old", Name::l_old, Over::row},
                                               {"LSE", Name::LSE, Over::row},
                                               {"row_sum", Name::row_sum, Over::row},
                                               {"head", Name::head, Over::row},
                                               {"row", Name::row, Over::row},
                                               {"i", Name::i, Over::row},
                                               {"j", Name::j, Over::row},
                                               {"r", Name::r, Over::row},
                                               {"S", Name::S, Over::keys},
                                               {"P", Name::P, Over::keys},
                                               {"key", Name::key, Over::keys},
                                               {"O", Name::O, Over::channels}}};

struct FunctionEntry {
  std::string_view text;
  Op one, two, list;  // with one argument, with two, with one list; Op::number: not so
  bool wants_truth, gives_truth;
};
constexpr Op kNone = Op::number;
constexpr std::array<FunctionEntry, 12> kFunctions = {{{"abs", Op::abs, kNone, kNone, false, false},
                                                       {"exp", Op::exp, kNone, kNone, false, false},
                                                       {"log", Op::log, kNone, kNone, false, false},
                                                       {"sqrt", Op::sqrt, kNone, kNone, false, false},
                                                       {"isnan", Op::isnan, kNone, kNone, false, true},
                                                       {"isinf", Op::isinf, kNone, kNone, false, true},
                                                       {"isfinite", Op::isfinite, kNone, kNone, false, true},
                                                       {"min", kNone, Op::min, Op::min_of, false, false},
                                                       {"max", kNone, Op::max, Op::max_of, false, false},
                                                       {"sum", kNone, kNone, Op::sum_of, false, false},
                                                       {"any", kNone, kNone, Op::any_of, true, true},
                                                       {"all", kNone, kNone, Op::all_of, true, true}}};

struct Token {
  enum class Kind { number, word, sign, end } kind = Kind::end;
  std::size_t at = 0, length = 0;
  std::string_view text;
  double value = 0;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) { next(); }

  Condition parse() {
    if (text_.size() > kLongest)
      throw ConditionError(kLongest, text_.size() - kLongest, fmt::format("{} characters", text_.size()),
                           fmt::format("at most {}", kLongest));
    int root = expression();
    if (token_.kind != Token::Kind::end) fail("an operator, as in \"and\", \"<\" or \"+\"");
    if (!node(root).truth)
      throw ConditionError(0, text_.size(), "a number", "a comparison, as in \"m > 3\" or \"isnan(O)\"");
    if (node(root).over != Over::row) root = push({Op::any_of, root, -1, 0, Name::m, Over::row, true});
    condition_.text = text_;
    return std::move(condition_);
  }

 private:
  // ---- words
  void next() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    token_ = {Token::Kind::end, at_, 0, {}, 0};
    if (at_ == text_.size()) return;
    const char first = text_[at_];
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    const auto digit = [](char c) { return c >= '0' && c <= '9'; };
    std::size_t length = 1;
    if (letter(first)) {
      while (at_ + length < text_.size() && (letter(text_[at_ + length]) || digit(text_[at_ + length]))) ++length;
      token_.kind = Token::Kind::word;
    } else if (digit(first) || first == '.') {
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), token_.value);
      if (error == std::errc::invalid_argument) {
        token_.kind = Token::Kind::sign;
      } else {
        token_.kind = Token::Kind::number;
        length = static_cast<std::size_t>(end - text_.data()) - at_;
        if (error == std::errc::result_out_of_range)
          throw ConditionError(at_, length, fmt::format("\"{}\"", text_.substr(at_, length)),
                               "a number that float64 can hold");
      }
    } else {
      token_.kind = Token::Kind::sign;
      const std::string_view two = text_.substr(at_, 2);
      for (const std::string_view known : {"<=", ">=", "==", "!=", "&&", "||"})
        if (two == known) length = 2;
      while (at_ + length < text_.size() && (static_cast<unsigned char>(text_[at_ + length]) & 0xC0) == 0x80)
        ++length;  // the rest of a character of several bytes
    }
    token_.text = text_.substr(at_, length), token_.length = length;
    at_ += length;
  }
  bool is(std::string_view text) const { return token_.kind != Token::Kind::end && token_.text == text; }
  bool take(std::string_view text) {
    if (!is(text)) return false;
    next();
    return true;
  }
  [[noreturn]] void fail(const std::string& expected) const { fail_at(token_, expected); }
  [[noreturn]] static void fail_at(const Token& token, const std::string& expected) {
    throw ConditionError(token.at, std::max<std::size_t>(1, token.length),
                         token.kind == Token::Kind::end ? "the end" : fmt::format("\"{}\"", token.text), expected);
  }

  // ---- nodes
  int push(Node node) {
    condition_.nodes.push_back(node);
    return static_cast<int>(condition_.nodes.size()) - 1;
  }
  const Node& node(int n) const { return condition_.nodes[n]; }

  void want(int operand, bool truth, const Token& first) const {
    if (node(operand).truth == truth) return;
    const std::size_t length = std::max<std::size_t>(1, last_end() - first.at);
    throw ConditionError(first.at, length, truth ? "a number" : "true or false",
                         truth ? "a comparison, as in \"m > 3\"" : "a number");
  }
  std::size_t last_end() const {
    std::size_t end = std::min(token_.at, text_.size());
    while (end > 0 && text_[end - 1] == ' ') --end;
    return end;
  }

  Over join(int a, int b, const Token& where) const {
    const Over x = node(a).over, y = node(b).over;
    if (x != y && x != Over::row && y != Over::row)
      throw ConditionError(where.at, std::max<std::size_t>(1, last_end() - where.at),
                           "a list over keys beside one over channels",
                           "lists of one sort: S, P and key, or O; any(), max() or sum() make a number of one");
    return x == Over::row ? y : x;
  }
  int binary(Op op, int a, int b, bool truth, const Token& where) {
    return push({op, a, b, 0, Name::m, join(a, b, where), truth});
  }

  // ---- grammar
  int expression() {
    const Token first = token_;
    int left = conjunction();
    while (is("or") || is("||")) {
      want(left, true, first);
      next();
      const Token second = token_;
      const int right = conjunction();
      want(right, true, second);
      left = binary(Op::logical_or, left, right, true, first);
    }
    return left;
  }
  int conjunction() {
    const Token first = token_;
    int left = negation();
    while (is("and") || is("&&")) {
      want(left, true, first);
      next();
      const Token second = token_;
      const int right = negation();
      want(right, true, second);
      left = binary(Op::logical_and, left, right, true, first);
    }
    return left;
  }
  int negation() {
    if (!is("not") && !is("!")) return comparison();
    const Deeper deeper(*this);
    next();
    const Token first = token_;
    const int operand = negation();
    want(operand, true, first);
    return push({Op::logical_not, operand, -1, 0, Name::m, node(operand).over, true});
  }
  std::optional<Op> comparison_sign() const {
    constexpr std::array<std::pair<std::string_view, Op>, 6> kSigns = {{{"<", Op::less},
                                                                        {"<=", Op::less_equal},
                                                                        {">", Op::greater},
                                                                        {">=", Op::greater_equal},
                                                                        {"==", Op::equal},
                                                                        {"!=", Op::not_equal}}};
    for (const auto& [text, op] : kSigns)
      if (is(text)) return op;
    return {};
  }
  int comparison() {
    const Token first = token_;
    int left = sum();
    if (is("=")) fail("\"==\" to compare");
    const std::optional<Op> op = comparison_sign();
    if (!op) return left;
    want(left, false, first);
    next();
    const Token second = token_;
    const int right = sum();
    want(right, false, second);
    left = binary(*op, left, right, true, first);
    if (comparison_sign()) fail("\"and\" between two comparisons");
    return left;
  }
  int sum() {
    const Token first = token_;
    int left = product();
    while (is("+") || is("-")) left = arithmetic(is("+") ? Op::add : Op::subtract, left, first, &Parser::product);
    return left;
  }
  int product() {
    const Token first = token_;
    int left = unary();
    while (is("*") || is("/")) left = arithmetic(is("*") ? Op::multiply : Op::divide, left, first, &Parser::unary);
    return left;
  }
  int arithmetic(Op op, int left, const Token& first, int (Parser::*operand)()) {
    want(left, false, first);
    next();
    const Token second = token_;
    const int right = (this->*operand)();
    want(right, false, second);
    return binary(op, left, right, false, first);
  }
  int unary() {
    if (!is("-")) return indexed();
    const Deeper deeper(*this);
    next();
    const Token first = token_;
    const int operand = unary();
    want(operand, false, first);
    return push({Op::negate, operand, -1, 0, Name::m, node(operand).over, false});
  }
  int indexed() {
    const Token first = token_;
    const int list = primary();
    if (!is("[")) return list;
    if (node(list).op != Op::name || node(list).over == Over::row)
      fail_at(token_,
              "an operator: only S, P, key and O have an index, and \"" + std::string(first.text) + "\" is one number");
    const Deeper deeper(*this);
    next();
    const Token second = token_;
    const int at = expression();
    want(at, false, second);
    if (node(at).over != Over::row)
      throw ConditionError(second.at, std::max<std::size_t>(1, last_end() - second.at), "a list", "one number");
    if (!take("]")) fail("\"]\"");
    return push({Op::index, list, at, 0, Name::m, Over::row, false});
  }
  int primary() {
    const Token token = token_;
    if (token.kind == Token::Kind::number) {
      next();
      return push({Op::number, -1, -1, token.value, Name::m, Over::row, false});
    }
    if (is("(")) {
      const Deeper deeper(*this);
      next();
      const int inner = expression();
      if (!take(")")) fail("\")\" for the \"(\" at character " + std::to_string(token.at + 1));
      return inner;
    }
    if (token.kind != Token::Kind::word || is("and") || is("or") || is("not"))
      fail("a number, a name such as m, l, alpha, S, P, O or row, a function, or \"(\"");
    next();
    if (token.text == "inf" || token.text == "nan") {
      const double value =
          token.text == "inf" ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
      return push({Op::number, -1, -1, value, Name::m, Over::row, false});
    }
    if (is("(")) return call(token);
    for (const NameEntry& entry : kNames) {
      if (entry.text != token.text) continue;
      condition_.names |= bit(entry.name);
      return push({Op::name, -1, -1, 0, entry.name, entry.over, false});
    }
    for (const FunctionEntry& entry : kFunctions)
      if (entry.text == token.text) fail(fmt::format("\"(\" after {}", entry.text));
    std::string known;
    for (const NameEntry& entry : kNames) known += std::string(entry.text) + ", ";
    fail_at(token, "one of " + known + "inf, nan");
  }
  int call(const Token& token) {
    const auto* function = std::find_if(kFunctions.begin(), kFunctions.end(),
                                        [&](const FunctionEntry& entry) { return entry.text == token.text; });
    if (function == kFunctions.end()) {
      std::string known;
      for (const FunctionEntry& entry : kFunctions) known += (known.empty() ? "" : ", ") + std::string(entry.text);
      fail_at(token, "one of the functions " + known);
    }
    const Deeper deeper(*this);
    next();
    const Token first = token_;
    const int a = expression();
    want(a, function->wants_truth, first);
    if (is(",")) {
      if (function->two == kNone) fail(fmt::format("\")\": {} takes one argument", function->text));
      next();
      const Token second = token_;
      const int b = expression();
      want(b, false, second);
      if (!take(")")) fail("\")\"");
      return binary(function->two, a, b, false, first);
    }
    if (!take(")")) fail(function->two == kNone ? "\")\"" : "\",\" or \")\"");
    if (function->one != kNone) return push({function->one, a, -1, 0, Name::m, node(a).over, function->gives_truth});
    if (node(a).over == Over::row)
      throw ConditionError(first.at, std::max<std::size_t>(1, last_end() - first.at - 1), "one number for the row",
                           fmt::format("a list in {}(): S, P, key or O{}", function->text,
                                       function->two == kNone ? "" : ", or a second number"));
    return push({function->list, a, -1, 0, Name::m, Over::row, function->gives_truth});
  }

  struct Deeper {
    explicit Deeper(Parser& of) : parser(of) {
      if (++parser.depth_ > kDeepest) parser.fail(fmt::format("at most {} levels of nesting", kDeepest));
    }
    ~Deeper() { --parser.depth_; }
    Deeper(const Deeper&) = delete;
    Parser& parser;
  };

  std::string_view text_;
  std::size_t at_ = 0;
  Token token_;
  int depth_ = 0;
  Condition condition_;
};

// The value of a node for list position c. An index outside its list sets `missing`.
template <class T>
class Evaluation {
 public:
  Evaluation(const Condition& condition, const ConditionRow<T>& row) : nodes_(condition.nodes), row_(row) {}

  double value(int n, std::int64_t c) {
    const Node& node = nodes_[n];
    const auto a = [&] { return value(node.a, c); };
    const auto b = [&] { return value(node.b, c); };
    switch (node.op) {
      case Op::number:
        return node.value;
      case Op::name:
        return name(node.name, c);
      case Op::index: {
        const double at = b();
        if (!(at >= 0 && at < static_cast<double>(length(nodes_[node.a].over)))) {
          missing = true;
          return 0;
        }
        return value(node.a, static_cast<std::int64_t>(at));
      }
      case Op::logical_or: {
        const bool left = a() != 0, right = b() != 0;  // both, whatever the first is: either may be missing
        return left || right;
      }
      case Op::logical_and: {
        const bool left = a() != 0, right = b() != 0;
        return left && right;
      }
      case Op::logical_not:
        return a() == 0;
      case Op::less:
        return a() < b();
      case Op::less_equal:
        return a() <= b();
      case Op::greater:
        return a() > b();
      case Op::greater_equal:
        return a() >= b();
      case Op::equal:
        return a() == b();
      case Op::not_equal:
        return a() != b();
      case Op::add:
        return a() + b();
      case Op::subtract:
        return a() - b();
      case Op::multiply:
        return a() * b();
      case Op::divide:
        return a() / b();
      case Op::negate:
        return -a();
      case Op::abs:
        return std::abs(a());
      case Op::exp:
        return std::exp(a());
      case Op::log:
        return std::log(a());
      case Op::sqrt:
        return std::sqrt(a());
      case Op::isnan:
        return std::isnan(a());
      case Op::isinf:
        return std::isinf(a());
      case Op::isfinite:
        return std::isfinite(a());
      case Op::min:
        return std::fmin(a(), b());
      case Op::max:
        return std::fmax(a(), b());
      default:
        return of_list(node);
    }
  }
  bool missing = false;

 private:
  double of_list(const Node& node) {
    const std::int64_t n = length(nodes_[node.a].over);
    double result = node.op == Op::all_of   ? 1
                    : node.op == Op::min_of ? std::numeric_limits<double>::infinity()
                    : node.op == Op::max_of ? -std::numeric_limits<double>::infinity()
                                            : 0;
    for (std::int64_t c = 0; c < n && !missing; ++c) {
      const double x = value(node.a, c);
      if (node.op == Op::any_of && x != 0) return 1;
      if (node.op == Op::all_of && x == 0) return 0;
      if (node.op == Op::min_of) result = std::fmin(result, x);  // NaN ignored, as the fold's own maximum does
      if (node.op == Op::max_of) result = std::fmax(result, x);
      if (node.op == Op::sum_of) result += x;
    }
    return result;
  }
  std::int64_t length(Over over) const { return over == Over::channels ? row_.channels : row_.cols; }
  double name(Name name, std::int64_t c) const {
    switch (name) {
      case Name::m:
        return row_.m;
      case Name::l:
        return row_.l;
      case Name::alpha:
        return row_.alpha;
      case Name::m_old:
        return row_.m_old;
      case Name::l_old:
        return row_.l_old;
      case Name::LSE:
        return row_.LSE;
      case Name::row_sum:
        return row_.row_sum;
      case Name::head:
        return static_cast<double>(row_.head);
      case Name::row:
        return static_cast<double>(row_.row);
      case Name::i:
        return static_cast<double>(row_.i);
      case Name::j:
        return static_cast<double>(row_.j);
      case Name::r:
        return static_cast<double>(row_.r);
      case Name::S:
        return row_.S[c * row_.stride];
      case Name::P:
        return row_.P[c * row_.stride];
      case Name::key:
        return static_cast<double>(row_.col0 + c);
      case Name::O:
        return row_.O[c * row_.stride];
    }
    return 0;
  }

  const std::vector<Node>& nodes_;
  const ConditionRow<T>& row_;
};

}  // namespace

Condition parse_condition(std::string_view text) { return Parser(text).parse(); }

template <class T>
bool holds(const Condition& condition, const ConditionRow<T>& row) {
  if ((condition.names & ~row.exists) != 0) return false;
  Evaluation<T> evaluation(condition, row);
  const double value = evaluation.value(static_cast<int>(condition.nodes.size()) - 1, 0);
  return value != 0 && !evaluation.missing;
}
template bool holds(const Condition&, const ConditionRow<float>&);
template bool holds(const Condition&, const ConditionRow<double>&);

}  // namespace flashscope
