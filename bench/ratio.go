package main

import "slices"

// comparison is a ratio of two contestants' throughput, and its bar.
type comparison struct {
	over, under string
	bar         float64 // 0: only shown
}

// verdict is a comparison as one run has seen it.
type verdict struct {
	What   string  `json:"what"`
	Median float64 `json:"median"` // of the rounds' ratios
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Bar    float64 `json:"bar,omitempty"`
	AtMost bool    `json:"at_most,omitempty"` // the bar is an upper bound
	Holds  *bool   `json:"holds,omitempty"`
}

// judge takes the ratios round by round.
func judge(p pace, c comparison) verdict {
	over, under := p[c.over], p[c.under]
	ratios := make([]float64, len(over))
	for i := range over {
		ratios[i] = over[i] / under[i]
	}
	v := verdict{What: c.over + " / " + c.under, Bar: c.bar}
	v.Median, v.Min, v.Max = spread(ratios)
	return v.judged()
}

func (v verdict) judged() verdict {
	if v.Bar != 0 {
		holds := v.Median >= v.Bar
		if v.AtMost {
			holds = v.Median <= v.Bar
		}
		v.Holds = &holds
	}
	return v
}

func spread(v []float64) (median, least, most float64) {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	if n == 0 {
		return 0, 0, 0
	}
	return (s[(n-1)/2] + s[n/2]) / 2, s[0], s[n-1]
}
