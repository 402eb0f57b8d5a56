// What `count` says of one recipe, as JSON: the ledger, the closed forms and the bounds. `sweep` says it of every
// point.
#pragma once

#include "app/command_line/output.h"

namespace flashscope::command_line {

Json ledger_report(const Schedule& schedule, const ElementsAndBytes& traffic, const Formula& form);

}  // namespace flashscope::command_line
