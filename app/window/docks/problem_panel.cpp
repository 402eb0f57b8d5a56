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
  const auto rule = [this](const char* name, const char* empty, const char* tip) {
    auto* edit = new QLineEdit;
    edit->setObjectName(name);
    edit->setPlaceholderText(empty);
    edit->setToolTip(tip);
    connect(edit, &QLineEdit::editingFinished, this, [this, edit] {
      if (edit->isModified()) mask_edited();
      edit->setModified(false);
    });
    return edit;
  };
  lengths_ = rule("rule_lengths", "none",
                  "Key padding: keys from this length on are hidden.\nOne, or one of each head: 60,64");
  documents_ =
      rule("rule_documents", "none", "Lengths of packed documents, in all Nk: a row sees its own only.\n20,30,14");
  prefix_ = rule("rule_prefix", "none", "Keys before this one are seen in spite of the causal mask");
  alibi_ = rule("rule_alibi", "none", "Bias -slope |r - c|: one slope, one of each head, or \"published\"");
  softcap_ = rule("rule_softcap", "none", "Scores become C tanh(score / C), before masks and biases");
  const auto pair = [form](const char* label, QLineEdit* first, const char* second_label, QLineEdit* second) {
    auto* row = new QHBoxLayout;
    row->addWidget(first, 1);
    row->addWidget(new QLabel(second_label));
    row->addWidget(second, 1);
    form->addRow(label, row);
  };
  pair("Lengths", lengths_, "Prefix", prefix_);
  pair("Documents", documents_, "ALiBi", alibi_);
  form->addRow("Softcap", softcap_);
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

namespace {

template <class T, class Read>
std::vector<T> list_of(const QLineEdit& edit, const char* what, Read read) {
  std::vector<T> values;
  for (const QString& word : edit.text().split(',', Qt::SkipEmptyParts)) {
    bool ok = false;
    values.push_back(read(word.trimmed(), &ok));
    if (!ok) throw InputError(what, "\"" + word.toStdString() + "\"", "numbers, separated by commas");
  }
  return values;
}
std::vector<std::int64_t> integers(const QLineEdit& edit, const char* what) {
  return list_of<std::int64_t>(edit, what, [](const QString& word, bool* ok) { return word.toLongLong(ok); });
}
std::vector<double> numbers(const QLineEdit& edit, const char* what) {
  return list_of<double>(edit, what, [](const QString& word, bool* ok) { return word.toDouble(ok); });
}

QString joined(const auto& values) {
  QStringList words;
  for (const auto value : values) words << QString::number(value);
  return words.join(',');
}

// The lengths of documents that are runs of keys in their order; "by ids" for others.
QString lengths_text(const Documents& documents) {
  if (!documents.runs()) return "by ids";
  std::vector<qlonglong> lengths;
  for (std::size_t c = 0; c < documents.keys.size(); ++c) {
    if (c == 0 || documents.keys[c] != documents.keys[c - 1]) lengths.push_back(0);
    ++lengths.back();
  }
  return joined(lengths);
}

}  // namespace

MaskRules ProblemPanel::typed_rules() const {
  const Shape shape = problem_->shape();
  RulesWanted wanted;
  wanted.lengths = integers(*lengths_, "lengths");
  wanted.published_alibi = alibi_->text().trimmed() == "published";
  if (!wanted.published_alibi) wanted.alibi = numbers(*alibi_, "ALiBi");
  if (const auto typed = integers(*prefix_, "prefix"); !typed.empty()) wanted.prefix = typed.front();
  if (const auto typed = numbers(*softcap_, "softcap"); !typed.empty()) wanted.softcap = typed.front();
  const bool unchanged = !documents_->isModified();
  if (!unchanged) {
    std::int64_t id = 0;
    for (const std::int64_t length : integers(*documents_, "documents")) {
      if (length < 0 || length > shape.Nk)
        throw InputError("documents", fmt::format("a length of {}", length), fmt::format("lengths up to {}", shape.Nk));
      wanted.document_ids.insert(wanted.document_ids.end(), static_cast<std::size_t>(length), id++);
    }
  }
  MaskRules rules = make_rules(wanted, shape.heads, {}, shape.Nq, shape.Nk,
                               static_cast<Causal>(causal_->currentData().toInt()) == Causal::bottom_right);
  if (unchanged) rules.documents = problem_->mask.rules.documents;
  return rules;
}

void ProblemPanel::show_rules() {
  const MaskRules& rules = problem_->mask.rules;
  lengths_->setText(joined(rules.lengths));
  documents_->setText(rules.documents ? lengths_text(*rules.documents) : QString());
  prefix_->setText(rules.prefix ? QString::number(*rules.prefix) : QString());
  alibi_->setText(joined(rules.alibi));
  softcap_->setText(rules.softcap != 0 ? QString::number(rules.softcap) : QString());
  // From its beginning, where not all of it can be seen.
  for (QLineEdit* edit : {lengths_, documents_, prefix_, alibi_, softcap_})
    edit->setCursorPosition(0), edit->setModified(false);
}

void ProblemPanel::mask_edited() {
  if (showing_ || !problem_) return;
  Mask mask = problem_->mask;
  mask.causal = static_cast<Causal>(causal_->currentData().toInt());
  mask.window.reset();
  if (window_->isChecked()) mask.window = Window{left_->value(), right_->value()};
  try {
    mask.rules = typed_rules();
  } catch (const InputError& error) {
    emit failed(text(error.what()));
    return show_rules();
  }
  emit change([mask](Document& document) { document.set_mask(mask); });
}

void ProblemPanel::refresh(const Document& document) {
  if (!document.problem()) return;
  const auto& state = document.stage().state;
  const std::int64_t head = state ? state->head : 0;
  if (problem_ == document.problem() && shown_head_ == head && found_ == document.found()) return;
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
  show_rules();
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
    lines << QString("<span style='color:%1'>%2 empty rows under the mask in head %3: %4%5</span>")
                 .arg(c.rescale.name(), grouped(summary->empty_rows), QString::number(shown_head_), rows.join(", "),
                      summary->empty_rows > 10 ? ", ..." : "");
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
  if (event->type() == QEvent::PaletteChange) show_text();
  Panel::changeEvent(event);
}

}  // namespace flashscope::window
