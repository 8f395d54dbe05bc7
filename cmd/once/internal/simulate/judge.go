package simulate

import "time"

// judge computes from the series of r what they say. The service is well again for those
// who begin then: an intent counts for the moment of its begin, however long it takes. If
// it counted where it ends, old ones that succeed at last would pass for new ones.
func judge(r *Result, s Scenario) {
	const second = int(time.Second / Step)
	series := &r.Series
	from, to := int(s.From/Step), int(s.To/Step)
	r.Amplified = ratio(sum(series.Attempts[from:to]), sum(series.Intents[from:to]))
	for i := 0; i+second <= len(series.Intents); i++ {
		r.Peak = max(r.Peak, ratio(sum(series.Attempts[i:i+second]), sum(series.Intents[i:i+second])))
	}
	for _, n := range series.Queue {
		r.Queue = max(r.Queue, n)
	}
	r.Recovery = -1
	well := 0 // for so many steps, in each second that ends there, 95 % have succeeded
	for i := to + second; i <= len(r.won); i++ {
		if float64(sum(r.won[i-second:i])) < 0.95*float64(sum(series.Intents[i-second:i])) {
			well = 0
			continue
		}
		if well++; well == 5*second {
			r.Recovery = round(float64(i-second-well+1-to) / float64(second))
			return
		}
	}
}

func sum(list []int) (n int) {
	for _, v := range list {
		n += v
	}
	return n
}

func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return round(float64(a) / float64(b))
}

// round makes numbers that can be read.
func round(f float64) float64 { return float64(int(f*1000+0.5)) / 1000 }
