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
	CPU    float64 `json:"cpu,omitempty"` // the same by CPU time of client and server; median
	Bar    float64 `json:"bar,omitempty"`
	AtMost bool    `json:"at_most,omitempty"` // the bar is an upper bound
	Holds  *bool   `json:"holds,omitempty"`
}

// judge takes the ratios round by round.
func judge(field []*contestant, c comparison) verdict {
	over, under := find(field, c.over), find(field, c.under)
	var wall, cpu []float64
	for i, l := range over.laps {
		wall = append(wall, float64(under.laps[i].wall)/float64(l.wall))
		cpu = append(cpu, float64(under.laps[i].cpu())/float64(l.cpu()))
	}
	v := verdict{What: c.over + " / " + c.under, Bar: c.bar}
	v.Median, v.Min, v.Max = spread(wall)
	if under.laps[0].server > 0 || under.laps[0].client > 0 {
		v.CPU, _, _ = spread(cpu)
	}
	return v.judged()
}

func find(field []*contestant, name string) *contestant {
	return field[slices.IndexFunc(field, func(c *contestant) bool { return c.name == name })]
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

// spread returns the median, the least and the most of v.
func spread(v []float64) (median, least, most float64) {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	if n == 0 {
		return 0, 0, 0
	}
	return (s[(n-1)/2] + s[n/2]) / 2, s[0], s[n-1]
}
