package lazy

import (
	"testing"
	"time"
)

func TestAddStopsAtNever(t *testing.T) {
	for _, c := range []struct {
		m    Moment
		d    time.Duration
		want Moment
	}{{1, 2, 3}, {-5, 2, -3}, {1, time.Duration(Never), Never}, {-1, time.Duration(Never), Never - 1}, {Never, 1, Never}} {
		if end := c.m.Add(c.d); end != c.want {
			t.Errorf("%d after %d is %d", c.d, c.m, end)
		}
	}
}

func TestAtIsTheMomentOfATime(t *testing.T) {
	before := Now()
	now := time.Now()
	if m := At(now); m < before || m > Now() || !m.time().Equal(now) {
		t.Errorf("%v is %d, which is %v", now, m, m.time())
	}
	if !before.Over() || Now().Add(time.Hour).Over() || Never.Over() {
		t.Error("over, or not")
	}
}
