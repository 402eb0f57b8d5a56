#include "app/window/explorer/explorer_controls.h"

#include <QCheckBox>
#include <QComboBox>
#include <QDoubleSpinBox>
#include <QEvent>
#include <QFormLayout>
#include <QGroupBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QScrollArea>
#include <QSlider>
#include <QSpinBox>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "app/window/explorer/map_data.h"
#include "app/window/text.h"

namespace flashscope::window {
namespace {

// Slider positions are eighths of a power of two.
int position_of(std::int64_t size) {
  return static_cast<int>(std::lround(8 * std::log2(static_cast<double>(std::max<std::int64_t>(size, 1)))));
}
std::int64_t size_at(int position) { return std::llround(std::exp2(position / 8.0)); }

QStringList words(std::initializer_list<const char*> list) {
  QStringList result;
  for (const char* word : list) result << word;
  return result;
}

}  // namespace

QSlider* ExplorerControls::add_size(QFormLayout* form, const QString& label, const QString& tip, std::int64_t largest,
                                    std::int64_t (*get)(const ExplorerState&),
                                    void (*set)(ExplorerState&, std::int64_t), bool own) {
  auto* row = new QHBoxLayout;
  auto* slider = new QSlider(Qt::Horizontal);
  slider->setRange(0, position_of(largest));
  slider->setPageStep(8);
  auto* box = new QSpinBox;
  box->setRange(1, static_cast<int>(largest));
  box->setGroupSeparatorShown(true);
  box->setKeyboardTracking(false);
  box->setMinimumWidth(spin_width());
  box->setObjectName(label);
  slider->setObjectName(label + " slider");
  for (QWidget* widget : {static_cast<QWidget*>(slider), static_cast<QWidget*>(box)})
    widget->setToolTip(tip), widget->setAccessibleName(label);
  row->addWidget(slider, 1);
  row->addWidget(box);
  form->addRow(label, row);
  const auto take = [this, get, set, own, largest](std::int64_t value) {
    value = std::clamp<std::int64_t>(value, 1, largest);
    if (showing_ || get(state_) == value) return;
    set(state_, value);
    changed(own);
  };
  connect(box, &QSpinBox::valueChanged, this, [take](int value) { take(value); });
  connect(slider, &QSlider::valueChanged, this, [take](int position) { take(size_at(position)); });
  show_.push_back([this, slider, box, get] {
    const std::int64_t value = get(state_);
    slider->setValue(position_of(value));
    box->setValue(static_cast<int>(std::min<std::int64_t>(value, box->maximum())));
  });
  return slider;
}

QComboBox* ExplorerControls::add_choice(QFormLayout* form, const QString& label, const QString& tip,
                                        const QStringList& words, const std::function<int()>& get,
                                        const std::function<void(int)>& set, bool own) {
  auto* box = new QComboBox;
  box->addItems(words);
  box->setToolTip(tip);
  box->setObjectName(label);
  box->setAccessibleName(label);
  box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  form->addRow(label, box);
  connect(box, &QComboBox::activated, this, [this, set, own](int index) { set(index), changed(own); });
  show_.push_back([box, get] { box->setCurrentIndex(get()); });
  return box;
}

void ExplorerControls::add_what_if(QFormLayout* form, const QString& label, const QString& suffix, double unit,
                                   std::function<Quantity()> quantity) {
  auto* box = new QDoubleSpinBox;
  box->setRange(0, 1e9);
  box->setDecimals(1);
  box->setGroupSeparatorShown(true);
  box->setSuffix(suffix);
  box->setSpecialValueText("no figure");
  box->setKeyboardTracking(false);
  box->setStepType(QAbstractSpinBox::AdaptiveDecimalStepType);
  box->setObjectName(label);
  box->setAccessibleName(label);
  form->addRow(label, box);
  connect(box, &QDoubleSpinBox::valueChanged, this, [this, unit, quantity](double value) {
    if (showing_ || !state_.device) return;
    state_.device = value > 0 ? what_if(*state_.device, quantity(), value * unit) : *state_.device;
    changed(false);
  });
  show_.push_back([this, box, unit, quantity] {
    const auto value = state_.device ? state_.device->value(quantity()) : std::nullopt;
    box->setEnabled(state_.device.has_value());
    box->setValue(value ? *value / unit : 0);
    if (state_.device && (*state_.device)[quantity()])
      box->setToolTip(text((*state_.device)[quantity()]->source) + "\nChange it: what-if");
  });
}

ExplorerControls::ExplorerControls(QWidget* parent) : QWidget(parent) {
  auto* inside = new QWidget;
  auto* column = new QVBoxLayout(inside);
  const auto group = [&](const QString& title) {
    auto* box = new QGroupBox(title);
    auto* form = new QFormLayout(box);
    form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
    form->setVerticalSpacing(5);
    column->addWidget(box);
    return form;
  };

  QFormLayout* problem = group("Problem");
  follow_ = new QCheckBox("follow the stepper");
  follow_->setObjectName("follow");
  follow_->setChecked(true);
  follow_->setToolTip("Shape, mask and recipe of what is stepped; anything changed here ends that");
  problem->addRow("", follow_);
  connect(follow_, &QCheckBox::toggled, this, [this](bool on) {
    if (on && stepper_) follow(stepper_->shape, stepper_->mask, stepper_->recipe);
  });
  using State = ExplorerState;
  add_size(
      problem, "N", "Rows of Q and of K", 1 << 24, [](const State& s) { return s.problem.shape.Nq; },
      [](State& s, std::int64_t n) {
        s.problem.shape.Nq = s.problem.shape.Nk = n;
        s.problem.mask.keep.reset(), s.problem.mask.bias.reset();  // files have one size
      },
      true);
  add_size(
      problem, "d", "Columns of Q, K and V", 256, [](const State& s) { return s.problem.shape.d; },
      [](State& s, std::int64_t n) { s.problem.shape.d = s.problem.shape.dv = n; }, true);
  add_size(
      problem, "heads", "Query heads, each with keys of its own", 1024,
      [](const State& s) { return s.problem.shape.heads; },
      [](State& s, std::int64_t n) {
        s.problem.shape.heads = s.problem.shape.kv_heads = n;
        s.problem.mask.keep.reset(), s.problem.mask.bias.reset();
      },
      true);
  add_choice(
      problem, "type", "Of Q, K, V and O: bytes are in kernel units",
      words({"float64", "float32", "float16", "bfloat16"}),
      [this] {
        for (int n = 0; n < 4; ++n)
          if (parse_dtype(words({"float64", "float32", "float16", "bfloat16"})[n].toStdString()) ==
              state_.problem.shape.type)
            return n;
        return 0;
      },
      [this](int n) {
        state_.problem.shape.type = parse_dtype(words({"float64", "float32", "float16", "bfloat16"})[n].toStdString());
      },
      true);
  add_choice(
      problem, "causal", "Tiles above the diagonal are not visited", words({"no", "top-left", "bottom-right"}),
      [this] { return static_cast<int>(state_.problem.mask.causal); },
      [this](int n) { state_.problem.mask.causal = static_cast<Causal>(n); }, true);
  add_choice(
      problem, "order", "Which loop is outside", words({"standard", "flash1: K, V outside", "flash2: Q outside"}),
      [this] { return static_cast<int>(state_.problem.recipe.algorithm); },
      [this](int n) {
        state_.problem.recipe.algorithm = static_cast<Algorithm>(n);
        state_.problem.recipe.normalise.reset();
      },
      true);
  const auto recipe_row = [&](const char* whose, const QString& tip) {
    auto* label = new QLabel;
    label->setWordWrap(true);
    label->setObjectName(whose);
    label->setToolTip(tip);
    problem->addRow(whose, label);
    return label;
  };
  explored_ = recipe_row("explored",
                         "The recipe that the curves, the roofline and the saving are of; the square in the map. A "
                         "click in the map chooses another");
  stepped_ = recipe_row("stepper", "The recipe that the stepper steps; the ring in the map");
  add_size(
      problem, "M", "On-chip budget in elements, for the paper's rule", 1 << 22,
      [](const State& s) { return s.problem.M; }, [](State& s, std::int64_t n) { s.problem.M = n; }, false);
  add_choice(
      problem, "units", "Source: every element counts one. Kernel: bytes, with O, m, l, LSE in float32 where kept",
      words({"elements (source)", "bytes (kernel)"}), [this] { return static_cast<int>(state_.problem.units); },
      [this](int n) {
        state_.problem.units = static_cast<Units>(n);
        if (state_.selection.measure <= Measure::bytes)
          state_.selection.measure = n == 0 ? Measure::elements : Measure::bytes;
      },
      false);

  QFormLayout* map = group("Map");
  QStringList colours = words({"traffic, elements", "traffic, bytes", "bytes on chip", "FLOPs on masked scores",
                               "FLOPs beyond the edge", "arithmetic intensity", "thread blocks"});
  for (int n = 0; n < kGauges; ++n) colours << "measured: " + text(title(static_cast<Gauge>(n)));
  QComboBox* colour = add_choice(
      map, "colour",
      "What the map is coloured by: formula, or what a GPU measured; curves show the measured figure too", colours,
      [this] {
        return state_.gauge ? kMeasures + 1 + static_cast<int>(*state_.gauge)
                            : static_cast<int>(state_.selection.measure);
      },
      [this](int n) {
        state_.gauge = n < kMeasures ? std::nullopt : std::optional(static_cast<Gauge>(n - kMeasures - 1));
        if (state_.gauge) return;
        state_.selection.measure = static_cast<Measure>(n);
        if (n < 2) state_.problem.units = static_cast<Units>(n);
      },
      false);
  colour->insertSeparator(kMeasures);  // one place of its own
  QStringList tensors{"all tensors"};
  for (int n = 0; n < kOperands; ++n) tensors << text(name(static_cast<Operand>(n)));
  add_choice(
      map, "tensor", "Of the traffic", tensors,
      [this] { return state_.selection.operand ? static_cast<int>(*state_.selection.operand) + 1 : 0; },
      [this](int n) { state_.selection.operand = n == 0 ? std::nullopt : std::optional(static_cast<Operand>(n - 1)); },
      false);
  add_choice(
      map, "direction", "Of the traffic", words({"read and written", "read", "written"}),
      [this] { return static_cast<int>(state_.selection.direction); },
      [this](int n) { state_.selection.direction = static_cast<Direction>(n); }, false);
  add_size(
      map, "from", "Smallest Br and Bc of the map", 1 << 20, [](const State& s) { return s.Br.first; },
      [](State& s, std::int64_t n) {
        for (AxisRange* range : {&s.Br, &s.Bc}) range->first = n, range->last = std::max(range->last, n);
      },
      false);
  add_size(
      map, "to", "Largest Br and Bc of the map", 1 << 20, [](const State& s) { return s.Br.last; },
      [](State& s, std::int64_t n) {
        for (AxisRange* range : {&s.Br, &s.Bc}) range->last = n, range->first = std::min(range->first, n);
      },
      false);
  add_choice(
      map, "axes", "Spacing of the block sizes", words({"linear", "logarithmic"}),
      [this] { return state_.Br.logarithmic ? 1 : 0; },
      [this](int n) { state_.Br.logarithmic = state_.Bc.logarithmic = n == 1; }, false);

  QFormLayout* hardware = group("Hardware");
  sheets_ = hardware_sheets();
  sheets_.push_back(custom_sheet());
  QStringList names{"no limits"};
  for (const HardwareSheet& sheet : sheets_) names << text(sheet.name);
  device_ = add_choice(
      hardware, "device", "Whose limits, bandwidth and peaks; the Hardware tab names their sources", names,
      [this] {
        if (!sheet_) return 0;
        for (std::size_t n = 0; n < sheets_.size(); ++n)
          if (sheets_[n].name == sheet_->name) return static_cast<int>(n) + 1;
        return 0;
      },
      [this](int n) {
        sheet_ = n == 0 ? std::nullopt : std::optional(sheets_[static_cast<std::size_t>(n - 1)]);
        state_.device = sheet_;
      },
      false);
  add_what_if(hardware, "shared", " KiB a block", 1024, [] { return Quantity::shared_per_block; });
  add_what_if(hardware, "L2", " MiB", 1 << 20, [] { return Quantity::l2; });
  add_what_if(hardware, "SMs", "", 1, [] { return Quantity::sms; });
  add_what_if(hardware, "bandwidth", " GB/s", 1e9, [] { return Quantity::bandwidth; });
  add_what_if(hardware, "peak", " TFLOP/s", 1e12, [this] { return peak_quantity(state_.problem.shape.type); });
  column->addStretch(1);

  sheet_ = sheet_named("H200");
  state_.device = sheet_;
  auto* scroll = new QScrollArea;
  scroll->setWidget(inside);
  scroll->setWidgetResizable(true);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(scroll);
  show_state();
}

bool ExplorerControls::follows() const { return follow_->isChecked(); }

void ExplorerControls::follow(const Shape& shape, const Mask& mask, const Recipe& recipe) {
  stepper_ = CurveProblem{shape, mask, recipe};
  if (!follows()) return show_state();
  CurveProblem& problem = state_.problem;
  if (problem.shape == shape && problem.mask == mask && problem.recipe == recipe) return;
  problem.shape = shape, problem.mask = mask, problem.recipe = recipe;
  show_state();
  emit edited();
}

void ExplorerControls::add_device(const HardwareSheet& sheet) {
  sheets_.push_back(sheet);
  device_->addItem("found: " + text(sheet.name));
}

void ExplorerControls::choose_blocks(std::int64_t Br, std::int64_t Bc) {
  state_.problem.recipe.Br = Br, state_.problem.recipe.Bc = Bc;
  state_.problem.recipe.sram.reset();
  show_state();
  emit edited();
}

void ExplorerControls::explore(const MeasuredPoint& point) {
  CurveProblem& problem = state_.problem;
  problem.shape = point.shape, problem.mask = point.mask, problem.recipe = point.recipe;
  problem.units = Units::kernel;  // counters count bytes
  if (state_.selection.measure == Measure::elements) state_.selection.measure = Measure::bytes;
  changed(true);
}

void ExplorerControls::choose_gauge(Gauge gauge) {
  state_.gauge = gauge;
  changed(false);
}

void ExplorerControls::choose_device(std::string_view name) {
  const HardwareSheet* known = find_sheet(name);
  // One that was found comes after the sheets, and says more.
  const auto found = std::find_if(sheets_.rbegin(), sheets_.rend(), [&](const HardwareSheet& sheet) {
    return sheet.name == name || (known && sheet.name == known->name);
  });
  if (found == sheets_.rend() || (sheet_ && sheet_->name == found->name)) return;
  state_.device = sheet_ = *found;
  changed(false);
}

void ExplorerControls::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() != QEvent::FontChange) return;
  for (QSpinBox* box : findChildren<QSpinBox*>()) box->setMinimumWidth(spin_width());
}

// Room for "16,777,216" and the arrows.
int ExplorerControls::spin_width() const { return 6 * fontMetrics().height() + fontMetrics().height() / 2; }

void ExplorerControls::changed(bool own) {
  if (own) {
    const QSignalBlocker quiet(follow_);
    follow_->setChecked(false);
  }
  show_state();
  emit edited();
}

void ExplorerControls::show_state() {
  showing_ = true;
  for (const auto& show : show_) show();
  const CurveProblem& explored = state_.problem;
  explored_->setText(recipe_text(explored.recipe) + (explored.mask.structural_only() ? "" : ", mask from a file"));
  stepped_->setText(stepper_ ? recipe_text(stepper_->recipe) : QString("none"));
  showing_ = false;
}

}  // namespace flashscope::window
