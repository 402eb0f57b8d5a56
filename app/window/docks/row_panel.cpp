#include "app/window/docks/row_panel.h"

#include <QAbstractTableModel>
#include <QComboBox>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QPlainTextEdit>
#include <QRegularExpression>
#include <QSpinBox>
#include <QTableView>
#include <QVBoxLayout>
#include <cmath>
#include <limits>
#include <utility>

#include "app/window/docks/lse_links.h"
#include "app/window/text.h"
#include "app/window/theme.h"
#include "engine/error.h"

namespace flashscope::window {

class RowModel : public QAbstractTableModel {
 public:
  using QAbstractTableModel::QAbstractTableModel;
  void show(const RowDemo& demo) {
    beginResetModel();
    demo_ = &demo;
    endResetModel();
  }
  int rowCount(const QModelIndex& parent) const override {
    return parent.isValid() || !demo_ ? 0 : static_cast<int>(demo_->chunks.size());
  }
  int columnCount(const QModelIndex&) const override { return 8; }
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override {
    if (role != Qt::DisplayRole) return {};
    if (orientation == Qt::Vertical) return section;
    static const char* const names[] = {"scores", "tile max", "m", "alpha", "l", "l, no rescale", "o", "o, no rescale"};
    return QString(names[section]);
  }
  QVariant data(const QModelIndex& index, int role) const override {
    const RowChunk& chunk = demo_->chunks[index.row()];
    const bool grew = index.row() > 0 && chunk.alpha < 1;
    if (role == Qt::TextAlignmentRole)
      return QVariant(index.column() == 0 ? Qt::AlignLeft | Qt::AlignVCenter : Qt::AlignRight | Qt::AlignVCenter);
    if (role == Qt::ForegroundRole && grew && (index.column() == 2 || index.column() == 3)) return rescale_;
    if (role != Qt::DisplayRole && role != Qt::ToolTipRole) return {};
    switch (index.column()) {
      case 0: {
        QStringList scores;
        const std::size_t shown = role == Qt::ToolTipRole ? 64 : 4;
        for (std::size_t n = 0; n < std::min(shown, chunk.scores.size()); ++n) scores << number(chunk.scores[n], 3);
        if (chunk.scores.size() > shown) scores << "...";
        return scores.join("  ");
      }
      case 1:
        return number(chunk.tile_max);
      case 2:
        return number(chunk.m);
      case 3:
        return number(chunk.alpha);
      case 4:
        return number(chunk.l, 7);
      case 5:
        return number(chunk.l_without_rescale, 7);
      case 6:
        return chunk.o ? number(*chunk.o, 7) : QString();
      default:
        return chunk.o_without_rescale ? number(*chunk.o_without_rescale, 7) : QString();
    }
  }
  void set_colour(const QColor& rescale) { rescale_ = rescale; }

