#include "app/window/open_dialog.h"

#include <QComboBox>
#include <QDialogButtonBox>
#include <QDoubleValidator>
#include <QFileDialog>
#include <QFileInfo>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSpinBox>
#include <QVBoxLayout>
#include <algorithm>

#include "app/window/text.h"

namespace flashscope::window {
namespace {

constexpr std::array kRoles = {"q", "k", "v", "mask", "bias", "o", "lse"};

QString array_text(const ArrayInfo& array) {
  return text(array.name) + "   " + text(shape_text(array.shape)) + "   " + text(name(array.type));
}

// q.npy next to k.npy and v.npy, layer0_q.npy next to layer0_k.npy.
QString sibling(const QString& path, QChar role) {
  const QFileInfo info(path);
  const QString name = info.completeBaseName();
  for (qsizetype at = name.size() - 1; at >= 0; --at) {
    const QChar letter = name[at].toLower();
    if (letter != 'q' && letter != 'k' && letter != 'v') continue;
    QString other = name;
    other[at] = name[at].isUpper() ? role.toUpper() : role;
    QString candidate = info.path() + '/' + other + '.' + info.suffix();
    if (QFileInfo::exists(candidate)) return candidate;
  }
  return {};
}

}  // namespace

bool is_clear(const FileReport& report) {
  if (report.format == "npy" || report.batches != 1) return false;
  for (const char* role : {"q", "k", "v"})
    if (!report.roles.contains(role)) return false;
  if (report.layout) return true;
  // (N, heads, d) and (heads, N, d) look alike; usually there are fewer heads than rows.
  const auto q = std::find_if(report.arrays.begin(), report.arrays.end(),
                              [&](const ArrayInfo& array) { return array.name == report.roles.at("q"); });
  if (q == report.arrays.end() || q->shape.size() < 3) return q != report.arrays.end();
  return q->shape[q->shape.size() - 3] <= q->shape[q->shape.size() - 2];
}

OpenDialog::OpenDialog(const std::filesystem::path& path, const FileReport& report, QWidget* parent)
    : QDialog(parent), path_(path), separate_(report.format == "npy") {
  setWindowTitle("Open " + text(path.filename().string()));
  setMinimumWidth(520);
  auto* layout = new QVBoxLayout(this);
  auto* form = new QFormLayout;
  form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  if (separate_)
    add_paths(form);
  else
    add_roles(form, report);

  layout_ = new QComboBox;
  layout_->addItem("as the file says, else (heads, N, d)");
  layout_->addItem("(heads, N, d)");
  layout_->addItem("(N, heads, d)");
  if (report.layout) layout_->setCurrentIndex(*report.layout == Layout::hnd ? 1 : 2);
  form->addRow("Layout", layout_);
  batch_ = new QSpinBox;
  batch_->setRange(0, static_cast<int>(std::max<std::int64_t>(report.batches - 1, separate_ ? 1 << 20 : 0)));
  batch_->setEnabled(separate_ || report.batches > 1);
  batch_->setSuffix(separate_ ? QString() : " of " + grouped(report.batches));
  form->addRow("Batch", batch_);
  head_ = new QSpinBox;
  head_->setRange(-1, 1 << 20);
  head_->setValue(-1);
  head_->setSpecialValueText("all");
  form->addRow("Query head", head_);
  mask_means_ = new QComboBox;
  mask_means_->addItems({"1 keeps a key", "1 drops a key"});
  form->addRow("Mask", mask_means_);
  causal_ = new QComboBox;
  causal_->addItems({"none", "top-left", "bottom-right"});
  form->addRow("Causal", causal_);
  scale_ = new QLineEdit;
  scale_->setValidator(new QDoubleValidator(scale_));
  scale_->setPlaceholderText("as the file says, else 1 / sqrt(d)");
  form->addRow("Scale", scale_);
  layout->addLayout(form);
  note_ = new QLabel;
  note_->setWordWrap(true);
  layout->addWidget(note_);
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Open | QDialogButtonBox::Cancel);
  open_ = buttons->button(QDialogButtonBox::Open);
  layout->addWidget(buttons);
  connect(buttons, &QDialogButtonBox::accepted, this, &QDialog::accept);
  connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
  check();
}

void OpenDialog::add_roles(QFormLayout* form, const FileReport& report) {
  form->addRow(new QLabel(text(report.format) + QString(", %1 arrays").arg(report.arrays.size())));
  for (const char* role : kRoles) {
    auto* box = new QComboBox;
    box->setObjectName(role);
    box->addItem("none", QString());
    for (const ArrayInfo& array : report.arrays) box->addItem(array_text(array), text(array.name));
    if (const auto guess = report.roles.find(role); guess != report.roles.end())
      box->setCurrentIndex(std::max(0, box->findData(text(guess->second))));
    roles_[role] = box;
    form->addRow(role, box);
    connect(box, &QComboBox::currentIndexChanged, this, &OpenDialog::check);
  }
}

void OpenDialog::add_paths(QFormLayout* form) {
  form->addRow(new QLabel("A .npy holds one array: q, k and v come from three files."));
  const QString first = text(path_.string());
  for (const char* role : {"q", "k", "v", "mask", "bias"}) {
    auto* row = new QHBoxLayout;
    auto* edit = new QLineEdit(QString(role).size() == 1 ? sibling(first, QChar(role[0])) : QString());
    edit->setObjectName(role);
    auto* browse = new QPushButton("...");
    browse->setAutoDefault(false);
    row->addWidget(edit, 1);
    row->addWidget(browse);
    form->addRow(role, row);
    paths_[role] = edit;
    connect(edit, &QLineEdit::textChanged, this, &OpenDialog::check);
    connect(browse, &QPushButton::clicked, this, [this, edit, role] {
      const QString chosen =
          QFileDialog::getOpenFileName(this, QString("Open %1").arg(role), QFileInfo(text(path_.string())).path(),
                                       "NumPy arrays (*.npy);;All files (*)");
      if (!chosen.isEmpty()) edit->setText(chosen);
    });
  }
  if (paths_["q"]->text().isEmpty() && paths_["k"]->text().isEmpty()) paths_["q"]->setText(first);
}

void OpenDialog::check() {
  QStringList missing;
  for (const char* role : {"q", "k", "v"})
    if (separate_ ? paths_[role]->text().isEmpty() : roles_[role]->currentIndex() == 0) missing << role;
  if (open_) open_->setEnabled(missing.isEmpty());
  if (note_) note_->setText(missing.isEmpty() ? QString() : "Still to be chosen: " + missing.join(", "));
}

ProblemFiles OpenDialog::files() const {
  ProblemFiles result;
  if (separate_) {
    const auto path = [&](const char* role) { return std::filesystem::path(paths_.at(role)->text().toStdString()); };
    result.q = path("q"), result.k = path("k"), result.v = path("v"), result.mask = path("mask"),
    result.bias = path("bias");
  } else {
    result.input = path_;
    for (const auto& [role, box] : roles_)
      if (box->currentIndex() > 0) result.names[role] = box->currentData().toString().toStdString();
  }
  if (layout_->currentIndex() > 0) result.layout = layout_->currentIndex() == 1 ? Layout::hnd : Layout::nhd;
  result.batch = batch_->value();
  if (head_->value() >= 0) result.head = head_->value();
  if (!scale_->text().isEmpty()) result.scale = scale_->text().toDouble();
  result.mask_means = mask_means_->currentIndex() == 0 ? MaskMeans::keep : MaskMeans::drop;
  result.causal = static_cast<Causal>(causal_->currentIndex());
  return result;
}

}  // namespace flashscope::window
