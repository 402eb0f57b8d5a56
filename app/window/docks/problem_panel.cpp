#include "app/window/docks/problem_panel.h"

#include <QCheckBox>
#include <QComboBox>
#include <QDoubleValidator>
#include <QEvent>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QSpinBox>
#include <QTextBrowser>
#include <QVBoxLayout>
#include <algorithm>

#include <fmt/format.h>

#include "app/window/text.h"
#include "app/window/theme.h"
#include "engine/error.h"

namespace flashscope::window {
namespace {

constexpr int kWidest = 1 << 30;

QString tensor_row(const char* label, const Tensor& tensor, const TensorSummary* summary, const Colours& c) {
  const std::array shape = {tensor.heads, tensor.rows, tensor.cols};
  QString values = "<td align='right'>...</td><td></td><td></td>";
  if (summary) {
    const auto count = [&](std::int64_t n) {
      return QString("<td align='right' style='color:%1'>%2</td>").arg((n ? c.nan : c.dim).name(), grouped(n));
    };
    values = QString("<td align='right'>%1 .. %2</td>").arg(number(summary->min, 3), number(summary->max, 3)) +
             count(summary->nan) + count(summary->inf);
  }
  return QString("<tr><td><b>%1</b></td><td style='white-space:nowrap'>%2</td><td>%3</td>%4</tr>")
      .arg(label, text(shape_text(shape)), text(name(tensor.type)), values);
}

// ---- rules as they are typed

template <class T, class Read>
std::vector<T> list_of(const QString& typed, const char* what, Read read) {
  std::vector<T> values;
  if (typed.isEmpty()) return values;
  const QStringList words = typed.split(',');
  for (const QString& word : words) {
    bool ok = false;
    values.push_back(read(word.trimmed(), &ok));
    if (!ok)
      throw InputError(words.size() > 1 ? fmt::format("{}, number {}", what, values.size()) : what,
                       "\"" + word.trimmed().toStdString() + "\"", "numbers, separated by commas");
  }
  return values;
}
std::vector<std::int64_t> integers(const QString& typed, const char* what) {
  return list_of<std::int64_t>(typed, what, [](const QString& word, bool* ok) { return word.toLongLong(ok); });
}
std::vector<double> numbers(const QString& typed, const char* what) {
  return list_of<double>(typed, what, [](const QString& word, bool* ok) { return word.toDouble(ok); });
}
template <class T>
std::optional<T> only(const std::vector<T>& values, const char* what) {
  if (values.size() > 1) throw InputError(what, fmt::format("{} numbers", values.size()), "one");
  return values.empty() ? std::nullopt : std::optional(values.front());
}

MaskRules made(const RulesWanted& wanted, const Shape& shape, const Mask& mask) {
  return make_rules(wanted, shape.heads, {}, shape.Nq, shape.Nk, mask.causal == Causal::bottom_right);
}

void read_lengths(const QString& typed, const Shape& shape, Mask& mask) {
  RulesWanted wanted;
  wanted.lengths = integers(typed, "lengths");
  mask.rules.lengths = made(wanted, shape, mask).lengths;
}

void read_documents(const QString& typed, const Shape& shape, Mask& mask) {
  RulesWanted wanted;
  std::int64_t id = 0;
  for (const std::int64_t length : integers(typed, "documents")) {
    const auto so_far = static_cast<std::int64_t>(wanted.document_ids.size());
    if (length < 0 || length > shape.Nk - so_far)
      throw InputError(fmt::format("documents, number {}", id + 1), fmt::format("a length of {}", length),
                       fmt::format("0 to {}, what is left of {} keys", shape.Nk - so_far, shape.Nk));
    wanted.document_ids.insert(wanted.document_ids.end(), static_cast<std::size_t>(length), id++);
  }
  if (id > 0 && static_cast<std::int64_t>(wanted.document_ids.size()) != shape.Nk)
    throw InputError("documents", fmt::format("lengths of {} keys in all", wanted.document_ids.size()),
                     fmt::format("{}, all keys", shape.Nk));
  mask.rules.documents = made(wanted, shape, mask).documents;
}

void read_prefix(const QString& typed, const Shape&, Mask& mask) {
  mask.rules.prefix = only(integers(typed, "prefix"), "prefix");
}

void read_alibi(const QString& typed, const Shape& shape, Mask& mask) {
  RulesWanted wanted;
  wanted.published_alibi = typed == "published";
  if (!wanted.published_alibi) wanted.alibi = numbers(typed, "ALiBi");
  mask.rules.alibi = made(wanted, shape, mask).alibi;
}

void read_softcap(const QString& typed, const Shape&, Mask& mask) {
  mask.rules.softcap = only(numbers(typed, "softcap"), "softcap").value_or(0);
}

QString joined(const auto& values) {
  QStringList words;
  for (const auto value : values) words << QString::number(value);
  return words.join(',');
}

// The lengths of documents that are runs of keys in their order; "by ids" for others.
QString shown_documents(const MaskRules& rules) {
  if (!rules.documents) return {};
  const Documents& documents = *rules.documents;
  if (!documents.runs()) return "by ids";
  std::vector<qlonglong> lengths;
  for (std::size_t c = 0; c < documents.keys.size(); ++c) {
    if (c == 0 || documents.keys[c] != documents.keys[c - 1]) lengths.push_back(0);
    ++lengths.back();
  }
  return joined(lengths);
}

}  // namespace

ProblemPanel::ProblemPanel(QWidget* parent) : Panel(parent), background_(this) {
  auto* layout = new QVBoxLayout(this);
  auto* form = new QFormLayout;
  form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);