 private:
  const RowDemo* demo_ = nullptr;
  QColor rescale_;
};

namespace {

constexpr std::int64_t kMostPicked = 65'536;  // scores of a picked row that are shown

struct PickedRow {
  std::vector<double> scores, values;
};

PickedRow pick_row(const Problem& problem, std::int64_t head, std::int64_t row, std::int64_t column) {
  const Shape shape = problem.shape();
  const std::int64_t kv = shape.kv_head(head), count = std::min(shape.Nk, kMostPicked);
  const Band limits = band(problem.mask, shape.Nq, shape.Nk);
  PickedRow result;
  for (std::int64_t c = 0; c < count; ++c) {
    double dot = 0;
    for (std::int64_t n = 0; n < shape.d; ++n) dot += problem.Q().at(head, row, n) * problem.K().at(kv, c, n);
    const bool seen = visible(problem.mask, limits, head, row, c);
    const double score = capped(problem.mask, dot * problem.scale) + added(problem.mask, limits, head, row, c);
    result.scores.push_back(seen ? score : -std::numeric_limits<double>::infinity());
    result.values.push_back(problem.V().at(kv, c, column));
  }
  return result;
}

QString joined(const std::vector<double>& values, int digits) {
  QStringList words;
  for (const double value : values) words << number(value, digits);
  return words.join(' ');
}

}  // namespace

std::vector<double> typed_numbers(const QString& typed) {
  std::vector<double> result;
  static const QRegularExpression separators("[\\s,;|\\[\\](){}]+");
  for (QString word : typed.split(separators, Qt::SkipEmptyParts)) {
    bool ok = false;
    double value = word.toDouble(&ok);
    word = word.toLower();
    if (word == "nan") value = std::numeric_limits<double>::quiet_NaN(), ok = true;
    if (word == "inf" || word == "+inf") value = std::numeric_limits<double>::infinity(), ok = true;
    if (word == "-inf") value = -std::numeric_limits<double>::infinity(), ok = true;
    if (!ok) throw InputError("the row", "\"" + word.toStdString() + "\"", "numbers, -inf, inf or nan");
    result.push_back(value);
  }
  return result;
}

RowPanel::RowPanel(QWidget* parent) : Panel(parent), background_(this) {
  auto* layout = new QVBoxLayout(this);
  auto* form = new QFormLayout;
  form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  source_ = new QComboBox;
  source_->setFocusPolicy(Qt::TabFocus);
  for (const BuiltInRow& row : built_in_rows()) {  // the list is narrow; what a row shows is in its tip
    static const QRegularExpression kWhatItShows("[:,]");
    source_->addItem(text(row.title).section(kWhatItShows, 0, 0), text(row.name));
    source_->setItemData(source_->count() - 1, text(row.title), Qt::ToolTipRole);
  }
  source_->addItem("typed or pasted below", "typed");
  source_->addItem("a row of this problem", "picked");
  source_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  form->addRow("Row", source_);

  pick_row_ = new QWidget;
  auto* pick_layout = new QHBoxLayout(pick_row_);
  pick_layout->setContentsMargins(0, 0, 0, 0);
  row_ = new QSpinBox;
  row_->setPrefix("row ");
  row_->setObjectName("picked_row");
  column_ = new QSpinBox;
  column_->setPrefix("V column ");
  for (QSpinBox* box : {row_, column_}) {
    box->setKeyboardTracking(false);
    pick_layout->addWidget(box);
    connect(box, &QSpinBox::valueChanged, this, &RowPanel::pick);
  }
  form->addRow("", pick_row_);

  scores_ = new QPlainTextEdit;
  values_ = new QPlainTextEdit;
  scores_->setObjectName("scores");
  for (QPlainTextEdit* edit : {scores_, values_}) {
    edit->setMaximumHeight(3 * fontMetrics().height() + 12);
    edit->setTabChangesFocus(true);
    connect(edit, &QPlainTextEdit::textChanged, this, [this, edit] {
      if (edit->hasFocus()) source_->setCurrentIndex(source_->findData("typed"));
      compute();
    });
  }
  values_->setPlaceholderText("optional: one value for each score");
  form->addRow("Scores", scores_);
  form->addRow("Values", values_);
  chunk_ = new QSpinBox;
  chunk_->setRange(1, 1 << 20);
  chunk_->setKeyboardTracking(false);
  chunk_->setToolTip("Scores that are folded in at a time: Bc");
  form->addRow("Chunk", chunk_);
  layout->addLayout(form);

  model_ = new RowModel(this);
  table_ = new QTableView;
  table_->setModel(model_);
  table_->verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 8);
  table_->horizontalHeader()->setStretchLastSection(true);
  table_->setSelectionMode(QAbstractItemView::ContiguousSelection);
  layout->addWidget(table_, 1);
  result_ = new QLabel;
  result_->setObjectName("row_result");
  result_->setWordWrap(true);
  result_->setTextInteractionFlags(Qt::TextBrowserInteraction);
  connect(result_, &QLabel::linkActivated, this, [this](const QString& link) {
    if (const Change to = lse_change(QUrl(link))) emit change(to);
  });
  layout->addWidget(result_);
  connect(table_, &QTableView::doubleClicked, this, [this](const QModelIndex& index) {
    if (!problem_ || source_->currentData().toString() != "picked") return;
    const std::int64_t key =
        std::min<std::int64_t>(std::int64_t{index.row()} * chunk_->value(), problem_->shape().Nk - 1);
    emit why({CellKind::S, head_, row_->value(), key, {}});
  });
  connect(chunk_, &QSpinBox::valueChanged, this, &RowPanel::compute);
  connect(source_, &QComboBox::currentIndexChanged, this, &RowPanel::chosen);
  chosen(0);
}

