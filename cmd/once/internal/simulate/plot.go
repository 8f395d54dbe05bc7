package simulate

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// scale maps values to a drawing with a width and a height, with its zero at the bottom.
type scale struct {
	left, top, wide, high float64
	length, most          float64 // seconds, and the value at the top
	log                   bool
}

func (s scale) x(seconds float64) float64 { return s.left + s.wide*seconds/s.length }

func (s scale) y(v float64) float64 {
	part := v / s.most
	if s.log {
		part = math.Log10(1+v) / math.Log10(1+s.most)
	}
	return s.top + s.high*(1-min(1, part))
}

// line is the path of a list of values that are every apart.
func (s scale) line(values []float64, every float64) string {
	var b strings.Builder
	for i, v := range values {
		command := "L"
		if i == 0 {
			command = "M"
		}
		fmt.Fprintf(&b, "%s%.1f %.1f", command, s.x((float64(i)+0.5)*every), s.y(v))
	}
	return b.String()
}

func (s scale) area(values []float64, every float64) string {
	last := (float64(len(values)) - 0.5) * every
	return fmt.Sprintf("%sL%.1f %.1fL%.1f %.1fZ", s.line(values, every), s.x(last), s.y(0), s.x(every/2), s.y(0))
}

func (s scale) wrong(o Outcome) string {
	return fmt.Sprintf(`<rect class="wrong" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`,
		s.x(o.From.Seconds()), s.top, s.x(o.To.Seconds())-s.x(o.From.Seconds()), s.high)
}

// point is the number of steps per point of a drawing.
const point = int(time.Second / Step)

// rates returns counts by step as numbers a second.
func rates(counts []int) (list []float64) {
	for i := 0; i+point <= len(counts); i += point {
		list = append(list, float64(sum(counts[i:i+point])))
	}
	return list
}

// levels returns the last value of each second.
func levels(counts []int) (list []float64) {
	for i := point - 1; i < len(counts); i += point {
		list = append(list, float64(counts[i]))
	}
	return list
}

// highest is the highest value of all results, so that their drawings can be compared.
func highest(o Outcome, of func(Result) []float64) (most float64) {
	for _, r := range o.Results {
		for _, v := range of(r) {
			most = max(most, v)
		}
	}
	return max(1, most)
}

func succeeded(r Result) []float64 { return rates(r.Series.Good) }
func attempts(r Result) []float64  { return rates(r.Series.Attempts) }
func queued(r Result) []float64    { return levels(r.Series.Queue) }

// amplified returns the number of attempts per intent, for each second.
func amplified(r Result) []float64 {
	list, intents := attempts(r), rates(r.Series.Intents)
	for i := range list {
		list[i] /= max(1, intents[i])
	}
	return list
}

// spark draws one series of one result. All results have the same scale.
func spark(o Outcome, r Result, kind string) string {
	s := scale{top: 2, wide: 190, high: 44, length: o.Length.Seconds()}
	of := map[string]func(Result) []float64{"goodput": succeeded, "attempts": attempts, "queue": queued}[kind]
	values := of(r)
	s.most, s.log = 1.05*highest(o, of), kind == "queue"
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="spark %s" viewBox="0 0 190 48" role="img" aria-label="%s of %s">`, kind, kind, r.Name)
	b.WriteString(s.wrong(o))
	fmt.Fprintf(&b, `<path class="area" d="%s"/><path class="line" d="%s"/>`, s.area(values, 1), s.line(values, 1))
	if kind != "queue" {
		fmt.Fprintf(&b, `<path class="asked" d="%s"/>`, s.line(rates(r.Series.Intents), 1))
	}
	fmt.Fprintf(&b, `<path class="axis" d="M0 %.1fH190"/></svg>`, s.y(0))
	return b.String()
}

// shown are the policies in the large drawing, by the class of their lines.
var shown = []struct{ name, class string }{
	{"full jitter", "bad"}, {"no retries", "plain"}, {"once/retry", "client"}, {"once on both sides", "both"},
}

// chart draws a few policies: their successes, or their attempts in an outage, in which nothing succeeds.
func chart(o Outcome) string {
	of, label := succeeded, "calls that succeed per second"
	if o.Down {
		of, label = attempts, "attempts per second"
	}
	var asked []float64
	if len(o.Results) > 0 {
		asked = rates(o.Results[0].Series.Intents)
	}
	return overTime(o, label, of, asked, 250)
}

// amplification draws how many attempts the same policies make for an intent. The reference line is one attempt each.
func amplification(o Outcome) string {
	one := make([]float64, int(o.Length.Seconds()))
	for i := range one {
		one[i] = 1
	}
	return overTime(o, "attempts per call", amplified, one, 150)
}

// overTime draws a series of the shown policies, and the reference line asked.
func overTime(o Outcome, label string, of func(Result) []float64, asked []float64, high float64) string {
	s := scale{left: 52, top: 22, wide: 1010, high: high, length: o.Length.Seconds(), most: 1.1 * highest(o, of)}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="chart" viewBox="0 0 1080 %.0f" role="img" aria-label="%s, over time">`, high+60, label)
	b.WriteString(s.wrong(o))
	fmt.Fprintf(&b, `<text class="note" x="%.1f" y="%.1f">the failure</text>`, s.x(o.From.Seconds()), s.top-7)
	for v := 0.0; v <= s.most; v += nice(s.most / 5) {
		fmt.Fprintf(&b, `<path class="grid" d="M%.1f %.1fH%.1f"/><text class="tick" x="%.1f" y="%.1f" text-anchor="end">%s</text>`,
			s.left, s.y(v), s.left+s.wide, s.left-8, s.y(v)+4, tick(v))
	}
	for t := 0.0; t <= s.length; t += 10 {
		fmt.Fprintf(&b, `<text class="tick" x="%.1f" y="%.1f" text-anchor="middle">%.0f s</text>`, s.x(t), s.top+s.high+20, t)
	}
	if len(asked) > 0 {
		fmt.Fprintf(&b, `<path class="asked" d="%s"/>`, s.line(asked, 1))
	}
	for _, show := range shown {
		for _, r := range o.Results {
			if r.Name == show.name {
				fmt.Fprintf(&b, `<path class="line %s" d="%s"/>`, show.class, s.line(of(r), 1))
			}
		}
	}
	b.WriteString(`</svg>`)
	return b.String()
}

// tick writes a value of an axis.
func tick(v float64) string {
	if v != math.Trunc(v) {
		return fmt.Sprintf("%g", v)
	}
	return thousands(int(v))
}

// nice returns a round number near v, for the distance between two lines of a grid.
func nice(v float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if v <= m*unit {
			return m * unit
		}
	}
	return 10 * unit
}