  auto* head_row = new QHBoxLayout;
  head_ = new QSpinBox;
  head_->setObjectName("problem_head");
  head_->setKeyboardTracking(false);
  head_->setToolTip("The query head that is stepped");
  kv_head_ = new QLabel;
  head_row->addWidget(head_);
  head_row->addWidget(kv_head_, 1);
  form->addRow("Head", head_row);
  connect(head_, &QSpinBox::valueChanged, this, [this](int head) {
    if (!showing_) emit change([head](Document& document) { document.step_head(head); });
  });

  scale_ = new QLineEdit;
  scale_->setValidator(new QDoubleValidator(scale_));
  scale_->setToolTip("Scores are multiplied by this; usually 1 / sqrt(d)");
  form->addRow("Scale", scale_);
  connect(scale_, &QLineEdit::editingFinished, this, [this] {
    bool ok = false;
    const double scale = scale_->text().toDouble(&ok);
    if (ok && problem_ && scale_->isModified()) emit change([scale](Document& document) { document.set_scale(scale); });
    scale_->setModified(false);
  });

  causal_ = new QComboBox;
  causal_->setFocusPolicy(Qt::TabFocus);
  causal_->addItem("none", static_cast<int>(Causal::none));
  causal_->addItem("top-left", static_cast<int>(Causal::top_left));
  causal_->addItem("bottom-right", static_cast<int>(Causal::bottom_right));
  causal_->setToolTip(
      "top-left: row r sees keys c <= r.\nbottom-right: c <= r + Nk - Nq. Libraries differ where Nq != Nk.");
  form->addRow("Causal", causal_);
  connect(causal_, &QComboBox::activated, this, &ProblemPanel::mask_edited);

