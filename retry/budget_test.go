package retry

import (
	"slices"
	"strconv"
	"sync"
	"testing"
)

func TestBudgetIsEarnedBySuccesses(t *testing.T) {
	var b Budget
	for range 10 {
		if !b.Spend(ClassUnknown) {
			t.Fatal("less than ten to begin with")
		}
	}
	if b.Spend(ClassUnknown) {
		t.Error("an eleventh retry without a success")
	}
	for i := range 10 {
		if b.Spend(ClassUnknown) {
			t.Errorf("a retry for %d successes", i)
		}
		b.Succeed()
	}
	if !b.Spend(ClassUnknown) || b.Spend(ClassUnknown) {
		t.Error("ten successes do not earn exactly one retry")
	}
	for range 10_000 {
		b.Succeed()
	}
	if s := b.State(); s.Left != 10 || s.Burst != 10 || s.Spent != 11 || s.Refused != 12 {
		t.Errorf("%+v", s)
	}
}

func TestBudgetPrices(t *testing.T) {
	for class, want := range map[Class]float64{ClassUnknown: 9, ClassTransient: 9, ClassThrottled: 9.5, ClassInFlight: 9.7, ClassUnseen: 9.9} {
		var b Budget
		if !b.Spend(class) || b.State().Left != want {
			t.Errorf("%v leaves %v, want %v", class, b.State().Left, want)
		}
	}
	p := Policy{Budget: &Budget{Burst: 1}}
	for i := range 10 {
		if _, stop := p.Next(FailedAttempt{Attempt: 1, Class: ClassUnseen}); stop != "" {
			t.Errorf("re-send %d of what was never seen: %v", i+1, stop)
		}
	}
	if _, stop := p.Next(FailedAttempt{Attempt: 1, Class: ClassUnseen}); stop != ReasonOverBudget {
		t.Errorf("an eleventh one without a success: %v", stop)
	}
	p.Budget.Succeed()
	if _, stop := p.Next(FailedAttempt{Attempt: 1, Class: ClassUnseen}); stop != "" {
		t.Errorf("a success does not pay for one: %v", stop)
	}
	if _, stop := p.Next(FailedAttempt{Attempt: 2, Class: ClassUnseen}); stop != ReasonOverBudget {
		t.Errorf("the second one: %v", stop)
	}
	if _, stop := p.Next(FailedAttempt{Attempt: 3, Class: ClassInFlight}); stop != ReasonOverBudget {
		t.Errorf("asking after one's own work, where nothing succeeds: %v", stop)
	}
}

func TestBudgetWithoutLimit(t *testing.T) {
	b := Budget{Burst: -1}
	for range 1000 {
		if !b.Spend(ClassUnknown) {
			t.Fatal("refused")
		}
	}
}

// However they meet, callers get what was there and no more.
func TestBudgetConcurrently(t *testing.T) {
	b := Budget{Burst: 100}
	granted := Budget{Burst: -1} // counts
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				if b.Spend(ClassUnknown) {
					granted.Spend(ClassUnknown)
				}
				b.Succeed()
			}
		})
	}
	wg.Wait()
	earned := 8000 / 10
	if n := int(granted.State().Spent); n < 100 || n > 100+earned {
		t.Errorf("%d granted of 100 and %d earned", n, earned)
	}
	if left := b.State().Left; left < 0 || left > 100 {
		t.Errorf("%v left", left)
	}
}

func TestBudgetFor(t *testing.T) {
	a := BudgetFor("API.example.com")
	if a != BudgetFor("api.example.com") || a == BudgetFor("other.example.com") {
		t.Error("not one budget per destination")
	}
	a.Spend(ClassUnknown)
	i := slices.IndexFunc(Budgets(), func(s BudgetState) bool { return s == a.State() })
	if i < 0 || Budgets()[i].Destination != "api.example.com" || Budgets()[i].Spent == 0 {
		t.Errorf("not in %+v", Budgets())
	}
}

// A caller that can name destinations cannot get back a budget that is spent.
func TestForgettingDoesNotRefill(t *testing.T) {
	r := registry{most: 100}
	victim := r.get("victim")
	for victim.Spend(ClassUnknown) {
	}
	for victim.Spend(ClassRateLimited) {
	}
	for i := range 10_000 {
		r.get("junk" + strconv.Itoa(i))
		if r.get("victim").Spend(ClassUnknown) || r.get("victim").Spend(ClassRateLimited) {
			t.Fatalf("a retry out of nothing, after %d others", i)
		}
	}
	if n := len(r.all); n != 100 {
		t.Errorf("%d destinations are remembered", n)
	}
	forgotten := 0
	for range 1000 { // it has been forgotten at some time, or this shows nothing
		if r.get("victim") != victim {
			forgotten++
		}
	}
	if forgotten == 0 {
		t.Error("the victim was never forgotten")
	}
	for range 10 {
		r.get("victim").Succeed()
	}
	if !r.get("victim").Spend(ClassUnknown) {
		t.Error("successes do not bring retries back")
	}
}

func TestLongNames(t *testing.T) {
	r := registry{most: 10}
	long := string(make([]byte, 1<<20))
	if name := r.get(long).name; len(name) != 255 {
		t.Errorf("a name of %d bytes is kept", len(name))
	}
}
