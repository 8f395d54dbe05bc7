package simulate

import "time"

// judge computes the numbers of r from its series. An intent counts at the time when it began, however long it takes. If it counted when it ended,
// late successes of old intents would look like a recovery.
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
	well := 0 // the number of steps, one after the other, at which 95 % of the intents of the last second have succeeded
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

// round rounds f to three digits after the point.
func round(f float64) float64 { return float64(int(f*1000+0.5)) / 1000 }
