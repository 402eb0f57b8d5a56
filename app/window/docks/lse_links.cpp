#include "app/window/docks/lse_links.h"

#include <QStringList>

#include "app/window/text.h"
#include "engine/error.h"

namespace flashscope::window {

QString lse_links(const LseConvention& now, const Colours& colours) {
  QStringList links;
  const auto other = [&](bool LseConvention::*part, const char* on, const char* off) {
    LseConvention to = now;
    to.*part = !(now.*part);
    links << QString("<a href='lse:%1' style='color:%2'>%3</a>")
                 .arg(text(words(to)), colours.accent.name(), now.*part ? off : on);
  };
  other(&LseConvention::base2, "base 2", "natural log");
  other(&LseConvention::negative, "the other sign", "the usual sign");
  other(&LseConvention::plus_inf_empty, "+inf for an empty row", "-inf for an empty row");
  return QString("<b>%1</b>; take %2").arg(text(flashscope::text(now)), links.join(", "));
}

Change lse_change(const QUrl& link) {
  if (link.scheme() != "lse") return {};
  try {
    return [to = parse_lse(link.path().toStdString())](Document& document) { document.set_lse(to); };
  } catch (const InputError&) {
    return {};
  }
}

}  // namespace flashscope::window
