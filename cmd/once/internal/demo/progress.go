package demo

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/killstorm"
	"github.com/oncelib/once/internal/base/words"
)

// meter shows the progress of a storm: a bar on a terminal, otherwise a line from time to time.
type meter struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	drawn    time.Time
	last     killstorm.Progress
}

func newMeter(w io.Writer) *meter { return &meter{w: w, terminal: cli.IsTerminal(w)} }

func (m *meter) show(p killstorm.Progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.terminal {
		if time.Since(m.drawn) > 50*time.Millisecond || p.Stage != m.last.Stage {
			m.drawn, m.last = time.Now(), p
			fmt.Fprint(m.w, "\r"+bar(p)+"\x1b[K")
		}
		return
	}
	if p.Killed != m.last.Killed || p.Stage != m.last.Stage {
		fmt.Fprintln(m.w, line(p))
		m.last = p
	}
}

// end removes the bar.
func (m *meter) end() {
	if m.terminal {
		fmt.Fprint(m.w, "\r\x1b[K")
	}
}

func bar(p killstorm.Progress) string {
	const width = 12 // so that the line has at most 80 columns
	full := width * p.Finished / max(1, p.Orders)
	return fmt.Sprintf("%s%s %s  %d/%d  kills %d/%d  sent %d%s", strings.Repeat("█", full), strings.Repeat("░", width-full),
		p.Stage, p.Finished, p.Orders, p.Killed, p.Kills, p.Sent, words.Either(p.Events, fmt.Sprintf("  events %d", p.Delivered), words.Either(p.What == "", fmt.Sprintf("  dropped %d", p.Dropped), "")))
}

func line(p killstorm.Progress) string {
	more := words.Either(p.Events, fmt.Sprintf(", %d events delivered", p.Delivered), fmt.Sprintf(", %d answers dropped", p.Dropped))
	return fmt.Sprintf("%-9s %d/%d %s  %d/%d kills  %d requests sent%s",
		p.Stage, p.Finished, p.Orders, cmp.Or(p.What, "refunds"), p.Killed, p.Kills, p.Sent, words.Either(p.What == "", more, ""))
}
