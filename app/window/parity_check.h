// Compares, in the background, O and LSE of the steps with those of the full runs of the same problem and recipe.
// Starts again when one of them changes.
#pragma once

#include <QObject>
#include <QString>
#include <optional>

#include "app/document.h"
#include "app/window/background.h"
#include "engine/insight/parity.h"

namespace flashscope::window {

class ParityCheck : public QObject {
  Q_OBJECT

 public:
  explicit ParityCheck(QObject* parent = nullptr);
  void refresh(const Document& document);
  const std::optional<Parity>& result() const { return result_; }  // none while it runs, or where nothing was run
  bool running() const { return background_.running(); }
  const QString& failure() const { return failure_; }
  std::int64_t nan_rows() const;  // of the run that was compared: NaN on every side, where all agree

 signals:
  void changed();

 private:
  std::shared_ptr<const Problem> problem_;
  Recipe recipe_;
  RunPointer cpu_, gpu_;
  std::optional<Parity> result_;
  QString failure_;
  Background background_;
};

// "stepped = CPU = GPU: 3.1e-05 <= 0.0012", and all figures for the tooltip. Sides that agree on NaN rows are equal,
// but nothing to be glad of.
struct ParityWords {
  QString badge, details;
  bool good = false, bad = false, nan = false;
};
ParityWords parity_words(const ParityCheck& check);

}  // namespace flashscope::window
