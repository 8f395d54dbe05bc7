package migrate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/gateway/receipt"
	"github.com/oncelib/once/home"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/webhook"
)

// Capabilities are the capabilities of this release that have tables.
var Capabilities = []migration.Set{migration.Operation, attemptlog.Migrations, operate.Migrations, journal.Migrations, outbox.Migrations, inbox.Migrations, deadletter.Migrations, saga.Migrations, webhook.Migrations, receipt.Migrations, home.Migrations}

func capabilityNames() string { return strings.Join(namesOf(Capabilities), ", ") }

func namesOf(sets []migration.Set) (names []string) {
	for _, s := range sets {
		names = append(names, s.Capability)
	}
	return names
}

// selection is the flag --only: the selected capabilities.
type selection struct{ only []migration.Set }

func (s *selection) Flags(fs *pflag.FlagSet) {
	fs.Func("only", "only the migrations of these `CAPABILITIES`, separated by commas (default: all, which are "+capabilityNames()+")", s.add)
}

func (s *selection) add(names string) error {
	for name := range strings.SplitSeq(names, ",") {
		i := slices.Index(namesOf(Capabilities), strings.TrimSpace(name))
		if i < 0 {
			return fmt.Errorf("the capability %q does not exist; the capabilities are %s", name, capabilityNames())
		}
		s.only = append(s.only, Capabilities[i])
	}
	return nil
}

// sets returns the selected capabilities, which are all without the flag.
func (s *selection) sets() []migration.Set {
	if len(s.only) == 0 {
		return Capabilities
	}
	return s.only
}

// of returns the status of the selected capabilities.
func (s *selection) of(status []migration.Status) (list []migration.Status) {
	selected := namesOf(s.sets())
	for _, st := range status {
		if slices.Contains(selected, st.Capability) {
			list = append(list, st)
		}
	}
	return list
}

// again returns the flag as it was given, for a command that the user can paste.
func (s *selection) again() string {
	if len(s.only) == 0 {
		return ""
	}
	return " --only " + strings.Join(namesOf(s.only), ",")
}