  auto* window_row = new QHBoxLayout;
  window_ = new QCheckBox("left");
  window_->setFocusPolicy(Qt::TabFocus);
  left_ = new QSpinBox;
  right_ = new QSpinBox;
  window_row->addWidget(window_);
  window_row->addWidget(left_, 1);
  window_row->addWidget(new QLabel("right"));
  window_row->addWidget(right_, 1);
  for (QSpinBox* box : {left_, right_}) {
    box->setRange(0, kWidest);
    box->setKeyboardTracking(false);
    box->setMinimumWidth(70);  // such large numbers are rare
    box->setToolTip("Row r sees keys r - left <= c <= r + right");
    connect(box, &QSpinBox::valueChanged, this, &ProblemPanel::mask_edited);
  }
  connect(window_, &QCheckBox::toggled, this, [this](bool on) {
    left_->setEnabled(on);
    right_->setEnabled(on);
    mask_edited();
  });
  form->addRow("Window", window_row);
  const auto rule = [this](const char* name, const char* tip, auto read, auto shown) {
    auto* edit = new QLineEdit;
    edit->setObjectName(name);
    edit->setPlaceholderText("none");
    edit->setToolTip(tip);
    connect(edit, &QLineEdit::editingFinished, this, [this, edit] {
      if (edit->isModified()) mask_edited();
    });
    auto* error = new QLabel;
    error->setObjectName(QString(name) + "_error");
    error->setWordWrap(true);
    error->setTextFormat(Qt::PlainText);
    error->setTextInteractionFlags(Qt::TextSelectableByMouse);
    error->hide();
    rules_.push_back({edit, error, read, shown});
    return rules_.back();
  };
  const Rule lengths =
      rule("rule_lengths", "Key padding: keys from this length on are hidden.\nOne, or one of each head: 60,64",
           read_lengths, [](const MaskRules& rules) { return joined(rules.lengths); });
  const Rule prefix =
      rule("rule_prefix", "Keys before this one are seen in spite of the causal mask", read_prefix,
           [](const MaskRules& rules) { return rules.prefix ? QString::number(*rules.prefix) : QString(); });
  const Rule documents =
      rule("rule_documents", "Lengths of packed documents, in all Nk: a row sees its own only.\n20,30,14",
           read_documents, shown_documents);
  const Rule alibi = rule("rule_alibi", "Bias -slope |r - c|: one slope, one of each head, or \"published\"",
                          read_alibi, [](const MaskRules& rules) { return joined(rules.alibi); });
  const Rule softcap =
      rule("rule_softcap", "Scores become C tanh(score / C), before masks and biases", read_softcap,
           [](const MaskRules& rules) { return rules.softcap != 0 ? QString::number(rules.softcap) : QString(); });
  const auto pair = [form](const char* label, const Rule& first, const char* second_label, const Rule& second) {
    auto* row = new QHBoxLayout;
    row->addWidget(first.edit, 1);
    row->addWidget(new QLabel(second_label));
    row->addWidget(second.edit, 1);
    form->addRow(label, row);
    form->addRow(first.error);
    form->addRow(second.error);
  };
  pair("Lengths", lengths, "Prefix", prefix);
  pair("Documents", documents, "ALiBi", alibi);
  form->addRow("Softcap", softcap.edit);
  form->addRow(softcap.error);
  layout->addLayout(form);

  text_ = new QTextBrowser;
  text_->setObjectName("found");
  text_->setFrameShape(QFrame::NoFrame);
  text_->setOpenLinks(false);
  text_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  layout->addWidget(text_, 1);
}

ProblemPanel::Summary ProblemPanel::summarise_problem(const Problem& problem, std::int64_t head) {
  Summary result{
      summarise(problem.Q()), summarise(problem.K()), summarise(problem.V()), summarise(problem.mask), 0, {}};
  std::vector<std::int64_t> empty = flashscope::empty_rows(problem.mask, problem.shape().Nq, problem.shape().Nk, head);
  result.empty_rows = static_cast<std::int64_t>(empty.size());
  empty.resize(std::min<std::size_t>(empty.size(), 10));
  result.first_empty = std::move(empty);
  return result;
}

void ProblemPanel::summarise_again() {
  summary_.reset();
  background_.start(
      [problem = problem_, head = shown_head_](const std::stop_token&) { return summarise_problem(*problem, head); },
      [this](const Summary& summary) {
        summary_ = summary;
        show_text();
      },
      [this](const QString& why) { emit failed(why); });
}

// The mask as its boxes and those rules say it that mean something.
void ProblemPanel::mask_edited() {
  if (showing_ || !problem_) return;
  Mask mask = problem_->mask;
  mask.causal = static_cast<Causal>(causal_->currentData().toInt());
  mask.window.reset();
  if (window_->isChecked()) mask.window = Window{left_->value(), right_->value()};
  for (const Rule& rule : rules_) {
    if (!rule.edit->isModified()) continue;
    const QString typed = rule.edit->text().trimmed();
    Mask with = mask;
    try {
      if (typed != rule.shown(problem_->mask.rules)) rule.read(typed, problem_->shape(), with);
      with_mask(problem_, with);
    } catch (const InputError& error) {
      say(rule, text(error.what()));
      continue;
    }
    mask = std::move(with);
    rule.edit->setModified(false);
  }
  if (mask == problem_->mask) return show_rules(false);
  emit change([mask](Document& document) { document.set_mask(mask); });
}

void ProblemPanel::say(const Rule& rule, const QString& error) {
  QPalette shade;  // of nothing else: the rest stays the theme's
  if (!error.isEmpty())
    for (const QPalette::ColorRole role : {QPalette::WindowText, QPalette::Text})
      shade.setColor(role, colours(palette()).bad);
  rule.edit->setPalette(shade);
  rule.error->setPalette(shade);
  rule.error->setText(error);
  rule.error->setVisible(!error.isEmpty());
  rule.edit->setAccessibleDescription(error);
}

