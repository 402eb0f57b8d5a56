#include "app/window/docks/numerics_box.h"

#include <QComboBox>
#include <QDoubleSpinBox>
#include <QFormLayout>

#include "app/window/text.h"

namespace flashscope::window {
namespace {

constexpr DType kTypes[] = {DType::float32, DType::float16, DType::bfloat16};

}  // namespace

NumericsBox::NumericsBox(QWidget* parent) : QWidget(parent) {
  auto* form = new QFormLayout(this);
  form->setContentsMargins(0, 0, 0, 0);
  form->setVerticalSpacing(6);
  form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  const auto add_box = [&](const QString& label, const QString& tip, const QStringList& words) {
    auto* box = new QComboBox;
    box->setObjectName(label);
    box->setAccessibleName(label);
    box->setToolTip(tip);
    box->setFocusPolicy(Qt::TabFocus);
    box->addItems(words);
    form->addRow(label, box);
    return box;
  };
  preset_ =
      add_box("Numerics",
              "default: nothing is rounded beyond float32.\ntensor core: P in the element type, exp2, and m moves "
              "only beyond 2^8,\nas the flash2_mma kernel does it.",
              {"default", "tensor core", "own"});
  connect(preset_, &QComboBox::activated, this, [this](int index) {
    if (index < 2) numerics_ = index == 0 ? Numerics{} : tensor_core_numerics(element_);
    changed();
  });
  show_.push_back([this] {
    preset_->setCurrentIndex(numerics_ == Numerics{} ? 0 : numerics_ == tensor_core_numerics(element_) ? 1 : 2);
  });
  const auto add_type = [&](const QString& label, const QString& tip, DType Numerics::*type) {
    QStringList words;
    for (const DType each : kTypes) words << text(name(each));
    QComboBox* box = add_box(label, tip, words);
    connect(box, &QComboBox::activated, this, [this, type](int index) {
      numerics_.*type = kTypes[index];
      changed();
    });
    show_.push_back([this, box, type] {
      box->setCurrentIndex(static_cast<int>(std::find(std::begin(kTypes), std::end(kTypes), numerics_.*type) - kTypes));
    });
  };
  add_type("Score type", "Scores are rounded to it: the raw product, and again after the scale", &Numerics::scores);
  add_type("P type", "P is rounded to it before P V; l sums it unrounded", &Numerics::P);
  add_type("Accumulators", "O is rounded to it after every 16 keys and every rescale, and so is l",
           &Numerics::accumulators);
  QComboBox* scale = add_box("Scale", "Applied to the product, or to Q before it", {"after", "before"});
  connect(scale, &QComboBox::activated, this, [this](int index) {
    numerics_.scale = static_cast<ScaleWhen>(index);
    changed();
  });
  QComboBox* exponential =
      add_box("Exponential", "exp(S - m), or 2^(S log2 e - m log2 e) as kernels compute it", {"exp", "exp2"});
  connect(exponential, &QComboBox::activated, this, [this](int index) {
    numerics_.exponential = static_cast<Exponential>(index);
    changed();
  });
  threshold_ = new QDoubleSpinBox;
  threshold_->setObjectName("Threshold");
  threshold_->setRange(0, 64);
  threshold_->setDecimals(1);
  threshold_->setPrefix("2^");
  threshold_->setKeyboardTracking(false);
  threshold_->setToolTip(
      "m moves, and O and l are rescaled, only where a score exceeds m by more than this factor;\n2^0: always");
  form->addRow("Rescale beyond", threshold_);
  connect(threshold_, &QDoubleSpinBox::valueChanged, this, [this](double value) {
    numerics_.rescale_threshold = value;
    changed();
  });
  show_.push_back([this, scale, exponential] {
    scale->setCurrentIndex(static_cast<int>(numerics_.scale));
    exponential->setCurrentIndex(static_cast<int>(numerics_.exponential));
    threshold_->setValue(numerics_.rescale_threshold);
  });
}

void NumericsBox::changed() {
  if (!showing_) emit edited(numerics_);
}

void NumericsBox::show_numerics(const Numerics& numerics, DType element) {
  numerics_ = numerics, element_ = element;
  showing_ = true;
  for (const auto& show : show_) show();
  showing_ = false;
}

}  // namespace flashscope::window
