package simulate

import (
	"fmt"
	"strings"
)

// bars draws how long the service needed to recover with each policy. If it did not recover in the simulated time, the bar has no end.
func bars(o Outcome) string {
	const left, row, thick, top = 160.0, 26.0, 16.0, 6.0
	end := (o.Length - o.To).Seconds()
	most := 1.0
	for _, r := range o.Results {
		most = max(most, r.Recovery)
	}
	s := scale{left: left, wide: 820, length: min(end, 1.15*most)}
	bottom := top + row*float64(len(o.Results))
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="bars" viewBox="0 0 1080 %.0f" role="img" aria-label="time until the service has recovered">`, bottom+24)
	for t := 0.0; t <= s.length; t += nice(s.length / 8) {
		fmt.Fprintf(&b, `<path class="grid" d="M%.1f %.1fV%.1f"/><text class="tick" x="%.1f" y="%.1f" text-anchor="middle">%s s</text>`,
			s.x(t), top, bottom, s.x(t), bottom+18, tick(round(t)))
	}
	for i, r := range o.Results {
		y, to := top+row*float64(i)+(row-thick)/2, s.x(r.Recovery)
		class := r.Mood()
		if r.Recovery < 0 {
			to = s.left + s.wide + 12
			class += " endless"
		}
		fmt.Fprintf(&b, `<text class="name" x="%.1f" y="%.1f" text-anchor="end">%s</text><rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2"/><text class="value" x="%.1f" y="%.1f">%s</text>`,
			left-12, y+thick-3.5, r.Name, class, left, y, max(2, to-left), thick, max(left+2, to)+8, y+thick-3.5, r.Recovered())
	}
	b.WriteString(`</svg>`)
	return b.String()
}