void ProblemPanel::show_rules(bool all) {
  for (const Rule& rule : rules_) {
    if (rule.edit->isModified() && !all) continue;
    rule.edit->setText(rule.shown(problem_->mask.rules));
    rule.edit->setCursorPosition(0);  // from its beginning, where not all of it can be seen
    say(rule, {});
  }
}

void ProblemPanel::refresh(const Document& document) {
  if (!document.problem()) return;
  const std::int64_t head = document.head();
  if (problem_ == document.problem() && shown_head_ == head && found_ == document.found()) return;
  const bool other_tensors = !problem_ || problem_->q != document.problem()->q;
  problem_ = document.problem();
  shown_head_ = head;
  found_ = document.found();

  const Shape shape = problem_->shape();
  showing_ = true;
  head_->setRange(0, static_cast<int>(shape.heads - 1));
  head_->setSuffix(" of " + grouped(shape.heads));
  head_->setEnabled(shape.heads > 1);
  head_->setValue(static_cast<int>(head));
  kv_head_->setText(QString("reads K, V head %1 of %2").arg(grouped(shape.kv_head(head)), grouped(shape.kv_heads)));
  if (!scale_->hasFocus()) scale_->setText(QString::number(problem_->scale, 'g', 10));
  causal_->setCurrentIndex(causal_->findData(static_cast<int>(problem_->mask.causal)));
  const std::optional<Window>& window = problem_->mask.window;
  window_->setChecked(window.has_value());
  left_->setEnabled(window.has_value());
  right_->setEnabled(window.has_value());
  if (window) {
    left_->setValue(static_cast<int>(std::min<std::int64_t>(window->left, kWidest)));
    right_->setValue(static_cast<int>(std::min<std::int64_t>(window->right, kWidest)));
  }
  show_rules(other_tensors);
  showing_ = false;
  summarise_again();
  show_text();
}

void ProblemPanel::show_text() {
  if (!problem_) return;
  const Colours c = colours(palette());
  const Summary* summary = summary_ ? &*summary_ : nullptr;
  QString html = "<p><b>" + text(problem_->name).toHtmlEscaped() +
                 "</b></p><table width='100%' cellpadding='2'><tr style='color:" + c.dim.name() +
                 "'><td></td><td>heads, N, d</td><td></td><td align='right'>range</td><td align='right'>NaN</td>"
                 "<td align='right'>Inf</td></tr>" +
                 tensor_row("Q", problem_->Q(), summary ? &summary->q : nullptr, c) +
                 tensor_row("K", problem_->K(), summary ? &summary->k : nullptr, c) +
                 tensor_row("V", problem_->V(), summary ? &summary->v : nullptr, c) + "</table>";
  QStringList lines;
  if (problem_->given_O) lines << "The file brought its own o: the run is compared with float64, not with it.";
  if (const auto& keep = problem_->mask.keep)
    lines << "keep mask " + text(shape_text(std::array{keep->heads, keep->rows, keep->cols})) + ", packed to bits";
  if (const auto& bias = problem_->mask.bias) {
    lines << "bias " + text(shape_text(std::array{bias->heads, bias->rows, bias->cols}));
    if (summary)
      lines << QString("bias cells: %1 NaN, %2 +inf, %3 -inf (masked)")
                   .arg(grouped(summary->mask.nan_cells), grouped(summary->mask.plus_inf_cells),
                        grouped(summary->mask.minus_inf_cells));
  }
  if (summary && summary->empty_rows > 0) {
    QStringList rows;
    for (const std::int64_t row : summary->first_empty) rows << QString::number(row);
    lines << QString("<span style='color:%1'>%2 under the mask in head %3: %4%5</span>")
                 .arg(c.rescale.name(), counted(summary->empty_rows, "empty row"), QString::number(shown_head_),
                      rows.join(", "), summary->empty_rows > 10 ? ", ..." : "");
  } else if (summary) {
    lines << "no empty rows under the mask";
  }
  for (const QString& line : lines) html += "<p style='margin:2px 0'>" + line + "</p>";
  if (!found_.empty()) {
    html += QString("<p style='margin-top:10px;margin-bottom:2px;color:%1'><b>Found on opening</b></p>")
                .arg(c.accent.name());
    for (const std::string& line : found_) html += "<p style='margin:2px 0'>" + text(line).toHtmlEscaped() + "</p>";
  }
  text_->setHtml(html);
}

void ProblemPanel::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) {
    for (const Rule& rule : rules_) say(rule, rule.error->text());
    show_text();
  }
  Panel::changeEvent(event);
}

}  // namespace flashscope::window
