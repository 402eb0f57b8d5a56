// The LSE convention in force beside a number, and the others a click away: the same words in every panel that shows
// LSE. A link is "lse:WORDS", the convention that it takes.
#pragma once

#include <QString>
#include <QUrl>

#include "app/window/panel.h"
#include "app/window/theme.h"
#include "engine/attention/lse_convention.h"

namespace flashscope::window {

// "natural log; take base 2, the other sign, +inf for an empty row", with links.
QString lse_links(const LseConvention& now, const Colours& colours);
// The change that a click on such a link asks for; empty for any other link.
Change lse_change(const QUrl& link);

}  // namespace flashscope::window
