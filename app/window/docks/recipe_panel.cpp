#include "app/window/docks/recipe_panel.h"

#include <QCheckBox>
#include <QDoubleValidator>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QScrollArea>
#include <QSignalBlocker>
#include <QSlider>
#include <QSpinBox>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "app/window/docks/numerics_box.h"
#include "app/window/text.h"

namespace flashscope::window {
namespace {

constexpr int kLargest = 1 << 30;  // of a block size in the boxes: beyond every N that can be stepped here

// Slider positions are eighths of a power of two up to the first one that covers N.
int slider_position(std::int64_t size) {
  return static_cast<int>(std::lround(8 * std::log2(static_cast<double>(size))));
}
std::int64_t slider_size(int position) {
  const double size = std::exp2(position / 8.0);
  return std::max<std::int64_t>(1, std::llround(size));
}

}  // namespace

RecipePanel::BlockSize RecipePanel::add_block_size(QFormLayout* form, const QString& label, const QString& tip,
                                                   std::int64_t Recipe::*size) {
  BlockSize result;
  auto* row = new QHBoxLayout;
  result.slider = new QSlider(Qt::Horizontal);
  result.slider->setFocusPolicy(Qt::TabFocus);
  result.slider->setPageStep(8);
  result.box = new QSpinBox;
  result.box->setObjectName(label);
  result.box->setRange(1, kLargest);
  result.box->setKeyboardTracking(false);
  result.box->setFocusPolicy(Qt::StrongFocus);
  result.box->setMinimumWidth(86);
  for (QWidget* widget : {static_cast<QWidget*>(result.slider), static_cast<QWidget*>(result.box)})
    widget->setToolTip(tip), widget->setAccessibleName(label);
  row->addWidget(result.slider, 1);
  row->addWidget(result.box);
  form->addRow(label, row);
  const auto changed = [this, size](std::int64_t value) {
    if (showing_ || recipe_.*size == value) return;
    recipe_.*size = value;
    recipe_.sram.reset();
    edited();
  };
  connect(result.box, &QSpinBox::valueChanged, this, [changed](int value) { changed(value); });
  connect(result.slider, &QSlider::valueChanged, this, [changed](int position) { changed(slider_size(position)); });
  for (const auto& [signal, on] :
       {std::pair(&QSlider::sliderPressed, true), std::pair(&QSlider::sliderReleased, false)})
    connect(result.slider, signal, this,
            [this, on = on] { emit change([on](Document& document) { document.join_changes(on); }); });
  show_.push_back([this, result, size] {
    const int current = static_cast<int>(std::min<std::int64_t>(recipe_.*size, kLargest));
    const std::int64_t rows = size == &Recipe::Br ? shape_.Nq : shape_.Nk;
    result.slider->setRange(
        0, static_cast<int>(std::ceil(std::log2(static_cast<double>(std::max<std::int64_t>(rows, 2))))) * 8);
    result.slider->setValue(slider_position(current));
    result.box->setValue(current);
  });
  return result;
}

template <class Enum>
QComboBox* RecipePanel::add_choice(QFormLayout* form, const QString& label, const QString& tip, Enum Recipe::*option) {
  auto* box = new QComboBox;
  box->setObjectName(label);
  box->setToolTip(tip);
  box->setAccessibleName(label);
  box->setFocusPolicy(Qt::TabFocus);
  for (const std::string_view word : choices<Enum>()) box->addItem(text(word));
  form->addRow(label, box);
  connect(box, &QComboBox::activated, this, [this, option](int index) {
    recipe_.*option = static_cast<Enum>(index);
    edited();
  });
  show_.push_back([this, box, option] { box->setCurrentIndex(static_cast<int>(recipe_.*option)); });
  return box;
}

RecipePanel::RecipePanel(QWidget* parent) : Panel(parent) {
  auto* inside = new QWidget;
  auto* form = new QFormLayout(inside);
  form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  form->setVerticalSpacing(6);

  add_choice(form, "Algorithm",
             "standard: S and P stored in HBM.\nflash1: K, V outside (first paper's Algorithm 1).\n"
             "flash2: Q outside, O stays on the chip.",
             &Recipe::algorithm);
  br_ = add_block_size(form, "Br", "Rows of Q in a tile", &Recipe::Br);
  bc_ = add_block_size(form, "Bc", "Rows of K and V in a tile", &Recipe::Bc);

  auto* sram_row = new QHBoxLayout;
  by_sram_ = new QCheckBox("from SRAM");
  by_sram_->setFocusPolicy(Qt::TabFocus);
  sram_ = new QSpinBox;
  sram_->setObjectName("sram");
  sram_->setRange(1, kLargest);
  sram_->setGroupSeparatorShown(true);
  sram_->setSuffix(" elements");
  sram_->setKeyboardTracking(false);
  sram_->setMinimumWidth(110);  // its largest number would be wider than the panel
  sram_->setValue(50'000);
  const QString sram_tip =
      "The first paper's rule for a budget of M elements:\nBc = ceil(M / (2 (d + dv))), Br = min(Bc, d)";
  by_sram_->setToolTip(sram_tip);
  sram_->setToolTip(sram_tip);
  sram_row->addWidget(by_sram_);
  sram_row->addWidget(sram_, 1);
  form->addRow("", sram_row);
  const auto sram_edited = [this] {
    if (showing_) return;
    if (by_sram_->isChecked()) {
      const auto [Br, Bc] = block_sizes(sram_->value(), shape_.d, shape_.dv);
      recipe_.Br = Br, recipe_.Bc = Bc, recipe_.sram = sram_->value();
    } else {
      recipe_.sram.reset();
    }
    edited();
  };
  connect(by_sram_, &QCheckBox::toggled, this, sram_edited);
  connect(sram_, &QSpinBox::valueChanged, this, [this, sram_edited] {
    if (by_sram_->isChecked()) sram_edited();
  });
  show_.push_back([this] {
    by_sram_->setChecked(recipe_.sram.has_value());
    sram_->setEnabled(recipe_.sram.has_value());
    if (recipe_.sram) sram_->setValue(static_cast<int>(std::min<std::int64_t>(*recipe_.sram, kLargest)));
  });

  add_choice(form, "Order",
             "The order in which the column blocks are folded in.\nPublic FlashAttention-2 kernels loop in reverse.",
             &Recipe::order);
  add_choice(form, "Skip",
             "Which tiles are not visited.\ngeometry: those that causal or window leaves empty.\n"
             "all: also those that a mask from a file leaves empty.\nnone: every tile is visited.",
             &Recipe::skip);
  add_choice(
      form, "Guard",
      "What protects a row without a visible key from (-inf) - (-inf).\nclamp: exponents use 0 where m is -inf.\n"
      "skip: such a row keeps m, l, O in this tile.\nnone: the textbook loop.",
      &Recipe::guard);
  auto* empty_row =
      add_choice(form, "Empty row", "What a row without any visible key becomes at the end", &Recipe::empty_row);
  empty_row->setPlaceholderText("as computed");
  show_.push_back([this, empty_row] {  // without a guard no policy is in force
    empty_row->setEnabled(recipe_.guard != Guard::none);
    if (recipe_.guard == Guard::none) empty_row->setCurrentIndex(-1);
  });

  normalise_ = new QComboBox;
  normalise_->setObjectName("Normalise");
  normalise_->setFocusPolicy(Qt::TabFocus);
  normalise_->setToolTip(
      "Divide by l at the end, or keep O normalised in each tile.\nusual: each for flash1, end for flash2.");
  normalise_->addItems({"usual", "end", "each"});
  form->addRow("Normalise", normalise_);
  connect(normalise_, &QComboBox::activated, this, [this](int index) {
    recipe_.normalise = index == 0 ? std::nullopt : std::optional(index == 1 ? Normalise::end : Normalise::each);
    edited();
  });
  show_.push_back([this] {
    Recipe usual = recipe_;
    usual.normalise.reset();
    normalise_->setItemText(0, "usual (" + text(name(usual.normalised())) + ')');
    normalise_->setCurrentIndex(!recipe_.normalise ? 0 : *recipe_.normalise == Normalise::end ? 1 : 2);
  });

  add_choice(form, "Numerators",
             "running: P = exp(S - m_new).\ntile: on the tile's own maximum and corrected after,\nas printed in the "
             "first paper's Algorithm 1.",
             &Recipe::numerators);
  add_choice(form, "Mask apply", "select: masked scores become -inf.\nadd: the bias is added, so NaN + -inf = NaN.",
             &Recipe::mask_apply);
  auto* numerics = new NumericsBox;
  form->addRow(numerics);
  connect(numerics, &NumericsBox::edited, this, [this](const Numerics& edited_numerics) {
    recipe_.numerics = edited_numerics;
    edited();
  });
  show_.push_back([this, numerics] { numerics->show_numerics(recipe_.numerics, shape_.type); });
  add_choice(form, "Defect", "One deliberate mistake, to see what it does", &Recipe::defect);

  sentinel_row_ = new QWidget;
  auto* sentinel_layout = new QHBoxLayout(sentinel_row_);
  sentinel_layout->setContentsMargins(0, 0, 0, 0);
  sentinel_ = new QLineEdit;
  sentinel_->setValidator(new QDoubleValidator(sentinel_));
  sentinel_->setToolTip("What stands in for -inf, e.g. -10000 or -65504");
  sentinel_added_ = new QCheckBox("added");
  sentinel_added_->setFocusPolicy(Qt::TabFocus);
  sentinel_added_->setToolTip("Added to the score instead of replacing it");
  sentinel_layout->addWidget(new QLabel("value"));
  sentinel_layout->addWidget(sentinel_, 1);
  sentinel_layout->addWidget(sentinel_added_);
  form->addRow("", sentinel_row_);
  connect(sentinel_, &QLineEdit::editingFinished, this, &RecipePanel::defect_edited);
  connect(sentinel_added_, &QCheckBox::toggled, this, &RecipePanel::defect_edited);
  show_.push_back([this] {
    sentinel_row_->setVisible(recipe_.defect == Defect::finite_sentinel);
    if (!sentinel_->hasFocus()) sentinel_->setText(QString::number(recipe_.sentinel));
    sentinel_added_->setChecked(recipe_.sentinel_added);
  });

  defect_note_ = new QLabel;
  plan_ = new QLabel;
  plan_->setObjectName("plan");
  for (QLabel* label : {defect_note_, plan_}) {
    label->setWordWrap(true);
    label->setTextInteractionFlags(Qt::TextSelectableByMouse);
    form->addRow(label);
  }

  auto* scroll = new QScrollArea;
  scroll->setWidget(inside);
  scroll->setWidgetResizable(true);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  scroll->setFocusPolicy(Qt::NoFocus);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(scroll);
}

void RecipePanel::defect_edited() {
  if (showing_) return;
  bool ok = false;
  const double value = sentinel_->text().toDouble(&ok);
  if (!ok || (value == recipe_.sentinel && sentinel_added_->isChecked() == recipe_.sentinel_added)) return;
  recipe_.sentinel = value;
  recipe_.sentinel_added = sentinel_added_->isChecked();
  edited();
}

void RecipePanel::edited() {
  emit change([recipe = recipe_](Document& document) { document.set_recipe(recipe); });
}

void RecipePanel::refresh(const Document& document) {
  if (!document.problem()) return;
  recipe_ = document.recipe();
  problem_ = document.problem();
  shape_ = problem_->shape();
  show_recipe();
  if (const auto& schedule = document.stage().schedule) {
    plan_->setText(QString("%1 x %2; %3 visited in %4.")
                       .arg(counted(schedule->Tr(), "row block"), counted(schedule->Tc(), "column block"),
                            counted(schedule->tiles(), "tile"), counted(schedule->steps(), "step")));
  }
}

void RecipePanel::show_recipe() {
  showing_ = true;
  for (const auto& show : show_) show();
  const std::string why = why_defect_cannot_show(recipe_, *problem_);
  defect_note_->setVisible(!why.empty());
  defect_note_->setText("This defect cannot show here: " + text(why));
  showing_ = false;
}

}  // namespace flashscope::window