void RowPanel::show_built_in(const std::string& name) { source_->setCurrentIndex(source_->findData(text(name))); }

void RowPanel::chosen(int index) {
  const QString source = source_->itemData(index).toString();
  pick_row_->setVisible(source == "picked");
  source_->setToolTip(source_->itemData(index, Qt::ToolTipRole).toString());
  if (source == "picked") return pick();
  background_.cancel();
  for (const BuiltInRow& row : built_in_rows()) {
    if (text(row.name) != source) continue;
    const QSignalBlocker quiet_scores(scores_), quiet_values(values_), quiet_chunk(chunk_);
    chunk_->setValue(row.chunk);
    scores_->setPlainText(joined(row.scores, 6));
    values_->setPlainText(joined(row.values, 6));
    compute();
  }
}

void RowPanel::refresh(const Document& document) {
  const std::int64_t head = document.head();
  if (std::exchange(lse_, document.stage().lse) != document.stage().lse && !background_.running()) compute();
  // The row that a search has just found.
  const bool found = document.stage().found_row >= 0 && document.stage().found_row != found_;
  found_ = document.stage().found_row;
  if (document.problem() == problem_ && head == head_ && !found) return;
  problem_ = document.problem();
  head_ = head;
  if (!problem_) return;
  {
    const QSignalBlocker quiet_row(row_), quiet_column(column_);
    row_->setRange(0,
                   static_cast<int>(std::min<std::int64_t>(problem_->shape().Nq - 1, std::numeric_limits<int>::max())));
    column_->setRange(0, static_cast<int>(problem_->shape().dv - 1));
    if (found) row_->setValue(static_cast<int>(found_));
  }
  pick();
}

void RowPanel::pick() {
  if (!problem_ || source_->currentData().toString() != "picked") return;
  result_->setText("computing the row's scores ...");
  background_.start([problem = problem_, head = head_, row = row_->value(), column = column_->value()](
                        const std::stop_token&) { return pick_row(*problem, head, row, column); },
                    [this](const PickedRow& picked) {
                      {
                        const QSignalBlocker quiet_scores(scores_), quiet_values(values_);
                        scores_->setPlainText(joined(picked.scores, 9));
                        values_->setPlainText(joined(picked.values, 9));
                      }
                      compute();
                    },
                    [this](const QString& why) { result_->setText(why); });
}

void RowPanel::compute() {
  const Colours c = colours(palette());
  model_->set_colour(c.rescale);
  try {
    demo_ = run_row(typed_numbers(scores_->toPlainText()), typed_numbers(values_->toPlainText()), chunk_->value());
  } catch (const InputError& error) {
    result_->setText(QString("<span style='color:%1'>%2</span>").arg(c.nan.name(), text(error.what()).toHtmlEscaped()));
    return;
  }
  model_->show(demo_);
  table_->resizeColumnsToContents();
  table_->setColumnWidth(0, std::min(table_->columnWidth(0), 12 * fontMetrics().averageCharWidth()));
  QString words =
      QString(
          "LSE = %5 = <b>%1</b> (%6)<br>largest error of a weight against the whole row: with rescale <b>%2</b>, "
          "without <span style='color:%3'><b>%4</b></span>")
          .arg(number(handed_out(lse_, demo_.LSE), 8), number(demo_.max_error, 3), c.rescale.name(),
               number(demo_.max_error_without_rescale, 3), text(formula(lse_)), lse_links(lse_, c));
  if (demo_.output && demo_.output_without_rescale)
    words += QString("<br>o / l = <b>%1</b>, without rescale <span style='color:%2'><b>%3</b></span>")
                 .arg(number(*demo_.output, 8), c.rescale.name(), number(*demo_.output_without_rescale, 8));
  result_->setText(words);
}

}  // namespace flashscope::window
